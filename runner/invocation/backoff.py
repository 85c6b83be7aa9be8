"""When a provider may be asked again: exponential, honouring what the endpoint asked for, shared by all users of a realm.

Deterministic: no jitter. One realm has one gate, so its users do not multiply the pressure. A gate lives in memory; a new
process closes it again for what is left of the pause after the newest failure that the ledger has (``left_s``). Deliveries
of different processes do not know each other's pauses.
"""

import datetime as dt
from typing import Final

from runner.contract.ports import Clock

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
WAIT_S_MAX: Final = 300.0
"""An endpoint that asks for a longer pause is not waited for: the step suspends or fails."""


def delay_s(tries: int, retry_after_s: float | None) -> float:
    """The pause after the ``tries``-th failed try (from 1): 1, 2, 4, ... 60 seconds, at least what was asked for."""
    grown = min(FIRST_S * 2.0 ** min(tries - 1, 30), LONGEST_S)
    return max(grown, retry_after_s or 0.0)


def left_s(pause_s: float, since: dt.datetime, now: dt.datetime) -> float:
    """What is left of a pause that began at ``since``; never more than all of it, wherever the clock went meanwhile."""
    return min(pause_s, max(0.0, pause_s - (now - since).total_seconds()))


class Gate:
    """Closed until a point in the clock's monotonic time. Ordering: whoever waits goes on in the order it came."""

    __slots__ = ("_opens_at",)

    def __init__(self) -> None:
        self._opens_at = 0.0

    def close_for(self, seconds: float, now: float) -> None:
        """Keeps the gate closed for ``seconds`` from ``now``; never opens it earlier than it already would."""
        self._opens_at = max(self._opens_at, now + seconds)

    async def passed(self, clock: Clock) -> None:
        """Returns once the gate is open."""
        while (remaining := self._opens_at - clock.monotonic()) > 0:
            await clock.sleep(remaining)
