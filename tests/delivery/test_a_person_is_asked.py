"""Whole Deliveries that ask a person: suspended without a process, answered from another one, published when approved."""

import asyncio

import pytest

from runner import Dependencies, RunnerFactory, Settled
from runner.admission.lowering import ANSWER_SCHEMA
from runner.contract import activation as a
from runner.contract.canonical import freeze
from runner.contract.errors import CallerError, Code
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import OpenWait, Suspended
from runner.contract.ports import Answer
from tests.delivery.world import PY, SRC, World, command, git

D1 = DeliveryId("d1")
COUNTED = (
    "import pathlib; p = pathlib.Path('src/made.py'); p.write_text((p.read_text() if p.exists() else '') + 'X\\n')"
)


def approval(id: str, *needs: str, routes: tuple[a.RouteTo, ...] = (), **more: object) -> a.Step:
    action = a.ApprovalAction.model_validate({"prompt": f"is {id} good?", "answer_schema": ANSWER_SCHEMA, **more})
    return a.Step(id=id, needs=needs, routes=routes, action=action)


def build(**more: object) -> a.Step:
    return command("build", PY, "-c", COUNTED, scope=SRC, **more)


async def test_approved_from_another_process(world: World) -> None:
    """The Delivery is suspended with the question, holds nothing but its lease, and goes on when it is answered."""
    activation = world.activation(build(), approval("ship", "build"))
    waiting = await world.execute(activation)
    assert isinstance(waiting, Suspended) and waiting.reason == "wait" and waiting.step is not None
    assert [(w.wait, w.prompt) for w in waiting.waits] == [("ship@1", "is ship good?")]
    records = RunnerFactory(world.config()).open_records()
    assert records.waits(D1) == waiting.waits and records.inspect(D1).driver is None
    assert isinstance(await world.execute(activation), Suspended)
    records.answer(D1, None, "approve", who="me")
    settlement = await world.settle(activation)
    assert settlement.outcome == "completed" and settlement.publication.disposition == "published"
    assert git(world.repository, "show", "runner/d1:src/made.py") == "X"
    assert records.verify(D1).ok


async def test_rejected_goes_round(world: World) -> None:
    """Four questions in one loop, each answered by another process: what was built before them is built once per round."""
    names = ("lint", "legal", "look", "ship")
    steps = [build(budget_visits=2)]
    for before, name in zip(("build", *names), names, strict=False):
        last = (a.RouteTo(outcome="reject", to="build"), a.RouteTo(outcome="approve", to="completed"))
        steps.append(approval(name, before, routes=last if name == "ship" else ()))
    activation = world.activation(*steps)
    records = RunnerFactory(world.config()).open_records()
    for said in ("approve", "approve", "approve", "reject", "approve", "approve", "approve", "approve"):
        assert isinstance(await world.execute(activation), Suspended)
        records.answer(D1, None, {"decision": said}, who="me")
    settlement = await world.settle(activation)
    assert settlement.outcome == "completed" and git(world.repository, "show", "runner/d1:src/made.py") == "X\nX"
    assert world.kinds().count("wait.opened") == world.kinds().count("wait.answered") == 8


async def test_answered_while_a_bridge_asks(world: World) -> None:
    """An answer from another process ends the question on the terminal within the inbox's time."""
    asked, ended = asyncio.Event(), asyncio.Event()

    class Slow:
        async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    activation = world.activation(build(), approval("ship", "build"))
    driving = asyncio.create_task(world.execute(activation, Dependencies(waits=Slow())))
    await asked.wait()
    RunnerFactory(world.config()).open_records().answer(D1, "ship@1", {"decision": "reject", "comment": "no"}, who="me")
    result = await driving
    assert isinstance(result, Settled) and ended.is_set() and result.settlement.outcome == "completed"


async def test_two_questions_and_an_answer_without_an_id(world: World) -> None:
    """Nobody guesses which one was meant."""
    activation = world.activation(build(), approval("one", "build"), approval("two", "build"))
    assert isinstance(await world.execute(activation), Suspended)
    records = RunnerFactory(world.config()).open_records()
    with pytest.raises(CallerError) as caught:
        records.answer(D1, None, "approve")
    assert caught.value.code is Code.WAIT_UNKNOWN
    records.answer(D1, "two@1", "approve")
    waiting = await world.execute(activation)
    assert isinstance(waiting, Suspended) and [w.wait for w in waiting.waits] == ["one@1"]


async def test_a_default_that_nobody_answered(world: World) -> None:
    """The wall clock of the machine: expired while nothing ran, applied by the next execute."""
    step = approval("ship", "build", expires_s=0.001, on_expiry="default", default=freeze({"decision": "approve"}))
    activation = world.activation(build(), step)
    while isinstance(result := await world.execute(activation), Suspended):
        assert result.not_before is not None
    assert isinstance(result, Settled) and result.settlement.outcome == "completed"
    assert world.kinds().count("wait.expired") == 1
