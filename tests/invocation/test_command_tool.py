"""The command tool: a process that a model asks for, journaled and contained like a step's own."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.contract.config import Isolation
from runner.contract.events import ProcessStarted, ToolCalled, ToolFailed, ToolSucceeded
from runner.contract.ids import ObjectId
from runner.contract.ports import Completed, Savepoint, Uncertain
from runner.contract.scope import READ_ONLY
from tests.invocation.fakes import AGENT, SECRET, Delivery, asks, completes

Marks = list[tuple[str, ...] | None]


class World:
    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.marks: Marks = []

    def mark(self, paths: tuple[str, ...] | None) -> Savepoint:
        self.marks.append(paths)
        return Savepoint(commit=ObjectId("0" * 40), tree=ObjectId("0" * 40))

    async def said(self, *commands: dict[str, object]) -> list[str]:
        """What the model is told of ``commands``, one turn each."""
        self.delivery.script.turns = [*(asks(("command", dict(c))) for c in commands), completes()]
        end = await self.delivery.invocation.invoke(self.delivery.dispatch(mark=self.mark))
        assert isinstance(end, Completed), end
        events = [record.event for record in self.delivery.records()]
        ends = [event for event in events if isinstance(event, ToolSucceeded | ToolFailed)]
        kept = self.delivery.ledger.artifacts
        return [str(kept.get(end.value)) if isinstance(end, ToolSucceeded) else end.message for end in ends]

    def effects(self) -> list[str]:
        return [r.event.effect for r in self.delivery.records() if isinstance(r.event, ToolCalled)]


@pytest.fixture(params=["none", "bubblewrap"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    isolation: Isolation = request.param
    delivery = Delivery(tmp_path, opened=False)
    delivery.isolation = isolation
    delivery.actions = {"code": AGENT.model_copy(update={"tools": ("read", "command")})}
    delivery.open()
    yield World(delivery)
    delivery.close()


async def test_how_it_ended_and_what_it_said(world: World) -> None:
    """The model hears exit status, signal or timeout and both outputs; a status other than 0 is no failure of the tool."""
    (world.delivery.worktree / "sub").mkdir()
    told = await world.said(
        {"command": "echo out; echo bad >&2; exit 3"},
        {"command": "pwd; kill -9 $$", "cwd": "sub"},
        {"command": "echo > new; sleep 1000", "timeout_s": 0.3},
        {"command": "true", "cwd": "../.."},
    )
    assert told[0] == "exit 3\n--- output ---\nout\n\n--- errors ---\nbad\n"
    assert told[1] == f"signal 9\n--- output ---\n{world.delivery.worktree}/sub\n"
    assert told[2] == "it was ended because its time was over"
    assert told[3] == "the working directory leads out of the worktree"
    assert (world.delivery.worktree / "new").exists()


async def test_its_effect_class_and_its_savepoint(world: World) -> None:
    """Contained it is ``workspace``, else ``external``; nobody knows what it changed, so the savepoint looks for itself."""
    await world.said({"command": "true"})
    assert world.effects() == ["workspace" if world.delivery.isolation == "bubblewrap" else "external"]
    assert world.marks == [None]


async def test_a_secret_in_its_output_is_not_shown(world: World) -> None:
    """Neither to the model nor to the ledger; and control characters are harmless."""
    told = await world.said({"command": f"printf 'a{SECRET[:9]}'; printf '{SECRET[9:]}\\033[2J'"})
    assert "[redacted]" in told[0] and SECRET not in told[0] and "\x1b" not in told[0]


async def test_intent_and_identity_are_one_transaction(world: World) -> None:
    """Who the process is stands right behind what was asked, before it has done anything."""
    await world.said({"command": "echo x > ran"})
    kinds = world.delivery.kinds()
    at = kinds.index("tool.called")
    assert kinds[at : at + 3] == ["tool.called", "process.started", "tool.succeeded"]
    called, started = (r.event for r in world.delivery.records()[at : at + 2])
    assert isinstance(called, ToolCalled) and isinstance(started, ProcessStarted)
    assert (called.call, called.caller) == (started.call, "model")


async def test_cancelled_and_gone_on(world: World) -> None:
    """What a cancelled command did is as unknown as after a crash: contained it is made again, else a person is asked."""
    delivery = world.delivery
    delivery.script.turns = [asks(("command", {"command": "echo x >> runs; sleep 1000"}))]
    work = asyncio.create_task(delivery.invocation.invoke(delivery.dispatch(mark=world.mark)))
    while not (delivery.worktree / "runs").exists():  # noqa: ASYNC110 - written by a process of nobody's
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert delivery.kinds()[-2:] == ["tool.called", "process.started"] and world.marks == []
    delivery.again()
    again = asyncio.create_task(delivery.invocation.invoke(delivery.dispatch(mark=world.mark)))
    if delivery.isolation == "none":
        assert isinstance(await again, Uncertain)
        return
    while (delivery.worktree / "runs").read_text() != "x\nx\n":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    again.cancel()
    with pytest.raises(asyncio.CancelledError):
        await again


async def test_a_read_only_scope(tmp_path: Path) -> None:
    """Contained, it can look and not touch, and there is nothing to take a savepoint of."""
    delivery = Delivery(tmp_path, opened=False)
    delivery.isolation = "bubblewrap"
    delivery.actions = {"code": AGENT.model_copy(update={"tools": ("command",), "scope": READ_ONLY})}
    delivery.scope = READ_ONLY
    delivery.open()
    world = World(delivery)
    assert "Read-only file system" in (await world.said({"command": "echo > new"}))[0]
    assert world.marks == []
    delivery.close()
