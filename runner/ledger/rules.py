"""What may follow what in a ledger. Pure: a step's stored state and one more fact give its next state, or an error."""

from dataclasses import dataclass, replace
from typing import Final

from runner.contract.errors import Code, IntegrityError
from runner.contract.events import (
    STEP_ENDS,
    DecisionTaken,
    Owner,
    StepAttemptStarted,
    StepCompleted,
    StepFailed,
    StepScheduled,
)
from runner.contract.records import Draft, Record

STEP_KINDS: Final = STEP_ENDS | {StepScheduled.KIND, StepAttemptStarted.KIND, DecisionTaken.KIND}
"""Facts about the life of a step: they name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLife:
    """Where a step is. ``attempt`` is 0 before its first; ``end`` is the kind that ended it."""

    scheduled: bool = False
    attempt: int = 0
    end: str | None = None


UNSEEN: Final = StepLife()


def check_owner(owner: Owner, draft: Draft) -> None:
    """Only the owners that the vocabulary names may record a fact; anything else is a mistake in our own code."""
    if owner not in draft.event.OWNER:
        raise _order(f"{owner} may not record {draft.event.KIND}; its owner is {' or '.join(draft.event.OWNER)}")
    if draft.event.KIND in STEP_KINDS and draft.step is None:
        raise _order(f"{draft.event.KIND} names no step")


def live(life: StepLife, record: Record) -> StepLife:
    """The state of the step of ``record`` after it: scheduled, then attempts, then exactly one end. What never started may be
    skipped or superseded without having been scheduled. ``IntegrityError`` (``ledger-order``) for any other order."""
    step, attempt, kind = record.step, record.attempt, record.event.KIND
    if life.end is not None:
        raise _order(f"{step}: {kind} after its {life.end}")
    match record.event:
        case StepScheduled():
            if life.scheduled:
                raise _order(f"{step}: scheduled twice")
            return replace(life, scheduled=True)
        case StepAttemptStarted():
            if not life.scheduled or attempt is None or attempt < max(1, life.attempt):
                raise _order(f"{step}: attempt {attempt} cannot start after attempt {life.attempt}")
            return replace(life, attempt=attempt)
        case StepCompleted() if life.attempt == 0:
            raise _order(f"{step}: completed without an attempt")
        case StepFailed() | DecisionTaken() if not life.scheduled:
            raise _order(f"{step}: {kind} before it was scheduled")
        case _:
            return replace(life, end=kind) if kind in STEP_ENDS else life


def _order(problem: str) -> IntegrityError:
    return IntegrityError(
        Code.LEDGER_ORDER, problem, remedy="this is a defect of the Runner or of a room: report it with this message"
    )
