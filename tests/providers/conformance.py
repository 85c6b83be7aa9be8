"""What every provider keeps to, whatever is behind it. A new provider adds a ``Subject``; the suite is the same for all.

A subject plays one script: a turn that asks for the tool ``read``, a turn with its result that is answered by a structured
result, and then a turn whose call fails.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from providers.openai.factory import OpenAiFactory
from providers.recorded.factory import RecordedFactory
from runner.contract.activation import Executor
from runner.contract.canonical import freeze
from runner.contract.provider import (
    Prompt,
    ProviderFactory,
    Realm,
    ToolResult,
    ToolResults,
    Turn,
)
from tests.providers.fixtures import record
from tests.providers.sessions import SECRET, Leases, dispatch, executor
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import Reply, ScriptedOpenAi, Status, in_order

TURNS: tuple[Turn, ...] = (
    Prompt(text="Read a.txt and answer."),
    ToolResults(results=(ToolResult(id="call_1", ok=True, text="text of a.txt"),)),
)
FAILING = Prompt(text="Now fail.")
REPLIES: tuple[Reply, ...] = (
    Calls((Call("read", {"path": "a.txt"}),), text=f"I hold {SECRET}."),
    Result({"answer": "yes"}),
)
FAILURE = Status(500, message=f"the key {SECRET} is bad")


@dataclass(frozen=True)
class Live:
    """A started subject: one realm, and what to bind a session to."""

    realm: Realm
    bound: Executor
    leases: Leases


@dataclass(frozen=True)
class Subject:
    """One provider under the suite. ``start`` gets an empty directory."""

    factory: ProviderFactory
    digest: str
    start: Callable[[Path], AbstractAsyncContextManager[Live]]


@asynccontextmanager
async def _openai(directory: Path) -> AsyncIterator[Live]:
    factory, leases = OpenAiFactory(), Leases()
    with ScriptedOpenAi(in_order(*REPLIES, FAILURE, FAILURE)) as server:
        realm = await factory.open_realm(freeze({"base_url": server.base_url}), leases)
        yield Live(realm=realm, bound=executor(factory), leases=leases)
        await realm.close()


@asynccontextmanager
async def _recorded(directory: Path) -> AsyncIterator[Live]:
    async with _openai(directory) as live:
        await record(live.realm, dispatch(live.bound), TURNS, directory / "fixture")
    factory, leases = RecordedFactory(), Leases()
    realm = await factory.open_realm(freeze({}), leases)
    yield Live(realm=realm, bound=executor(factory, model=str(directory / "fixture")), leases=leases)
    await realm.close()


SUBJECTS = {
    "openai": Subject(
        factory=OpenAiFactory(),
        digest="sha256:697681c5a3d1f712214c0f37d62dab5e4a379f7fafbe661ab15f5992847bc0ae",
        start=_openai,
    ),
    "recorded": Subject(
        factory=RecordedFactory(),
        digest="sha256:ef300d877607a2c4023728c2497422688ef956cec5e97ae577b8008499f7ad4c",
        start=_recorded,
    ),
}

HOSTILE_VALUES: tuple[Any, ...] = (
    None,
    [],
    "text",
    3,
    {"": 1},
    {"base_url": 3},
    {"base_url": "http://[::1"},
    {"digest": [1]},
    {"headers": {"a b": 1}},
    {"prices": []},
    {"x" * 1000: {"y": [None] * 100}},
)
