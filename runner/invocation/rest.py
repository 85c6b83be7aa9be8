"""Work that is brought to rest before a cancellation travels on."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from runner.contract.ports import Clock

T = TypeVar("T")


async def to_rest(work: Coroutine[Any, Any, T], clock: Clock, grace_s: float) -> T:
    """The result of ``work``. When the caller is cancelled, ``work`` gets ``grace_s`` to finish, is then cancelled and
    awaited, and the cancellation travels on; a second cancellation ends the grace at once."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await _end(task, clock, grace_s)
        _consume(task)
        raise


async def _end(task: asyncio.Task[Any], clock: Clock, grace_s: float) -> None:
    timer = asyncio.create_task(clock.sleep(grace_s))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
        task.cancel()
        await asyncio.wait({task, timer})
        _consume(timer)


def _consume(task: asyncio.Task[Any]) -> None:
    """Marks an error as seen: a cancelled caller reports the cancellation, not what its unfinished work ran into."""
    if task.done() and not task.cancelled():
        task.exception()


async def in_thread(work: Callable[[], T]) -> T:
    """``work`` (short, synchronous) in a thread. A cancelled caller still waits for it: a thread cannot be ended, and what
    it does to a ledger or a file must be over before anything else is done."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            # A further cancellation changes nothing: the thread is bounded, and the first one is raised below.
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        _consume(task)
        raise
