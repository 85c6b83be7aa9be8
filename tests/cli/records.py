"""Records for the views."""

from typing import Any

from runner.cli.terminal import Line
from runner.contract.events import Event
from runner.contract.ids import StepRef
from runner.contract.outcomes import OWNERS, Outcome, Publication, Reason, Retirement, Settlement
from runner.contract.records import Record

OID = "1" * 40
DIGEST = "sha256:" + "a" * 64


def record(event: Event, step: str | None = "tests@1", *, seq: int = 1, attempt: int = 1) -> Record:
    ref = StepRef.parse(step) if step else None
    return Record(
        seq=seq,
        at="2026-01-01T00:00:00.000000Z",
        generation=1,
        event=event,
        step=ref,
        attempt=attempt if step else None,
    )


def text_of(lines: list[Line]) -> str:
    """What a person reads, without styles."""
    return "\n".join(line if isinstance(line, str) else line[0] for line in lines)


def settlement(outcome: Outcome = Outcome.COMPLETED, **publication: Any) -> Settlement:
    fields = {
        "disposition": "published" if outcome is Outcome.COMPLETED else "not-requested",
        "ref": "refs/heads/runner/d1",
        "old": "absent",
        "new": OID,
        **publication,
    }
    return Settlement(
        delivery="d1",
        activation=DIGEST,
        plan=DIGEST,
        outcome=outcome,
        reason=Reason.ALL_STEPS_FINISHED,
        step=None,
        output=None,
        result_tree=OID,
        result_commit=OID,
        publication=Publication(**fields),
        retirements=tuple(Retirement(owner=owner, authorization=DIGEST) for owner in OWNERS),
    )
