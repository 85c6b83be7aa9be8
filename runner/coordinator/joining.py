"""Waiting for work to its real end, also when the waiter is cancelled meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``call`` in a thread. A thread cannot be cancelled: the caller waits until it has ended, then the cancellation
    travels on. So nothing of a Delivery is written after its fence was released."""
    return await to_end(asyncio.to_thread(call, *args, **kwargs))


async def to_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which a cancellation of the caller does not reach; it travels on once ``work`` has ended."""
    task = asyncio.ensure_future(work)
    cancelled = await _wait(task)
    if cancelled:
        _forget(task)
        raise asyncio.CancelledError
    return task.result()


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancels ``task`` once, if it still runs, and waits until it has ended. Its result or error stays for the caller."""
    if not task.done():
        task.cancel()
    cancelled = await _wait(task)
    _forget(task)
    if cancelled:
        raise asyncio.CancelledError


async def _wait(task: asyncio.Future[Any]) -> bool:
    """Until ``task`` is done; whether the waiter was cancelled meanwhile."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _forget(task: asyncio.Future[Any]) -> None:
    """Marks an error as seen, so that asyncio does not report it as lost."""
    if not task.cancelled():
        task.exception()
