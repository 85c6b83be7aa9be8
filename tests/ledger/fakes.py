"""A clock that stands still, and the facts that ledger tests record."""

import asyncio
import datetime as dt

from runner.contract.canonical import digest
from runner.contract.events import (
    SavepointTaken,
    StepAttemptStarted,
    StepCompleted,
    StepScheduled,
    ValueRef,
)
from runner.contract.ids import SiteId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.records import Draft
from runner.ledger import SqliteLedger, create_or_open

SAVEPOINT = "a" * 40
DIGEST = digest("something")


class StillClock:
    """Moves only when told; sleeping yields once."""

    def __init__(self) -> None:
        self.moment = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)

    def now(self) -> dt.datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        del seconds
        await asyncio.sleep(0)


def opened(layout: DeliveryLayout, *, bump: bool = True) -> SqliteLedger:
    return create_or_open(layout, clock=StillClock(), generation_bump=bump)


def site(name: str, visit: int = 1) -> StepRef:
    return StepRef(site=SiteId(name), visit=visit)


def scheduled(step: StepRef) -> Draft:
    return Draft(event=StepScheduled(), step=step)


def started(step: StepRef, attempt: int = 1) -> Draft:
    return Draft(event=StepAttemptStarted(savepoint=SAVEPOINT, input=DIGEST), step=step, attempt=attempt)


def completed(step: StepRef, output: ValueRef | None = None, savepoint: str = SAVEPOINT) -> Draft:
    return Draft(event=StepCompleted(outcome="success", output=output, savepoint=savepoint), step=step, attempt=1)


def savepoint(commit: str = SAVEPOINT) -> Draft:
    return Draft(event=SavepointTaken(savepoint=commit, tree=commit, role="baseline"))
