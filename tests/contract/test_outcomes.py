"""The settlement: a closed list whose bytes never vary."""

from typing import Any

import pytest
from pydantic import ValidationError

from runner.contract.canonical import parse
from runner.contract.model import read_model
from runner.contract.outcomes import OWNERS, Outcome, Publication, Reason, Retirement, Settlement
from tests.contract.specimens import DIGEST, OBJECT

PUBLICATION = Publication(disposition="published", ref="refs/heads/runner/one", old="absent", new=OBJECT)
SETTLEMENT = Settlement(
    delivery="one",
    activation=DIGEST,
    plan=DIGEST,
    outcome=Outcome.COMPLETED,
    reason=Reason.ALL_STEPS_FINISHED,
    step=None,
    output=DIGEST,
    result_tree=OBJECT,
    result_commit=OBJECT,
    publication=PUBLICATION,
    retirements=tuple(Retirement(owner=owner, authorization=DIGEST) for owner in OWNERS),
)


def test_a_settlement_reads_back_to_the_same_bytes() -> None:
    """Its canonical bytes are its identity."""
    again = read_model(Settlement, parse(SETTLEMENT.to_bytes()))
    assert isinstance(again, Settlement)
    assert again.to_bytes() == SETTLEMENT.to_bytes()


def test_a_settlement_is_a_closed_list() -> None:
    """No time, usage, attempt or session: a killed and an undisturbed run settle to the same bytes."""
    assert set(Settlement.model_fields) == {
        "format",
        "delivery",
        "activation",
        "plan",
        "outcome",
        "reason",
        "step",
        "output",
        "result_tree",
        "result_commit",
        "publication",
        "retirements",
    }


@pytest.mark.parametrize("disposition", ["unknown", "pending", ""])
def test_an_unknown_publication_has_no_place_in_a_settlement(disposition: Any) -> None:
    """Unknown may not settle: the type has no value for it."""
    with pytest.raises(ValidationError):
        Publication(disposition=disposition, ref="refs/heads/x", old="absent", new=OBJECT)


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_settlement_needs_four_retirement_facts(count: int) -> None:
    """One fact per durable owner."""
    fields = SETTLEMENT.model_dump()
    fields["retirements"] = tuple({"owner": "host", "authorization": DIGEST} for _ in range(count))
    with pytest.raises(ValidationError):
        Settlement.model_validate(fields)
