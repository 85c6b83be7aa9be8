"""Which exit code tells a script what happened. Pure; the table is part of the public interface."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, assert_never

from runner.contract.errors import CallerError, Code, EnvironmentFault, IntegrityError, ProviderError, RunnerError
from runner.contract.outcomes import (
    Busy,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Settlement,
    Suspended,
    Verification,
)


class Exit(IntEnum):
    OK = 0
    """Completed, and published or nothing to publish."""
    NOT_DONE = 1
    """Failed, incomplete, or the target moved."""
    REFUSED = 2
    """The input cannot be; nothing was done."""
    SUSPENDED = 3
    ATTENTION = 4
    """A person must decide, or a stored fact does not hold."""
    STILL_OPEN = 5
    """The machine, another driver or a stop was in the way: execute again."""
    CANCELLED = 130


_NOT_NOW: Final = frozenset({Code.PROVIDER_START_FAILED})
"""Provider errors that may be gone on the next try; the others are about what was asked for."""


_WORST_LAST: Final = (
    Exit.OK,
    Exit.CANCELLED,
    Exit.SUSPENDED,
    Exit.NOT_DONE,
    Exit.STILL_OPEN,
    Exit.REFUSED,
    Exit.ATTENTION,
)
"""By how much it asks of whoever started it."""


def worst(exits: Iterable[Exit]) -> Exit:
    """The one that asks most of a person; OK for none."""
    return max(exits, key=_WORST_LAST.index, default=Exit.OK)


def of_verification(verification: Verification) -> Exit:
    """What ``verify`` found."""
    return Exit.OK if verification.ok else Exit.ATTENTION


def of_settlement(settlement: Settlement) -> Exit:
    """By outcome, then by publication."""
    match settlement.outcome:
        case Outcome.COMPLETED:
            return Exit.NOT_DONE if settlement.publication.disposition == "conflict" else Exit.OK
        case Outcome.CANCELLED:
            return Exit.CANCELLED
        case Outcome.FAILED | Outcome.INCOMPLETE:
            return Exit.NOT_DONE
        case _:
            assert_never(settlement.outcome)


def of_result(result: ExecuteResult) -> Exit:
    """What ``execute`` answered."""
    match result:
        case Settled(settlement=settlement):
            return of_settlement(settlement)
        case Suspended():
            return Exit.SUSPENDED
        case NeedsIntervention():
            return Exit.ATTENTION
        case Busy() | Interrupted():
            return Exit.STILL_OPEN
        case _:
            assert_never(result)


def of_error(error: RunnerError) -> Exit:
    """By whose fault it is."""
    match error:
        case CallerError():
            return Exit.REFUSED
        case ProviderError():
            return Exit.STILL_OPEN if error.code in _NOT_NOW else Exit.REFUSED
        case EnvironmentFault():
            return Exit.STILL_OPEN
        case IntegrityError():
            return Exit.ATTENTION
        case _:
            return Exit.ATTENTION
