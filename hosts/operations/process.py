"""One supervised process from the driver's side: start, read, end. Knows nothing of steps and ledgers."""

import asyncio
import contextlib
import json
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
from hosts.operations.boundary import Enclosure
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.text import visible

READ_BYTES: Final = 65_536
LINE_BYTES_MAX: Final = 1_048_576
"""Of one message of the supervisor."""
BEGINNING_BYTES_MAX: Final = 1_000
DRAIN_S: Final = 1.0
"""How long output is still read once the supervisor is gone: only a process that escaped it can hold the pipe open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    grace_s: float
    enclosure: Enclosure | None = None
    """The boundary that it runs in; None: with our own rights."""


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
    excess: str = ""
    """Killed because all of it together used more of this than it may: ``memory``, ``cpu`` or ``processes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProcess:
    """There was none to be had: not the command's fault."""

    why: str


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
            started = _spawn(ours, spec.enclosure)
        except OSError as error:
            raise _no_process(str(error.strerror)) from None
        said = _Beginning(stderr)
        try:
            about = _Conversation(spec, stop, record, started)
            end = await _converse(about, (stdout, said if spec.enclosure else stderr))
        finally:
            # Closing tells the supervisor to kill what is left; it ends within KILL_S.
            ours.close()
            await asyncio.to_thread(started.child.wait)
    if isinstance(end, NoProcess):
        raise _no_process(end.why, said.text())
    return end


def _no_process(why: str, said: str = "") -> EnvironmentFault:
    """As a result of the command it would fail the step for good."""
    return EnvironmentFault(
        Code.PROCESS_NOT_STARTED,
        f"the system cannot start another process: {why}" + (f" ({said})" if said else ""),
        remedy="end other processes or free memory, then execute again; runner doctor looks at the boundary",
    )


class _Beginning:
    """Passes a stream on and remembers how it began: whoever builds the boundary says there why it could not."""

    def __init__(self, sink: Sink) -> None:
        self._sink: Final = sink
        self._kept = b""

    def __call__(self, chunk: bytes, final: bool) -> None:
        self._kept += chunk[: max(0, BEGINNING_BYTES_MAX - len(self._kept))]
        self._sink(chunk, final)

    def text(self) -> str:
        return visible(self._kept.decode(errors="backslashreplace").strip())


@dataclass(frozen=True, slots=True)
class _Started:
    child: "subprocess.Popen[bytes]"
    control: socket.socket
    outputs: list[BinaryIO]
    info: BinaryIO | None
    """What is told of the process inside a boundary."""


def _spawn(ours: contextlib.ExitStack, enclosure: Enclosure | None) -> _Started:
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
        # -I -S: no site, no environment, no path of the worktree.
        argv = [sys.executable, "-I", "-S", str(Path(supervisor.__file__))]
        passed: list[int] = []
        info: BinaryIO | None = None
        if enclosure is not None:
            read_fd, write_fd = os.pipe()
            info = ours.enter_context(os.fdopen(read_fd, "rb"))
            theirs.enter_context(os.fdopen(write_fd, "wb"))
            made = {path: theirs.enter_context(_in_memory(data)).fileno() for path, data in enclosure.files.items()}
            passed = [write_fd, *made.values()]
            argv = enclosure.command(argv[:-1], write_fd, made)
        # Its own session: a terminal's Ctrl-C is for us alone.
        child = subprocess.Popen(
            argv,
            stdin=control_end.fileno(),
            stdout=writing[0],
            stderr=writing[1],
            start_new_session=True,
            cwd="/",
            env=None if enclosure is None else {},
            pass_fds=passed,
        )
        return _Started(child, control, reading, info)


def _in_memory(data: bytes) -> BinaryIO:
    """A file that is nowhere, to be read from its beginning."""
    file = os.fdopen(os.memfd_create("runner"), "w+b", buffering=0)
    file.write(data)
    file.seek(0)
    return file


@dataclass(frozen=True, slots=True)
class _Conversation:
    spec: ProcessSpec
    stop: asyncio.Event
    record: Record
    started: _Started

    @property
    def guard(self) -> int:
        """The process that ends last, and the number of its group, which the supervisor is in too unless it is contained."""
        return self.started.child.pid


async def _converse(about: _Conversation, sinks: tuple[Sink, Sink]) -> End | NoProcess:
    """Sends the request, lets the process go once it is recorded, feeds the sinks; the supervisor's last word."""
    reader, writer = await asyncio.open_connection(sock=about.started.control, limit=LINE_BYTES_MAX)
    tasks = [asyncio.create_task(_read(pipe, sink)) for pipe, sink in zip(about.started.outputs, sinks, strict=True)]
    try:
        writer.write(_request(about.spec))
        held = await _held(reader, about.started)
        if isinstance(held, NoProcess):
            await asyncio.wait(tasks, timeout=DRAIN_S)
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


async def _held(reader: asyncio.StreamReader, started: _Started) -> Identity | NoProcess:
    """Who the held process is. Of what is inside a process namespace, only its process 1 has a number out here; it is the
    one that everything inside ends with."""
    guard = started.child.pid
    match await _line(reader):
        case ["held", *numbers]:
            pid, start_time, group = map(int, numbers)
            if started.info is not None:
                pid = json.loads(started.info.read())["child-pid"]
                start_time, group = supervisor.start_time(pid), pid
            return Identity(
                pid=pid,
                start_time=start_time,
                group=group,
                guard=guard,
                guard_start_time=supervisor.start_time(guard),
            )
        case ["no-process", *why]:
            return NoProcess(why=" ".join(why))
        case _:
            return NoProcess(why="its supervisor ended before it started")


async def _last_word(reader: asyncio.StreamReader, identity: Identity) -> End:
    """How it ended, once nobody at the other end is left."""
    said = await _line(reader)
    with contextlib.suppress(ConnectionError):
        await reader.read()
    match said:
        case ["not-started", *why]:
            return NotStarted(why=" ".join(why))
        case [("exit" | "signal" | "memory" | "cpu" | "processes") as how, number, asked, *left]:
            return Ended(
                status=int(number),
                by_signal=how != "exit",
                asked=asked == "1",
                left=tuple(int(pid) for pid in left),
                excess="" if how in ("exit", "signal") else how,
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
