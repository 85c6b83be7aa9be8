"""One agent over three processes: it asks and nobody answers, it is stopped within a call, and it ends as if it had been one."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from runner import Dependencies, RunnerFactory, Settled
from runner.clock import SystemClock
from runner.contract.events import SavepointTaken, ToolCalled
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import Suspended
from tests.delivery.world import EVERYTHING, World, agent
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import Hang, Reply, ScriptedOpenAi, in_order


class Hasty(SystemClock):
    """Has no patience for a call that hangs."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.2))


def write(path: str, text: str) -> Call:
    return Call("write", {"path": path, "content": text})


APPEND = Call("edit", {"path": "src/a", "old": ";", "new": "1;"})
"""Made twice, it shows."""


async def test_it_asks_is_stopped_and_goes_on(world: World) -> None:
    """Five answers of the endpoint, each asked for once but the one that was on its way; every tool call made once, over the
    files of the one before; a savepoint beside each that wrote; one settlement."""
    hanging, loop = asyncio.Event(), asyncio.get_running_loop()
    replies = in_order(
        Calls((write("src/a", "1;"), APPEND)),
        Calls((Call("ask", {"question": "Which colour?", "options": ["red", "blue"]}), write("src/b", "2"))),
        Calls((APPEND,)),
        Hang(),
        Result({"summary": "done"}),
    )

    def script(body: Mapping[str, Any]) -> Reply:
        reply = replies(body)
        if isinstance(reply, Hang):
            loop.call_soon_threadsafe(hanging.set)
        return reply

    with ScriptedOpenAi(script) as server:
        world.base_url = server.base_url
        activation = world.activation(agent("code", "Paint it.", EVERYTHING, asks=True))

        first = await world.execute(activation)
        assert isinstance(first, Suspended)
        (wait,) = first.waits
        assert (wait.wait, wait.step, wait.prompt) == ("code@1/1/t4", "code@1", "Which colour?\n- red\n- blue")
        RunnerFactory(world.config()).open_records().answer(DeliveryId("d1"), wait.wait, "blue")

        second = asyncio.create_task(world.execute(activation, Dependencies(clock=Hasty())))
        await hanging.wait()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second

        third = await world.execute(activation)
    assert isinstance(third, Settled)
    assert third.settlement.outcome == "completed"
    assert len(server.requests) == 5
    told = [m["content"] for m in server.requests[4].body["messages"] if m["role"] == "tool"]
    assert told[2].endswith(': "blue"')
    assert (world.worktree / "src" / "a").read_text() == "111;"
    assert (world.worktree / "src" / "b").read_text() == "2"
    events = [record.event for record in world.records()]
    assert [e.tool for e in events if isinstance(e, ToolCalled)] == ["write", "edit", "write", "ask", "edit"]
    marks = [e.changed for e in events if isinstance(e, SavepointTaken) and e.role == "mid-step"]
    assert marks == [("src/a",), ("src/a",), ("src/b",), ("src/a",)]
    assert world.kinds().count("session.started") == 1
