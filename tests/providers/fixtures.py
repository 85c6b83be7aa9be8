"""Recordings for the tests of ``recorded``, written as a person would: by hand, through the format's own functions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.contract.provider import CallIntent, NativeSession, Realm, SessionDispatch, Turn, TurnEvent
from runner.contract.recording import Header, file_name, line_bytes, turn_line
from tests.providers.sessions import events_of


async def record(
    realm: Realm,
    dispatch: SessionDispatch,
    turns: tuple[Turn, ...],
    directory: Path,
    *,
    volatile: tuple[str, ...] = (),
) -> list[list[TurnEvent]]:
    """Runs ``turns`` in a session of ``realm`` and writes its recording; returns the live events of each turn."""
    session: NativeSession = await realm.open_session(dispatch)
    executor = dispatch.executor
    header = Header(
        step=dispatch.step.key,
        provider=executor.provider,
        version=executor.version,
        model=executor.model,
        volatile=volatile,
    )
    lines, seen = [line_bytes(header)], []
    for number, turn in enumerate(turns, 1):
        events = await events_of(session, turn)
        seen.append(events)
        intent = events[0]
        assert isinstance(intent, CallIntent)
        line = turn_line(
            turn=number,
            request=intent.request,
            events=tuple(events),
            worktree=dispatch.worktree,
            volatile=volatile,
            duration_s=0.0,
        )
        lines.append(line_bytes(line))
    directory.mkdir(exist_ok=True)
    (directory / file_name(dispatch.step.key)).write_bytes(b"".join(lines))
    await session.close()
    return seen


def files_of(directory: Path) -> Mapping[str, Any]:
    """Name -> bytes."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
