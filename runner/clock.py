"""The one implementation of the clock protocol that reads the machine's time."""

import asyncio
import datetime as dt
import time


class SystemClock:
    """Wall time in UTC, CLOCK_MONOTONIC seconds, and asyncio's sleep."""

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
