"""The compiled graph against a naive reference on random workflows, with steps of random durations."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from runner.contract.canonical import freeze
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.outcomes import OpenWait, Outcome, Reason
from runner.contract.plan import FAILING
from runner.contract.ports import (
    Answer,
    Boundary,
    Completed,
    Deferred,
    Dispatch,
    Disposition,
    Failed,
    HostSuspended,
    TerminalProposal,
)
from tests.langgraph_host.fakes import Act, Process, VirtualClock, World, activation
from tests.langgraph_host.reference import Reference, Sample, random_workflow


def timed(sample: Sample, clock: VirtualClock, rnd: random.Random) -> Act:
    """Steps that take some time, or none, and end as the sample chooses."""

    async def act(dispatch: Dispatch) -> Disposition:
        seconds = rnd.choice([0.0, 0.0, 1.0, 2.0, 5.0, 30.0])
        if seconds:
            await clock.sleep(seconds)
        verdict = sample.choose(dispatch.step.site, dispatch.step.visit)
        if verdict == "failure":
            return Failed(code="broken", message="broken", retriable=True)
        return Completed(value=freeze({"verdict": verdict}))

    return act


def counted(act: Act, count: int) -> tuple[Act, asyncio.Event]:
    """``act``, and an event that is set when it is asked for the ``count``-th time."""
    reached, asked = asyncio.Event(), iter(range(1, 1_000_000))

    async def counting(dispatch: Dispatch) -> Disposition:
        if next(asked) == count:
            reached.set()
        return await act(dispatch)

    return counting, reached


def last_ends(process: Process) -> tuple[dict[str, str], dict[str, int]]:
    """Each site's outcome and number at its last visit."""
    ended: dict[str, str] = {}
    visits: dict[str, int] = {}
    for key, outcome in process.ends().items():
        site, _, visit = key.partition("@")
        if int(visit) > visits.get(site, 0):
            ended[site], visits[site] = outcome, int(visit)
    return ended, visits


SEEDS = range(int(os.environ.get("ORACLE_FROM", "0")), int(os.environ.get("ORACLE_UPTO", "60")))


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_workflow_ends_as_the_reference_says(tmp_path: Path, seed: int) -> None:
    """Whatever the durations: the same visits, the same outcomes, nothing stuck, nothing run twice."""
    sample = random_workflow(seed)
    rnd = random.Random(seed)
    reference = Reference(sample.steps, sample.choose, sample.back)
    reference.run(rnd)
    world = World(tmp_path / "d", activation(*sample.steps), checkpoint_every=rnd.choice([2, 5, 1000]))
    world.act = timed(sample, world.clock, rnd)
    async with world.process() as process:
        boundary = await process.host.drive()
        asked = [d.step.key for d in process.invocation.asked]
        assert len(asked) == len(set(asked))
        compare(process, boundary, sample, reference)


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_workflow_interrupted_anywhere_ends_the_same(tmp_path: Path, seed: int) -> None:
    """Drives that are cancelled at random moments, with and without the checkpoints they left, come to the same end."""
    sample = random_workflow(seed)
    rnd = random.Random(f"interrupted {seed}")
    reference = Reference(sample.steps, sample.choose, sample.back)
    reference.run(rnd)
    world = World(tmp_path / "d", activation(*sample.steps), checkpoint_every=rnd.choice([1, 3, 1000]))
    world.act = timed(sample, world.clock, rnd)
    plain = world.act
    for _ in range(4):
        world.act, reached = counted(plain, rnd.randint(1, 5))
        async with world.process() as process:
            driving = asyncio.create_task(process.host.drive())
            waiting = asyncio.create_task(reached.wait())
            await asyncio.wait({driving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            for _ in range(rnd.choice([0, 1, 3, 10, 100])):
                await asyncio.sleep(0)
            waiting.cancel()
            driving.cancel()
            await asyncio.wait({driving})
            assert process.invocation.running == set()
        world.act = plain
        if rnd.random() < 0.5:
            world.forget_checkpoints()
    async with world.process() as process:
        compare(process, await process.host.drive(), sample, reference)


class Person:
    """Answers questions as the sample chooses, after some time or when a later drive asks; sometimes with nonsense first."""

    def __init__(self, sample: Sample, clock: VirtualClock, rnd: random.Random, patience: int) -> None:
        self.sample, self.clock, self.rnd, self.left = sample, clock, rnd, patience
        self.asked: list[str] = []

    async def ask(self, _: DeliveryId, wait: OpenWait) -> Answer | Deferred:
        self.asked.append(wait.wait)
        await self.clock.sleep(self.rnd.choice([0.0, 1.0, 3.0, 60.0]))
        if self.left > 0 and self.rnd.random() < 0.5:
            self.left -= 1
            return Deferred()
        if self.rnd.random() < 0.2:
            return Answer(value="nonsense", who="p")
        return self.answer(wait)

    def answer(self, wait: OpenWait) -> Answer:
        step = StepRef.parse(wait.step)
        return Answer(value=freeze({"verdict": self.sample.choose(step.site, step.visit)}), who="p")


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_workflow_with_people_ends_as_the_reference_says(tmp_path: Path, seed: int) -> None:
    """Answered at once, later, by another drive or from elsewhere: the same end, no step repeated, no visit asked about after
    its answer."""
    sample = random_workflow(seed, asks=0.5)
    rnd = random.Random(f"people {seed}")
    reference = Reference(sample.steps, sample.choose, sample.back)
    reference.run(rnd)
    world = World(tmp_path / "d", activation(*sample.steps), checkpoint_every=rnd.choice([1, 3, 1000]))
    world.act = timed(sample, world.clock, rnd)
    person = world.bridge = Person(sample, world.clock, rnd, patience=rnd.randint(0, 10))
    asked: list[str] = []
    for _ in range(200):
        async with world.process() as process:
            boundary = await process.host.drive()
            asked += [d.step.key for d in process.invocation.asked]
            assert len(asked) == len(set(asked))
            if not isinstance(boundary, HostSuspended):
                compare(process, boundary, sample, reference)
                return
            assert boundary.reason == "wait" and len(process.ledger.open_steps()) == len(boundary.waits)
            for wait in boundary.waits:
                if rnd.random() < 0.4:
                    process.answer(wait.wait, person.answer(wait).value)
        if rnd.random() < 0.3:
            world.forget_checkpoints()
    raise AssertionError("it never ended")


def compare(process: Process, boundary: Boundary, sample: Sample, reference: Reference) -> None:
    """The boundary and how each site ended at its last visit, against the reference."""
    assert isinstance(boundary, TerminalProposal)
    assert process.ledger.open_steps() == ()
    fatal = [s for s, outcome in reference.ended.items() if outcome == "budget-exhausted" and _unrouted(sample, s)]
    if fatal:
        assert boundary.reason is Reason.BUDGET_EXHAUSTED
        assert boundary.step is not None and boundary.step.site == fatal[0]
        return
    ended, visits = last_ends(process)
    assert (ended, visits) == (reference.ended, reference.visit)
    leaves = [s.id for s in process.case.plan.sites if not s.successors]
    good = any(ended[leaf] not in FAILING | {"skipped"} for leaf in leaves)
    assert boundary.outcome is (Outcome.COMPLETED if good else Outcome.INCOMPLETE)


def _unrouted(sample: Sample, site: str) -> bool:
    return not any(r.outcome == "budget-exhausted" for s in sample.steps if s.id == site for r in s.routes)
