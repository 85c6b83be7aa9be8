"""The same over a real connection: a session with an endpoint goes on in another process, and the secret is at rest."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from providers.openai.factory import OpenAiFactory
from runner.contract.canonical import freeze
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Answer, AwaitingInput, Completed, Deferred
from tests.invocation.fakes import AGENT, GOOD, SECRET, Delivery, executor
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import Hang, Reply, ScriptedOpenAi, in_order

REPLIES: tuple[Reply, ...] = (
    Calls((Call("write", {"path": "a", "content": "x"}, id="w"),), reasoning="first, a file"),
    Calls((Call("ask", {"question": "Go on?"}, id="q"), Call("read", {"path": "a"}, id="r"))),
    Result({"verdict": "good"}),
)


class Environment(Mapping[str, str]):
    """Counts how often the secret is read."""

    def __init__(self) -> None:
        self.read = 0

    def __getitem__(self, name: str) -> str:
        if name != "FAKE_KEY":
            raise KeyError(name)
        self.read += 1
        return SECRET

    def __iter__(self) -> Iterator[str]:
        return iter(("FAKE_KEY",))

    def __len__(self) -> int:
        return 1


class Waiting:
    """Answers from the second execute on; remembers how often the secret had been read when it was asked."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.read: list[int] = []

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer | Deferred:
        self.read.append(self._environment.read)
        await asyncio.sleep(0)
        assert self._environment.read == self.read[-1]
        return Deferred() if len(self.read) == 1 else Answer(value="yes", who="p")


async def life(tmp: Path, server: ScriptedOpenAi, environment: Environment, bridge: Waiting) -> Delivery:
    delivery = Delivery(tmp, opened=False)
    delivery.factory = OpenAiFactory()
    delivery.executors = (executor(delivery.factory),)
    delivery.actions = {"code": AGENT.model_copy(update={"asks": True})}
    delivery.settings, delivery.environment, delivery.bridge = {"base_url": server.base_url}, environment, bridge
    delivery.open()
    return delivery


async def test_a_session_with_an_endpoint_goes_on(tmp_path: Path) -> None:
    """Killed in its last call after it had waited for a person: three answers were given by the endpoint, and what it saw
    last is what an undisturbed session would have told it, its own reasoning included. The secret is read once for each
    call, not for what is replayed, and not while the agent waits."""
    environment = Environment()
    bridge = Waiting(environment)
    hanging, loop = asyncio.Event(), asyncio.get_running_loop()
    replies = in_order(REPLIES[0], REPLIES[1], Hang(), REPLIES[2])

    def script(body: Mapping[str, Any]) -> Reply:
        reply = replies(body)
        if isinstance(reply, Hang):
            loop.call_soon_threadsafe(hanging.set)
        return reply

    with ScriptedOpenAi(script) as server:
        first = await life(tmp_path, server, environment, bridge)
        said = await first.invocation.invoke(first.dispatch())
        assert isinstance(said, AwaitingInput)
        await first.registry.close()
        first.close()
        assert len(server.requests) == 2

        second = await life(tmp_path, server, environment, bridge)
        task = asyncio.create_task(second.invocation.invoke(second.dispatch()))
        await hanging.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await second.registry.close()
        second.close()

        third = await life(tmp_path, server, environment, bridge)
        assert await third.invocation.invoke(third.dispatch()) == Completed(value=freeze(GOOD))
        await third.registry.close()
        third.close()
        last, again = server.requests[2].body, server.requests[3].body
    assert last == again
    assert [m["role"] for m in last["messages"]] == ["system", "user", "assistant", "tool", "assistant", "tool", "tool"]
    assert last["messages"][2]["reasoning_content"] == "first, a file"
    assert [m["tool_call_id"] for m in last["messages"] if m["role"] == "tool"] == ["w", "q", "r"]
    assert bridge.read == [1 + 2, 1 + 2 + 1]
    assert environment.read == 3 + 4
