"""One supervised process from the driver's side: start, read, end. Knows nothing of steps and ledgers."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from hosts.operations import supervisor
from runner.contract.errors import Code, EnvironmentFault

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
    guard: int
    """The process that ends last of all that supervise this one."""
    guard_start_time: int


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
    """The supervisor itself was killed. What could still be identified was killed."""


End = NotStarted | Ended | Lost
Sink = Callable[[bytes, bool], None]
"""Takes the next bytes of a stream; the flag is True exactly once, with the last."""
Record = Callable[[Identity], Awaitable[None]]
"""Makes durable who the process is. It has not executed anything yet, and never will if this raises."""


async def supervise(spec: ProcessSpec, stdout: Sink, stderr: Sink, stop: asyncio.Event, record: Record) -> End:
    """Runs the process to its end, or to the end that ``stop`` asks for. When it returns or raises, nothing of it runs.

    ``record`` is awaited once, when the process exists and before it executes; not at all when it is not going to. If it
    raises, if ``stop`` was asked meanwhile, or if the driver dies in it, the process ends without a trace. If this very
    task is cancelled, the control socket closes and the supervisor kills everything at once. ``EnvironmentFault``
    (process-not-started) when there is no supervisor to be had; then nothing was recorded.
    """
    with contextlib.ExitStack() as ours:
        try:
            child, control, outputs = _spawn(ours)
        except OSError as error:
            # Not the command's fault: as a result it would fail the step for good.
            raise EnvironmentFault(
                Code.PROCESS_NOT_STARTED,
                f"the system cannot start another process: {error.strerror}",
                remedy="end other processes or free memory, then execute again",
            ) from None
        try:
            return await _converse(_Conversation(spec, stop, record, child.pid), control, outputs, (stdout, stderr))
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


@dataclass(frozen=True, slots=True)
class _Conversation:
    spec: ProcessSpec
    stop: asyncio.Event
    record: Record
    guard: int
    """Its process id, and that of its group, which the supervisor is in too."""


async def _converse(
    about: _Conversation, control: socket.socket, outputs: list[BinaryIO], sinks: tuple[Sink, Sink]
) -> End:
    """Sends the request, lets the process go once it is recorded, feeds the sinks; the supervisor's last word."""
    reader, writer = await asyncio.open_connection(sock=control, limit=LINE_BYTES_MAX)
    tasks = [asyncio.create_task(_read(pipe, sink)) for pipe, sink in zip(outputs, sinks, strict=True)]
    try:
        writer.write(_request(about.spec))
        held = await _held(reader, about.guard)
        if isinstance(held, NotStarted):
            return held
        if not about.stop.is_set():
            await about.record(held)
        if about.stop.is_set():
            return NotStarted(why="it was cancelled before it started")
        writer.write(b"g")
        asking = asyncio.create_task(_ask(about, writer))
        try:
            end = await _last_word(reader, held)
        finally:
            asking.cancel()
        await asyncio.wait(tasks, timeout=DRAIN_S)
        return end
    finally:
        writer.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _request(spec: ProcessSpec) -> bytes:
    fields = [repr(float(spec.grace_s)), spec.cwd, str(len(spec.argv)), *spec.argv]
    body = b"\0".join(map(os.fsencode, [*fields, *(f"{name}={value}" for name, value in spec.env.items())]))
    return b"%d\n%s" % (len(body), body)


async def _ask(about: _Conversation, writer: asyncio.StreamWriter) -> None:
    await about.stop.wait()
    writer.write(b"e")
    # A command may have stopped its supervisors. They are not reaped before we close the socket.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(about.guard, signal.SIGCONT)


async def _line(reader: asyncio.StreamReader) -> list[str]:
    """The words of the supervisor's next line; none when it has ended."""
    try:
        return (await reader.readline()).decode().rstrip("\n").split(" ")
    except ConnectionError:
        return [""]


async def _held(reader: asyncio.StreamReader, guard: int) -> Identity | NotStarted:
    match await _line(reader):
        case ["held", pid, start_time, group]:
            return Identity(
                pid=int(pid),
                start_time=int(start_time),
                group=int(group),
                guard=guard,
                guard_start_time=supervisor.start_time(guard),
            )
        case ["not-started", *why]:
            return NotStarted(why=" ".join(why))
        case _:
            return NotStarted(why="its supervisor was killed before it started")


async def _last_word(reader: asyncio.StreamReader, identity: Identity) -> End:
    """How it ended, once nobody at the other end is left."""
    said = await _line(reader)
    with contextlib.suppress(ConnectionError):
        await reader.read()
    match said:
        case ["not-started", *why]:
            return NotStarted(why=" ".join(why))
        case [("exit" | "signal") as how, number, asked, *left]:
            return Ended(
                status=int(number), by_signal=how == "signal", asked=asked == "1", left=tuple(int(pid) for pid in left)
            )
        case _:
            _kill_group(identity)
            return Lost()


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
