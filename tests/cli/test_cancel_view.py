"""``cancel`` for people and scripts: who settles it is said as it is."""

import pytest

from runner.cli import cancel_view
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import CancelAck, DeliveryState, Outcome
from tests.cli.records import settlement, text_of
from tests.cli.test_state_view import WHERE, delivery

ASKED = CancelAck(delivery=DeliveryId("d1"), disposition="requested")


@pytest.mark.parametrize(
    ("state", "line", "next_"),
    [
        (delivery(driver="host:7"), "the process that drives it settles it (host:7)", []),
        (delivery(phase="suspended"), "nobody drives it, and the next execute settles it", ["runner execute d1"]),
        (delivery(accepted_at=""), "nobody drives it, and the next execute settles it", ["runner execute /s/d1.json"]),
        (
            delivery(phase="needs-intervention", detail="worktree-edited: plan: src/a.py"),
            "waits until somebody says what happened",
            [*(f"runner resolve d1 --{said}" for said in ("adopt", "discard", "abandon")), "runner execute d1"],
        ),
        (delivery(phase="settled", settlement=settlement(Outcome.CANCELLED)), "d1: cancelled", []),
    ],
)
def test_requested(state: DeliveryState, line: str, next_: list[str]) -> None:
    """A driver settles it only where there is one; else the command that does is printed."""
    text = text_of(cancel_view.cancel_lines(ASKED, state, WHERE, None))
    assert line in text and all(command in text for command in next_)
    assert cancel_view.cancel_document(ASKED, state, WHERE)["next"] == next_
