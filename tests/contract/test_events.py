"""The ledger's vocabulary: every kind has an owner, a version, a payload that reads back, and a line in the docs."""

from typing import get_args

import pytest
from pydantic import ValidationError

from runner.contract.activation import Origin
from runner.contract.canonical import canonical, parse
from runner.contract.events import (
    STEP_ENDS,
    VOCABULARY,
    ArtifactStored,
    CancelRequested,
    DecisionTaken,
    DeliveryAccepted,
    DeliveryForked,
    DeliverySettled,
    DeliverySuspended,
    Event,
    InteractionAnswered,
    InteractionRequested,
    InterventionNeeded,
    InterventionResolved,
    ModelCalled,
    ModelResponded,
    OutputValidated,
    Owner,
    OwnerRetired,
    ProcessStarted,
    PublicationAsked,
    PublicationKnown,
    ResultPreserved,
    RetirementAuthorized,
    SavepointTaken,
    SessionCompleted,
    SessionFailed,
    SessionStarted,
    StepAttemptStarted,
    StepCompleted,
    StepFailed,
    StepScheduled,
    StepSkipped,
    StepSuperseded,
    TerminalProposed,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
    Usage,
    ValueRef,
    WaitAnswered,
    WaitExpired,
    WaitOpened,
)
from runner.contract.model import read_model
from runner.contract.outcomes import Outcome, Reason, Retirement
from tests.contract.specimens import DIGEST, OBJECT
from tests.contract.test_outcomes import PUBLICATION, SETTLEMENT

INLINE = ValueRef(digest=DIGEST, bytes=9, inline={"deep": [1, {"x": None}]})
STORED = ValueRef(digest=DIGEST, bytes=9_000, stored=True)

SPECIMENS: list[Event] = [
    DeliveryAccepted(
        activation=DIGEST,
        plan=DIGEST,
        meaning=DIGEST,
        meaning_text={"engine": "langgraph"},
        runner_version="0.1.0",
        document=STORED,
    ),
    DeliveryForked(origin=Origin(delivery="first", position=7, record=DIGEST, savepoint=OBJECT), records=5),
    DeliverySuspended(reason="auth", detail="no key", step="implement@1", not_before="2026-01-01T00:00:00Z"),
    StepScheduled(),
    StepAttemptStarted(savepoint=OBJECT, input=DIGEST),
    SessionStarted(session="s", descriptor={"model": "m"}, descriptor_digest=DIGEST),
    ModelCalled(call="a@1/1/m1", turn=1, request=DIGEST),
    ModelResponded(
        call="a@1/1/m1", provider="p", model="m", response=INLINE, usage=Usage(input_tokens=1), duration_s=0.5
    ),
    ToolCalled(call="a@1/1/t1", tool="edit", caller="model", effect="workspace", key=DIGEST, input=INLINE),
    ToolSucceeded(call="a@1/1/t1", value=INLINE),
    ToolFailed(call="a@1/1/t1", message="no such file"),
    SessionCompleted(session="s"),
    SessionFailed(session="s", code="auth", message="refused"),
    ArtifactStored(digest=DIGEST, bytes=9_000),
    OutputValidated(digest=DIGEST),
    SavepointTaken(savepoint=OBJECT, tree=OBJECT, changed=("a.py",), changed_count=1, role="step"),
    StepCompleted(outcome="success", output=INLINE, savepoint=OBJECT),
    StepFailed(outcome="failure", code="scope-violation", message="m", retriable=False, savepoint=OBJECT),
    StepSkipped(reason="when"),
    StepSuperseded(reason="re-opened"),
    DecisionTaken(case="yes", target="go"),
    CancelRequested(who="me", cause="request"),
    InterventionNeeded(reason="uncertain", detail="d"),
    InterventionResolved(call="a@1/1/t1", resolution="happened", value=INLINE, who="me"),
    WaitOpened(
        wait="ok@1", prompt="Go on?", answer_schema={}, outcome="decision", show_diff=True, expires_at=None, renewal=1
    ),
    WaitAnswered(wait="ok@1", value=INLINE, who="me"),
    WaitExpired(wait="ok@1", consequence="renewed"),
    InteractionRequested(wait="a@1/1/t2", prompt="Which?", answer_schema={}),
    InteractionAnswered(wait="a@1/1/t2", value=INLINE, who="me"),
    ProcessStarted(call="a@1/1/t1", pid=2, start_time="b:1", group=2),
    TerminalProposed(outcome=Outcome.FAILED, reason=Reason.STEP_FAILED, step="a@1", detail="d", output=None),
    ResultPreserved(tree=OBJECT, commit=OBJECT, ref="refs/runner/one/result"),
    PublicationAsked(ref="refs/heads/x", expected="absent", new=OBJECT),
    PublicationKnown(publication=PUBLICATION),
    RetirementAuthorized(authorization=DIGEST),
    OwnerRetired(retirement=Retirement(owner="host", authorization=DIGEST)),
    DeliverySettled(settlement=SETTLEMENT),
]
BY_KIND = {event.KIND: event for event in SPECIMENS}


def test_every_event_class_is_in_the_vocabulary_and_tried_here() -> None:
    """A kind that is added must be readable, and must be added to these tests."""
    assert set(VOCABULARY.values()) == set(Event.__subclasses__())
    assert set(BY_KIND) == set(VOCABULARY)
    assert len(SPECIMENS) == len(BY_KIND)


@pytest.mark.parametrize("kind", VOCABULARY)
def test_a_payload_reads_back_equal(kind: str) -> None:
    """From its canonical bytes, through the class that the vocabulary names, to the same value."""
    event = BY_KIND[kind]
    assert read_model(VOCABULARY[kind], parse(canonical(event.to_json()))) == event


@pytest.mark.parametrize("kind", VOCABULARY)
def test_a_kind_has_a_name_a_version_and_owners(kind: str) -> None:
    """Dotted lower case, a version from 1, and at least one room that may write it."""
    event = VOCABULARY[kind]
    words = kind.split(".")
    assert kind == event.KIND
    assert len(words) == 2 and all(w.replace("_", "").isalpha() and w.islower() for w in words)
    assert event.VERSION >= 1
    assert event.OWNER and set(event.OWNER) <= set(get_args(Owner))


@pytest.mark.parametrize("kind", VOCABULARY)
def test_a_payload_is_closed_and_frozen(kind: str) -> None:
    """An unknown field is refused, and nothing can be changed after it was recorded."""
    document = dict(parse(canonical(BY_KIND[kind].to_json())))  # type: ignore[arg-type]
    assert isinstance(read_model(VOCABULARY[kind], {**document, "surprise": 1}), tuple)
    with pytest.raises((ValidationError, ValueError)):
        setattr(BY_KIND[kind], next(iter(VOCABULARY[kind].model_fields), "surprise"), "x")


def test_a_step_ends_by_exactly_four_kinds() -> None:
    """The store refuses a second end by this set; all of them are the host's to write."""
    assert {"step.completed", "step.failed", "step.skipped", "step.superseded"} == STEP_ENDS
    assert all(VOCABULARY[kind].OWNER == ("host",) for kind in STEP_ENDS)


def test_unknown_usage_is_not_zero() -> None:
    """An endpoint that reports nothing leaves None, which nobody may sum as 0."""
    assert Usage().to_json() == {"input_tokens": None, "output_tokens": None, "cost_usd": None}
