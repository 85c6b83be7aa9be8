"""The host's own tasks, one per running step, and how nodes wait for them without stalling each other.

A superstep of LangGraph ends only when all its nodes have returned. So a node waits for its own step *or any* news and then
returns (to be entered again): unrelated branches advance while a slow step runs. The tasks belong to the host, not to a
node; they are cancelled at most once and always awaited.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from runner.contract.ids import SiteId

T = TypeVar("T")


class Pump:
    """The running steps of one drive. Not thread-safe but for ``news_from_outside``."""

    def __init__(self, context: contextvars.Context) -> None:
        """``context`` is copied for every task: taken outside any node, so that no LangGraph variable leaks in."""
        self._context: Final = context
        self._tasks: dict[SiteId, asyncio.Task[Any]] = {}
        self._cancelled: set[SiteId] = set()
        self._news = asyncio.Event()
        self._news_of = -1
        self._superstep = -1

    @property
    def running(self) -> tuple[SiteId, ...]:
        """Sites whose task was started and not yet taken."""
        return tuple(self._tasks)

    def start(self, site: SiteId, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Runs ``work`` as a task of the host."""
        task = asyncio.Task(work(), name=f"step {site}", context=self._context.copy())
        task.add_done_callback(lambda _: self.news())
        self._tasks[site] = task

    def enter(self, superstep: int) -> None:
        """A node was entered in ``superstep``."""
        self._superstep = max(self._superstep, superstep)

    def news(self) -> None:
        """Something changed: every node that waits in this superstep returns."""
        self._news_of = self._superstep
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, site: SiteId, superstep: int) -> bool:
        """Until the step of ``site`` is done (True) or there was news in ``superstep`` (False)."""
        task = self._tasks[site]
        while not task.done() and self._news_of < superstep:
            await self._news.wait()
        return task.done()

    def take(self, site: SiteId) -> BaseException | None:
        """Forgets the finished task of ``site``; what it raised, if anything but a cancellation that was asked for."""
        self._cancelled.discard(site)
        return _outcome(self._tasks.pop(site))

    def cancel(self, wanted: Callable[[SiteId], bool]) -> None:
        """Cancels the tasks of wanted sites, each at most once: a second cancel would hit their clean-up."""
        for site, task in self._tasks.items():
            if site not in self._cancelled and not task.done() and wanted(site):
                self._cancelled.add(site)
                task.cancel()

    async def drain(self, wanted: Callable[[SiteId], bool]) -> BaseException | None:
        """Until no task is left, cancelling the ``wanted`` ones; asked again at every news, as what is wanted may grow.
        Returns the first exception that a task raised."""
        first: BaseException | None = None
        while self._tasks:
            self.cancel(wanted)
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({news, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            for site in [s for s, t in self._tasks.items() if t.done()]:
                raised = self.take(site)
                first = first or raised
        return first


def _outcome(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


async def through(work: Coroutine[Any, Any, T]) -> T:
    """``work`` to its end even when the caller is cancelled meanwhile; then its result. The caller asks
    ``was_cancelled`` where it matters. For what must not be left half done: custody, and recording what it said."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # Remembered by the task itself (``cancelling``); the work goes on.
            continue
    return task.result()


def raise_if_cancelled() -> None:
    """``CancelledError`` when the current task was cancelled while it went ``through`` something."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
