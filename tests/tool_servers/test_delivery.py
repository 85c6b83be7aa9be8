"""Whole Deliveries whose agent uses declared tools: what is recorded, asked of a person, and never done twice."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner import NeedsIntervention, RunnerFactory, RunnerFactoryConfig, Settled
from runner.contract.activation import Activation, DeclaredTool
from runner.contract.config import ToolServerConfig
from runner.contract.errors import CallerError, Code, EnvironmentFault
from runner.contract.events import ToolCalled, ToolFailed, ToolSucceeded
from runner.contract.ids import DeliveryId
from tests.delivery.world import EVERYTHING, SECRET, World, agent
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import ScriptedOpenAi, in_order
from tests.tool_servers.bench import scripted

ONE = DeliveryId("d1")
DONE = Result({"summary": "done"})


@dataclass
class ToolWorld(World):
    """A world with one tool server."""

    servers: tuple[ToolServerConfig, ...] = ()

    def config(self) -> RunnerFactoryConfig:
        return super().config().model_copy(update={"tool_servers": self.servers})

    async def using(self, name: str, effect: Any) -> Activation:
        """One agent that may use the tool ``name`` of the server, as it is described now."""
        offers = (await RunnerFactory(self.config()).offers(("tracker",)))["tracker"]
        offer = next(o for o in offers if o.remote == name)
        tool = DeclaredTool(
            name="do_it",
            server="tracker",
            remote=name,
            description=offer.description,
            parameters=offer.parameters,
            effect=effect,
            digest=offer.digest,
        )
        return self.activation(agent("code", "Do it.", EVERYTHING, tools=("read", "do_it")), tools=(tool,))

    def calls(self) -> list[str]:
        """What arrived at the server: tool and key."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def results(self) -> list[Any]:
        return [r.event for r in self.records() if isinstance(r.event, ToolSucceeded | ToolFailed)]


@pytest.fixture
def world(tmp_path: Path) -> ToolWorld:
    built = ToolWorld(tmp_path)
    built.build()
    built.servers = (scripted(tmp_path),)
    return built


def asks(text: str | None = None) -> Calls:
    return Calls((Call("do_it", {} if text is None else {"text": text}),))


async def test_a_declared_tool_is_called_and_screened(world: ToolWorld) -> None:
    """The model is offered it under the package's name with the frozen description; its result is harmless and without
    secrets before anything is recorded or told."""
    with ScriptedOpenAi(in_order(asks(f"{SECRET} \u202e"), DONE)) as server:
        world.base_url = server.base_url
        await world.settle(await world.using("hostile", "read"))
        first, second = (request.body for request in server.requests)
    offered = {t["function"]["name"]: t["function"] for t in first["tools"]}
    assert offered["do_it"]["description"] == "hostile \\x1b[31m"
    told = next(m["content"] for m in second["messages"] if m["role"] == "tool")
    assert told == "\\x1b[2J\\x00[redacted] \\u202e"
    (result,) = world.results()
    assert isinstance(result, ToolSucceeded) and result.value is not None and result.value.inline == told
    assert SECRET.encode() not in world.every_byte()


async def test_a_call_without_an_end_is_asked_of_a_person(world: ToolWorld) -> None:
    """An external call whose server died is recorded as begun and never made again: the Delivery needs a person, again and
    again, and what the person says is the result."""
    with ScriptedOpenAi(in_order(asks("x"), DONE)) as server:
        world.base_url = server.base_url
        activation = await world.using("die", "external")
        for _ in range(2):
            result = await world.execute(activation)
            assert isinstance(result, NeedsIntervention)
            (effect,) = result.effects
            assert (effect.tool, effect.step) == ("do_it", "code@1")
        RunnerFactory(world.config()).open_records().resolve(ONE, effect.call, "happened", "ticket 7", "me")
        assert isinstance(await world.execute(activation), Settled)
        told = next(m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool")
    assert told == "ticket 7"
    assert len(world.calls()) == 1 and world.calls()[0] == f"die {effect.key}"


async def test_a_driver_stopped_within_a_repeatable_call_makes_it_again(world: ToolWorld) -> None:
    """Under the same key; an idempotent tool can tell that it is the same."""
    with ScriptedOpenAi(in_order(asks("x"), DONE)) as server:
        world.base_url = server.base_url
        world.pipe("hung")
        activation = await world.using("hang_once", "idempotent")
        running = asyncio.create_task(world.execute(activation))
        await world.begun(world.root / "hung", running)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert isinstance(await world.execute(activation), Settled)
    key = next(r.event.key for r in world.records() if isinstance(r.event, ToolCalled))
    assert world.calls() == [f"hang_once {key}"] * 2


async def test_drift_ends_the_step_before_the_call(world: ToolWorld) -> None:
    """A tool that is described otherwise than it was admitted is not called: the step fails as binding drift."""
    with ScriptedOpenAi(in_order(asks("x"), DONE)) as server:
        world.base_url = server.base_url
        activation = await world.using("changing", "external")
        (world.root / "changed").touch()
        settlement = await world.settle(activation)
    assert (settlement.outcome, settlement.reason) == ("failed", "binding-drift")
    assert world.calls() == [] and "tool.called" not in world.kinds()


async def test_a_server_that_is_not_there_leaves_the_delivery_open(world: ToolWorld) -> None:
    """The machine's fault, said with the server; the same execute goes on once it is back."""
    program = world.root / "program"
    program.symlink_to(sys.executable)
    world.servers = (
        scripted(world.root).model_copy(update={"command": (str(program), *world.servers[0].command[1:])}),
    )
    with ScriptedOpenAi(in_order(asks("x"), DONE)) as server:
        world.base_url = server.base_url
        activation = await world.using("echo", "external")
        program.unlink()
        with pytest.raises(EnvironmentFault, match="the tool server tracker cannot be used"):
            await world.execute(activation)
        program.symlink_to(sys.executable)
        assert isinstance(await world.execute(activation), Settled)
    assert len(world.calls()) == 1


async def test_an_unconfigured_server_is_refused_first(world: ToolWorld) -> None:
    """Before any effect, naming the tool and the server."""
    activation = await world.using("echo", "external")
    world.servers = ()
    with pytest.raises(CallerError, match="do_it: the tool server tracker is not configured") as refused:
        await world.execute(activation)
    assert refused.value.code is Code.TOOL_SERVER_UNKNOWN
    assert not world.state.exists()
