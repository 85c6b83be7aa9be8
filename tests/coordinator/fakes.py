"""A Delivery's rooms behind their ports: each records its own facts, counts its effects, and can die at a chosen point."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runner.contract import events
from runner.contract.activation import Activation, seal
from runner.contract.canonical import FrozenJson, canonical, digest, freeze
from runner.contract.effects import effect_key
from runner.contract.errors import Finding
from runner.contract.ids import DeliveryId, Digest, ObjectId, SiteId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Outcome, Publication, Reason, Retirement
from runner.contract.plan import Plan
from runner.contract.ports import Boundary, Case, Clock, HostStopped, Observer, Rooms, Savepoint, TerminalProposal
from runner.contract.records import Draft, Record
from runner.coordinator import Coordinator
from tests.bridges import Nobody
from tests.ledger.fakes import StillClock

BASE = ObjectId("b" * 40)
TREE = ObjectId("c" * 40)
RESULT = ObjectId("d" * 40)
REF = "refs/heads/result"
MEANING = freeze({"engine": "langgraph", "isolation": "none", "providers": {"fake": {"version": "1"}}})


class DiedError(Exception):
    """The process is gone, as far as a test in one process can show it."""


@dataclass
class World:
    """What lies outside the Runner, and the script that the fake rooms follow."""

    die_at: str = ""
    effects: Counter[str] = field(default_factory=Counter)
    points: list[str] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    conflict: bool = False
    forgetful: bool = False
    """Owners retire without recording it."""
    script: "Callable[[FakeHost], Awaitable[Boundary]] | None" = None
    on_rooms: Callable[[Case], None] = lambda case: None
    checked: int = 0

    def at(self, point: str) -> None:
        self.points.append(point)
        if point == self.die_at:
            raise DiedError(point)


class FakeHost:
    """Runs its steps one after the other, or the world's script."""

    def __init__(self, case: Case, world: World) -> None:
        self.case = case
        self.world = world
        self.writer = case.ledger.writer("host")
        self.stopped = asyncio.Event()
        self.woken = asyncio.Event()
        self.cancelled: Reason | None = None
        self.answers: list[str] = []
        self._loop = asyncio.get_running_loop()

    async def drive(self) -> Boundary:
        self.world.at("host.drive")
        if self.world.script is not None:
            return await self.world.script(self)
        return await self.work()

    async def work(self) -> Boundary:
        for name in ("plan", "tests"):
            if self.cancelled is not None:
                return self.proposal(Outcome.CANCELLED, self.cancelled)
            if self.stopped.is_set():
                return HostStopped()
            await self._step(StepRef(site=SiteId(name)))
            self.world.at(f"host.{name}")
        return self.proposal(Outcome.COMPLETED, Reason.ALL_STEPS_FINISHED)

    async def _step(self, step: StepRef) -> None:
        if self.case.ledger.last(frozenset({events.StepCompleted.KIND}), step):
            return
        begun = step in self.case.ledger.open_steps()
        opening = [] if begun else [Draft(event=events.StepScheduled(), step=step)]
        await asyncio.to_thread(self.writer.append, *opening, started(step))
        self.world.effects[step.key] += 1
        await asyncio.to_thread(self.writer.append, completed(step))
        self.case.progress.progress(step, "done")

    def proposal(self, outcome: Outcome, reason: Reason, step: StepRef | None = None) -> TerminalProposal:
        output = self.case.ledger.artifacts.put({"ok": True}) if outcome is Outcome.COMPLETED else None
        return TerminalProposal(outcome=outcome, reason=reason, step=step, detail="as scripted", output=output)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self.stopped.set)
        self._loop.call_soon_threadsafe(self.woken.set)

    def cancel(self, reason: Reason) -> None:
        self.cancelled = reason
        self.woken.set()

    def answered(self, wait: str) -> None:
        self.answers.append(wait)
        self.woken.set()

    async def retire(self, authorization: Digest) -> Retirement:
        return _retire(self.case, self.world, "host", authorization)


class FakeInvocation:
    def __init__(self, case: Case, world: World) -> None:
        self.case, self.world = case, world

    async def conclude(self) -> tuple[Finding, ...]:
        self.world.at("invocation.conclude")
        return self.world.findings

    async def retire(self, authorization: Digest) -> Retirement:
        return _retire(self.case, self.world, "invocation", authorization)


class FakeCustody:
    def __init__(self, case: Case, world: World) -> None:
        self.case, self.world = case, world
        self.writer = case.ledger.writer("custody")

    def baseline(self) -> Savepoint:
        self.world.at("custody.baseline")
        if not self.case.ledger.last(frozenset({events.SavepointTaken.KIND})):
            self.writer.append(Draft(event=events.SavepointTaken(savepoint=BASE, tree=TREE, role="baseline")))
        return Savepoint(commit=BASE, tree=TREE)

    def settle_interrupted(self) -> None:
        self.world.at("custody.settle_interrupted")

    def preserve(self) -> tuple[ObjectId, ObjectId]:
        self.world.at("custody.preserve")
        self.writer.append(Draft(event=events.ResultPreserved(tree=TREE, commit=RESULT, ref="refs/runner/x")))
        self.world.at("custody.preserved")
        return TREE, RESULT

    def publish(self, *, requested: bool) -> Publication:
        self.world.at("custody.publish")
        if requested:
            if self.case.ledger.last(frozenset({events.PublicationAsked.KIND})) is None:
                self.writer.append(Draft(event=events.PublicationAsked(ref=REF, expected="absent", new=RESULT)))
            self.world.at("custody.asked")
            if not self.world.effects["published"] and not self.world.conflict:
                self.world.effects["published"] += 1
            self.world.at("custody.moved")
        publication = self._publication(requested)
        self.writer.append(Draft(event=events.PublicationKnown(publication=publication)))
        self.world.at("custody.published")
        return publication

    def _publication(self, requested: bool) -> Publication:
        if not requested:
            return Publication(disposition="not-requested", ref=REF, old="absent", new="absent")
        if self.world.conflict:
            return Publication(disposition="conflict", ref=REF, old=BASE, new=BASE, reason="moved")
        return Publication(disposition="published", ref=REF, old="absent", new=RESULT)

    def retire(self, authorization: Digest) -> Retirement:
        return _retire(self.case, self.world, "custody", authorization)


