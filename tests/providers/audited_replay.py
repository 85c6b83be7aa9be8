"""A replay under an audit hook, as a process of its own: hooks cannot be taken off again."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

from providers.recorded.factory import RecordedFactory
from runner.contract.canonical import freeze
from runner.contract.provider import TurnEnded
from tests.providers.conformance import SUBJECTS, TURNS
from tests.providers.sessions import Leases, dispatch, events_of, executor

EFFECTS = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "os.remove",
    "os.rename",
    "os.mkdir",
)
heard: list[str] = []


def hear(event: str, arguments: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event.startswith(EFFECTS):
        heard.append(event)


async def replay(directory: Path) -> None:
    factory, leases = RecordedFactory(), Leases()
    bound = executor(factory, model=str(directory))
    assert factory.check_executor(bound) == ()
    realm = await factory.open_realm(freeze({}), leases)
    session = await realm.open_session(dispatch(bound))
    for turn in TURNS:
        assert isinstance((await events_of(session, turn))[-1], TurnEnded)
    realm.review(bound, frozenset())
    await realm.close()
    assert leases.taken == 0


async def main(directory: Path) -> None:
    async with SUBJECTS["recorded"].start(directory):
        sys.addaudithook(hear)
        await replay(directory / "fixture")
        print("replay:", heard)
        heard.clear()
        socket.socket().close()
        print("socket:", heard)
        heard.clear()


asyncio.run(main(Path(sys.argv[1])))
