"""Questions to people as the ledger has them: openings, answers, and when an opening is over.

A step's wait is opened, and after an expiry perhaps again; each opening has an id of its own, so that an answer to one that
is over is told apart. Times are wall-clock times that were recorded when the wait was opened. What follows from an
expiry is recorded once, in the same transaction as the expiry, so a clock that goes back undoes and repeats nothing.
"""

import asyncio
import datetime as dt
from typing import Final, Literal, NamedTuple

from runner.contract.activation import ApprovalAction
from runner.contract.events import InteractionAnswered, WaitAnswered, WaitExpired, WaitOpened
from runner.contract.ids import StepRef
from runner.contract.outcomes import OpenWait
from runner.contract.ports import LedgerReader
from runner.contract.records import Record

ANSWERS: Final = frozenset({WaitAnswered.KIND, InteractionAnswered.KIND})


class Opening(NamedTuple):
    """One opening of a step's wait."""

    wait: OpenWait
    renewal: int


class Bell:
    """Rung when the ledger may have an answer."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()

    async def wait(self) -> None:
        """Until it is rung the next time."""
        await self._rung.wait()


def opened(step: StepRef, prompt: str, action: ApprovalAction, now: dt.datetime, *, renewal: int) -> WaitOpened:
    """The entry of an opening that begins ``now``."""
    expires_at = None if action.expires_s is None else _written(now + dt.timedelta(seconds=action.expires_s))
    return WaitOpened(
        wait=step.key + (f"~{renewal}" if renewal else ""),
        prompt=prompt,
        answer_schema=action.answer_schema,
        outcome=action.outcome,
        show_diff=action.show_diff,
        expires_at=expires_at,
        renewal=renewal,
    )


def opening(record: Record) -> Opening:
    """The opening that ``record`` recorded."""
    event, step = record.event, record.step
    if not isinstance(event, WaitOpened) or step is None:
        raise TypeError(f"ledger record {record.seq} opens no wait")
    wait = OpenWait(
        wait=event.wait,
        kind="approval",
        step=step.key,
        prompt=event.prompt,
        answer_schema=event.answer_schema,
        outcome=event.outcome,
        show_diff=event.show_diff,
        since=record.at,
        expires_at=event.expires_at,
    )
    return Opening(wait, event.renewal)


def last_opening(reader: LedgerReader, step: StepRef) -> Opening | None:
    """The newest opening of the step's wait; None when it was not opened yet."""
    record = reader.last(frozenset({WaitOpened.KIND}), step)
    return None if record is None else opening(record)


def first_answer(reader: LedgerReader, wait: OpenWait) -> WaitAnswered | InteractionAnswered | None:
    """The answer that counts: the first in the ledger."""
    for record in reader.read(kinds=ANSWERS, step=StepRef.parse(wait.step)):
        if isinstance(record.event, WaitAnswered | InteractionAnswered) and record.event.wait == wait.wait:
            return record.event
    return None


def seconds_left(wait: OpenWait, now: dt.datetime) -> float | None:
    """How long the opening still waits, 0 when it is over; None when it never is."""
    if wait.expires_at is None:
        return None
    return max(0.0, (dt.datetime.fromisoformat(wait.expires_at) - now).total_seconds())


def expiry(action: ApprovalAction, at: Opening) -> WaitExpired:
    """What follows from the expiry of ``at``."""
    renews = action.on_expiry == "renew" and at.renewal < action.renewals_max
    otherwise: Literal["default", "incomplete"] = "default" if action.on_expiry == "default" else "incomplete"
    return WaitExpired(wait=at.wait.wait, consequence="renewed" if renews else otherwise)


def _written(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