def _retire(case: Case, world: World, owner: events.Owner, authorization: Digest) -> Retirement:
    world.at(f"{owner}.retire")
    retirement = Retirement.model_validate({"owner": owner, "authorization": authorization})
    if not world.forgetful:
        case.ledger.writer(owner).append(Draft(event=events.OwnerRetired(retirement=retirement)))
    world.effects[f"retired {owner}"] += 1
    world.at(f"{owner}.retired")
    return retirement


class FakeAssembly:
    def __init__(self, world: World) -> None:
        self.world = world

    def check(self, activation: Activation) -> None:
        assert activation.delivery
        self.world.checked += 1

    def fitting(self, plan: Plan, records: tuple[Record, ...], inside: StepRef | None) -> tuple[Finding, ...]:
        return ()

    def bring(
        self, activation: Activation, source: DeliveryLayout, layout: DeliveryLayout, savepoints: tuple[ObjectId, ...]
    ) -> None:
        self.world.effects[f"brought {' '.join(savepoints)}"] = 1

    @asynccontextmanager
    async def rooms(self, case: Case) -> AsyncIterator[Rooms]:
        self.world.on_rooms(case)
        host, invocation, custody = (kind(case, self.world) for kind in (FakeHost, FakeInvocation, FakeCustody))
        try:
            yield Rooms(host=host, invocation=invocation, custody=custody)  # type: ignore[arg-type]
        finally:
            self.world.effects["rooms closed"] = 1


class Listener:
    """An observer that remembers; ``settled`` is set once the settlement arrived."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.settled = threading.Event()

    def record(self, record: Record) -> None:
        self.kinds.append(record.event.KIND)
        if record.event.KIND == events.DeliverySettled.KIND:
            self.settled.set()

    def progress(self, step: StepRef, text: str) -> None:
        self.texts.append(f"{step} {text}")


def started(step: StepRef) -> Draft:
    return Draft(event=events.StepAttemptStarted(savepoint=BASE, input=digest(step.key)), step=step, attempt=1)


def completed(step: StepRef) -> Draft:
    return Draft(event=events.StepCompleted(outcome="success", output=None, savepoint=BASE), step=step, attempt=1)


def tool_called(step: StepRef, effect: str, call: str = "c1") -> Draft:
    value = {"to": "somebody"}
    event = events.ToolCalled.model_validate(
        {
            "call": call,
            "tool": "mail",
            "caller": "model",
            "effect": effect,
            "key": effect_key(DeliveryId("d"), step, "mail", freeze(value), 0),
            "input": {"digest": digest(value), "bytes": len(canonical(value)), "inline": value},
        }
    )
    return Draft(event=event, step=step, attempt=1)


def activation(
    worktree: Path, delivery: str = "one", *, say: FrozenJson = "hello", timeout_s: float | None = None
) -> Activation:
    return seal(
        delivery=delivery,
        admitted_at="2026-03-01T12:00:00Z",
        workflow={
            "name": "w",
            "input_schema": {},
            "steps": ({"id": "plan", "action": {"kind": "decision", "on": "{{ 'a' }}"}},),
        },
        workspace={"worktree": str(worktree), "base_commit": BASE, "base_tree": TREE},
        target={"ref": REF, "expected": "absent"},
        limits={"delivery_timeout_s": timeout_s},
        input=say,
    )


def interpret(document: Activation | bytes) -> tuple[Activation, Plan]:
    found = Activation.model_validate_json(document) if isinstance(document, bytes) else document
    plan = Plan(
        delivery=DeliveryId(found.delivery),
        activation=Digest(found.binding_identity),
        sites=(),
        reopens=(),
        output=None,
        input=found.input,
        digest=digest(["plan", found.binding_identity]),
    )
    return found, plan


@dataclass(kw_only=True)
class House:
    """One state root and one worktree; each ``coordinator`` is a new process, as it were."""

    root: Path
    world: World = field(default_factory=World)
    clock: Clock = field(default_factory=StillClock)
    meaning: FrozenJson = field(default_factory=lambda: MEANING)

    def __post_init__(self) -> None:
        self.worktree.mkdir(parents=True, exist_ok=True)

    @property
    def worktree(self) -> Path:
        return self.root / "worktree"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def coordinator(self, observer: Observer | None = None) -> Coordinator:
        return Coordinator(
            waits=Nobody(),
            interactions=Nobody(),
            state_root=self.state,
            assembly=FakeAssembly(self.world),
            clock=self.clock,
            observer=observer,
            meaning=self.meaning,
            isolation="none",
            runner_version="0.1.0",
            interpret=interpret,
        )

    def activation(
        self, delivery: str = "one", *, say: FrozenJson = "hello", timeout_s: float | None = None
    ) -> Activation:
        return activation(self.worktree, delivery, say=say, timeout_s=timeout_s)
