"""How long an attempt may take: its time stands still while a person is asked, and goes on when the attempt is resumed."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from runner.contract.outcomes import Reason
from runner.contract.ports import Disposition, Failed

GOES_ON_S: Final = 5.0
"""What an attempt has at least each time it is resumed, so that what is recorded of it can be gone through."""


class AttemptTime:
    """Bounds one life of an attempt of which ``used_s`` were used by earlier ones. Needs a running event loop."""

    def __init__(self, limit_s: float | None, used_s: float) -> None:
        self._limit_s = limit_s
        left = None if limit_s is None else max(limit_s - used_s, min(limit_s, GOES_ON_S))
        self._timeout = asyncio.timeout(left)

    async def bound(self, work: Coroutine[Any, Any, Disposition]) -> Disposition:
        """What ``work`` comes to; it is cancelled when the time is over."""
        try:
            async with self._timeout:
                return await work
        except TimeoutError:
            if self._limit_s is None or not self._timeout.expired():
                raise
        message = f"did not finish within {self._limit_s:g} s"
        return Failed(code=Reason.STEP_TIMEOUT.value, message=message, retriable=False)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Within the block nothing of the time is used."""
        ends_at, loop = self._timeout.when(), asyncio.get_running_loop()
        if ends_at is None:
            yield
            return
        left = ends_at - loop.time()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._timeout.reschedule(loop.time() + left)
