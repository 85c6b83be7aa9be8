"""When a provider may be asked again: exponential, honouring what the endpoint asked for, shared by all users of a realm.

Deterministic: no jitter. One realm has one gate, so its users do not multiply the pressure. A gate lives in memory; a new
process closes it again for what is left of the pause after the newest failure that the ledger has (``left_s``). A pause after
a rate limit or an overload is shared with other processes, too (``shared_backoff``).
"""

import datetime as dt
from typing import Final

from runner.contract.ports import Clock
from runner.invocation.rest import in_thread
from runner.invocation.shared_backoff import SharedBackoff

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
WAIT_S_MAX: Final = 300.0
"""A longer pause is not waited for: the step suspends."""


def delay_s(tries: int, retry_after_s: float | None) -> float:
    """The pause after the ``tries``-th failed try (from 1): 1, 2, 4, ... 60 seconds, at least what was asked for."""
    grown = min(FIRST_S * 2.0 ** min(tries - 1, 30), LONGEST_S)
    return max(grown, retry_after_s or 0.0)


def left_s(pause_s: float, since: dt.datetime, now: dt.datetime) -> float:
    """What is left of a pause that began at ``since``; never more than all of it, wherever the clock went meanwhile."""
    return min(pause_s, max(0.0, pause_s - (now - since).total_seconds()))


class Gate:
    """Closed until a point in the clock's monotonic time, and while the shared pause lasts. Ordering: whoever waits goes on
    in the order it came."""

    __slots__ = ("_opens_at", "_shared")

    def __init__(self, shared: SharedBackoff) -> None:
        self._opens_at = 0.0
        self._shared = shared

    def close_for(self, seconds: float, now: float) -> None:
        """Keeps the gate closed for ``seconds`` from ``now``; never opens it earlier than it already would."""
        self._opens_at = max(self._opens_at, now + seconds)

    async def share(self, pause_s: float, clock: Clock) -> None:
        """Closes the gates of all processes for ``pause_s``."""
        await in_thread(lambda: self._shared.extend(pause_s, clock.now()))

    async def passed(self, clock: Clock) -> float:
        """0.0 once the gate is open. What is left of its pause as soon as it is clear that the wait would exceed
        ``WAIT_S_MAX``, however often others prolong it."""
        latest = clock.monotonic() + WAIT_S_MAX
        while (left := await self._left_s(clock)) > 0:
            if clock.monotonic() + left > latest:
                return left
            await clock.sleep(left)
        return 0.0

    async def _left_s(self, clock: Clock) -> float:
        shared = await in_thread(lambda: self._shared.left_s(clock.now()))
        return max(shared, self._opens_at - clock.monotonic())
