"""The exit codes are a promise to scripts."""

import pytest

from runner.cli.exit_codes import Exit, of_error, of_result, worst
from runner.contract.errors import CallerError, Code, EnvironmentFault, IntegrityError, ProviderError, RunnerError
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import (
    Busy,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Suspended,
)
from tests.cli.records import settlement

D = DeliveryId("d1")


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (Settled(settlement=settlement()), 0),
        (Settled(settlement=settlement(disposition="already-at-target")), 0),
        (Settled(settlement=settlement(disposition="not-requested")), 0),
        (Settled(settlement=settlement(disposition="conflict", reason="moved")), 1),
        (Settled(settlement=settlement(Outcome.FAILED)), 1),
        (Settled(settlement=settlement(Outcome.INCOMPLETE)), 1),
        (Settled(settlement=settlement(Outcome.CANCELLED)), 130),
        (Suspended(delivery=D, reason="quota", detail=""), 3),
        (NeedsIntervention(delivery=D, reason="uncertain", detail=""), 4),
        (Busy(delivery=D, host="h", pid=1, since=""), 5),
        (Interrupted(delivery=D, detail=""), 5),
    ],
)
def test_results(result: ExecuteResult, code: int) -> None:
    """Every answer of ``execute`` has its code."""
    assert of_result(result) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CallerError(Code.USAGE, ""), 2),
        (ProviderError(Code.PROVIDER_NOT_IMPLEMENTED, ""), 2),
        (ProviderError(Code.PROVIDER_START_FAILED, ""), 5),
        (EnvironmentFault(Code.DISK_FULL, ""), 5),
        (IntegrityError(Code.LEDGER_CORRUPT, ""), 4),
    ],
)
def test_errors(error: RunnerError, code: int) -> None:
    """By whose fault it is."""
    assert of_error(error) == code


def test_the_worst_of_several() -> None:
    """What asks most of a person wins, in whatever order they come."""
    assert worst([]) is Exit.OK
    assert worst([Exit.CANCELLED, Exit.OK, Exit.SUSPENDED]) is Exit.SUSPENDED
    assert worst([Exit.ATTENTION, *Exit]) is Exit.ATTENTION
    assert [worst([code, Exit.NOT_DONE]) for code in (Exit.REFUSED, Exit.STILL_OPEN)] == [Exit.REFUSED, Exit.STILL_OPEN]
