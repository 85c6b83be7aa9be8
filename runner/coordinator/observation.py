"""Telling an observer what happened, so that it cannot hurt: one bounded queue, one daemon thread, nobody waits.

An observer's methods are ordinary functions that may hang; on the event loop one of those would stop every Delivery, and in
the loop's thread pool it would keep the process from ending. So it has a thread of its own that dies with the process. When
the queue is full, what comes next is dropped: the ledger has everything.
"""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from runner.contract.ids import StepRef
from runner.contract.ports import Observer
from runner.contract.records import Record

QUEUE_MAX: Final = 4_096
"""A few seconds of a busy Delivery with streamed output."""


class Observation:
    """``ports.Progress``, and a listener for ledgers. Every method returns at once and never raises."""

    def __init__(self, observer: Observer | None, queue_max: int = QUEUE_MAX) -> None:
        self._observer = observer
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(queue_max)
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def record(self, record: Record) -> None:
        """A durable record, for the observer."""
        observer = self._observer
        if observer is not None:
            self._offer(lambda: observer.record(record))

    def progress(self, step: StepRef, text: str) -> None:
        """Something to show while a step runs."""
        observer = self._observer
        if observer is not None:
            self._offer(lambda: observer.progress(step, text))

    def close(self, wait_s: float) -> None:
        """Gives the observer ``wait_s`` to hear what is queued, then leaves it alone."""
        if self._thread is None:
            return
        until = time.monotonic() + wait_s
        with suppress(queue.Full):
            self._queue.put(None, timeout=wait_s)
            self._thread.join(max(0.0, until - time.monotonic()))

    def _offer(self, tell: Callable[[], None]) -> None:
        try:
            self._queue.put_nowait(tell)
        except queue.Full:
            return
        if self._thread is None:
            with self._start:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="runner-observer", daemon=True)
                    self._thread.start()

    def _work(self) -> None:
        while (tell := self._queue.get()) is not None:
            # Whatever an observer raises, SystemExit included, is its own affair.
            try:
                tell()
            except BaseException:  # noqa: S112
                continue
