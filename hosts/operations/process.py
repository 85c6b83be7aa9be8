"""One supervised process from the driver's side: start, read, end. Knows nothing of steps and ledgers."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from hosts.operations import supervisor

READ_BYTES: Final = 65_536
LINE_BYTES_MAX: Final = 1_048_576
"""Of one message of the supervisor."""
DRAIN_S: Final = 1.0
"""How long output is still read once the supervisor is gone: only a process that escaped it can hold the pipe open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start_time: int
    """Clock ticks since boot; 0 where the system does not say."""
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """``status`` is the exit status, or the signal's number when ``by_signal``."""

    status: int
    by_signal: bool
    asked: bool
    """It still ran when we asked for its end."""
    left: tuple[int, ...] = ()
    """Process ids that not even SIGKILL ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The supervisor itself was killed. What could still be identified was killed by us."""

    identity: Identity | None


End = NotStarted | Ended | Lost
Sink = Callable[[bytes, bool], None]
"""Takes the next bytes of a stream; the flag is True exactly once, with the last."""


async def supervise(spec: ProcessSpec, stdout: Sink, stderr: Sink, stop: asyncio.Event) -> End:
    """Runs the process to its end, or to the end that ``stop`` asks for. When it returns or raises, nothing of it runs.

    If this very task is cancelled, the control socket closes and the supervisor kills everything at once.
    """
    if stop.is_set():
        return NotStarted(why="it was cancelled before it started")
    with contextlib.ExitStack() as ours:
        try:
            child, control, outputs = _spawn(ours)
        except OSError as error:
            return NotStarted(why=f"the system cannot start another process: {error.strerror}")
        try:
            return await _converse(spec, control, outputs, (stdout, stderr), stop)
        finally:
            # Closing tells the supervisor to kill what is left; it ends within KILL_S.
            ours.close()
            await asyncio.to_thread(child.wait)


def _spawn(ours: contextlib.ExitStack) -> "tuple[subprocess.Popen[bytes], socket.socket, list[BinaryIO]]":
    """The supervisor, and our ends of its socket and output pipes, which close with ``ours``."""
    with contextlib.ExitStack() as theirs:
        control, control_end = socket.socketpair()
        ours.enter_context(control)
        theirs.enter_context(control_end)
        reading: list[BinaryIO] = []
        writing: list[BinaryIO] = []
        for _ in range(2):
            read_fd, write_fd = os.pipe()
            reading.append(ours.enter_context(os.fdopen(read_fd, "rb", buffering=0)))
            writing.append(theirs.enter_context(os.fdopen(write_fd, "wb", buffering=0)))
        # -I -S: no site, no environment, no path of the worktree. Its own session: a terminal's Ctrl-C is for us alone.
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(supervisor.__file__))],
            stdin=control_end.fileno(),
            stdout=writing[0],
            stderr=writing[1],
            start_new_session=True,
            cwd="/",
        )
        return child, control, reading


async def _converse(
    spec: ProcessSpec, control: socket.socket, outputs: list[BinaryIO], sinks: tuple[Sink, Sink], stop: asyncio.Event
) -> End:
    """Sends the request, forwards ``stop``, feeds the sinks; the supervisor's last word."""
    reader, writer = await asyncio.open_connection(sock=control, limit=LINE_BYTES_MAX)
    reading = [asyncio.create_task(_read(pipe, sink)) for pipe, sink in zip(outputs, sinks, strict=True)]
    asking = asyncio.create_task(_ask(stop, writer))
    try:
        writer.write(json.dumps(_request(spec)).encode() + b"\n")
        end = await _listen(reader)
        await asyncio.wait(reading, timeout=DRAIN_S)
        return end
    finally:
        writer.close()
        for task in (asking, *reading):
            task.cancel()
        await asyncio.gather(asking, *reading, return_exceptions=True)


def _request(spec: ProcessSpec) -> dict[str, Any]:
    return {"argv": list(spec.argv), "cwd": spec.cwd, "env": dict(spec.env), "grace_s": float(spec.grace_s)}


async def _ask(stop: asyncio.Event, writer: asyncio.StreamWriter) -> None:
    await stop.wait()
    writer.write(b"end\n")


async def _listen(reader: asyncio.StreamReader) -> End:
    """The supervisor's messages up to its last."""
    identity: Identity | None = None
    with contextlib.suppress(ConnectionError):
        while line := await reader.readline():
            message = json.loads(line)
            if "not_started" in message:
                return NotStarted(why=message["not_started"])
            if "started" in message:
                identity = Identity(pid=message["started"], start_time=message["start_time"], group=message["group"])
                continue
            by_signal = "signal" in message
            await reader.read()
            return Ended(
                status=message["signal" if by_signal else "exit"],
                by_signal=by_signal,
                asked=message["asked"],
                left=tuple(message["left"]),
            )
    if identity is not None:
        _kill_group(identity)
    return Lost(identity=identity)


def _kill_group(identity: Identity) -> None:
    """KILL to the group of a command whose supervisor is gone, unless its leader is by now another process."""
    now = supervisor.start_time(identity.pid)
    if now not in (0, identity.start_time):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(identity.group, signal.SIGKILL)


async def _read(pipe: BinaryIO, sink: Sink) -> None:
    """Every chunk of one pipe to its sink, as it comes; never more than a few chunks in memory."""
    reader = asyncio.StreamReader(limit=READ_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        while chunk := await reader.read(READ_BYTES):
            sink(chunk, False)
    finally:
        sink(b"", True)
        transport.close()
