"""A server as a process: its messages over standard input and output, its end for certain."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from providers.tool_servers import guard
from providers.tool_servers.live import MESSAGE_BYTES_MAX, Streams

CLOSE_S: Final = 1.0
"""What a server gets to end by itself once its input is closed."""
GUARD_S: Final = guard.GRACE_S + guard.KILL_S + 1.0
STDERR_BYTES_MAX: Final = 4_096
_PASSED: Final = ("PATH", "HOME", "LANG", "TMPDIR")


class LastWords:
    """The end of what a server wrote to standard error, and why its connection broke."""

    def __init__(self) -> None:
        self._end = bytearray()
        self.why = ""

    def feed(self, chunk: bytes) -> None:
        self._end += chunk
        del self._end[:-STDERR_BYTES_MAX]

    def __str__(self) -> str:
        """Not screened."""
        said = self._end.decode(errors="replace").strip()
        return "; ".join(part for part in (self.why, f"it said: {said}" if said else "") if part)


def clean_environment(ours: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, str]:
    """PATH, HOME, LANG, LC_* and TMPDIR of ``ours``, and what was declared."""
    kept = {name: value for name, value in ours.items() if name in _PASSED or name.startswith("LC_")}
    return {"PATH": os.defpath, **kept, **declared}


@asynccontextmanager
async def stdio_streams(argv: tuple[str, ...], declared: Mapping[str, str], words: LastWords) -> AsyncIterator[Streams]:
    """Starts the server in ``/`` with a clean environment and ends it, with everything it started, on the way out. What is no
    message, or too large, breaks the connection. ``OSError``, ``ValueError`` when no process can be started."""
    gate, hold = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(Path(guard.__file__)), str(gate), *argv),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(gate,),
            env=clean_environment(os.environ, declared),
            cwd="/",
            start_new_session=True,
            limit=MESSAGE_BYTES_MAX,
        )
    except BaseException:
        os.close(hold)
        raise
    finally:
        os.close(gate)
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_say = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_listen(process, heard, words)),
        asyncio.create_task(_speak(process, to_say)),
        asyncio.create_task(_overhear(process, words)),
    ]
    try:
        yield incoming, outgoing
    finally:
        # Bounded, and not cut short by a cancellation: a server must not be left running.
        ending = asyncio.ensure_future(_end(process, hold, tasks))
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                cancelled = True
        for stream in (heard, incoming, outgoing, to_say):
            stream.close()
        if cancelled:
            raise asyncio.CancelledError


async def _end(process: asyncio.subprocess.Process, hold: int, tasks: list[asyncio.Task[None]]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    await _ended_within(process, CLOSE_S)
    os.close(hold)
    if not await _ended_within(process, GUARD_S) or (process.returncode or 0) < 0:
        # The guard was stopped or killed: its group is the server's, and no other can have its number while a member lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await _ended_within(process, GUARD_S)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _ended_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    return process.returncode is not None


async def _listen(
    process: asyncio.subprocess.Process,
    heard: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    words: LastWords,
) -> None:
    """Every line as a message, until the first that is none."""
    stdout = process.stdout
    async with heard:
        while stdout is not None:
            try:
                line = await stdout.readline()
            except ValueError:
                words.why = f"it sent a message of more than {MESSAGE_BYTES_MAX} bytes"
                return
            if not line:
                words.why = words.why or "it closed the connection"
                return
            if not line.strip():
                continue
            try:
                message = types.jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            except ValueError:
                words.why = "it sent what is no JSON-RPC message"
                return
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await heard.send(SessionMessage(message))


async def _speak(process: asyncio.subprocess.Process, to_say: anyio.abc.ObjectReceiveStream[SessionMessage]) -> None:
    stdin = process.stdin
    async with to_say:
        async for said in to_say:
            if stdin is None:
                return
            line = said.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                stdin.write(line.encode() + b"\n")
                await stdin.drain()
            except (ConnectionError, RuntimeError):
                return


async def _overhear(process: asyncio.subprocess.Process, words: LastWords) -> None:
    while process.stderr is not None and (chunk := await process.stderr.read(4096)):
        words.feed(chunk)
