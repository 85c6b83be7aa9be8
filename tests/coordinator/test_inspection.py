"""What ``inspect`` makes of records. Pure: no ledger, no driver."""

from runner.contract.events import (
    DeliveryAccepted,
    Event,
    ModelCalled,
    ModelResponded,
    StepAttemptStarted,
    StepCompleted,
    StepScheduled,
    Usage,
    ValueRef,
)
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.outcomes import StepState
from runner.contract.records import Record
from runner.coordinator.inspection import fold

DIGEST = "sha256:" + "a" * 64
OID = "1" * 40


ACCEPTED = DeliveryAccepted(
    activation=DIGEST,
    plan=DIGEST,
    meaning=DIGEST,
    meaning_text={"isolation": "none"},
    runner_version="1",
    document=ValueRef(digest=DIGEST, bytes=2, inline={}),
)


def step_after(*happened: Event) -> StepState:
    """The state of step ``ask@1`` after these facts, one second apart, the first one second after the acceptance."""
    step = StepRef.parse("ask@1")
    records = [
        Record(
            seq=second + 1,
            at=f"2026-01-01T00:00:{second:02}.000000Z",
            generation=1,
            event=event,
            step=step if second else None,
            attempt=1 if second else None,
        )
        for second, event in enumerate([ACCEPTED, *happened])
    ]
    state = fold(records, DeliveryId("d1"), "host:1", "none")
    assert (state.accepted_at, state.last_at) == (records[0].at, records[-1].at)
    return state.steps[0]


def answered(call: str, usage: Usage) -> tuple[Event, Event]:
    return (
        ModelCalled(call=call, turn=1, request=DIGEST),
        ModelResponded(call=call, provider="openai", model="m", usage=usage),
    )


def test_sums_say_how_much_of_them_is_known() -> None:
    """Tokens and cost are summed over the answers that told them; the others are counted, never taken for zero."""
    started = StepAttemptStarted(savepoint=OID, input=DIGEST)
    state = step_after(
        started,
        *answered("a", Usage(input_tokens=5, output_tokens=2, cost_usd=0.25)),
        *answered("b", Usage()),
        *answered("c", Usage(input_tokens=7)),
        ModelCalled(call="d", turn=1, request=DIGEST),
    )
    assert (state.model_calls, state.answers, state.counted, state.priced) == (4, 3, 2, 1)
    assert (state.input_tokens, state.output_tokens, state.cost_usd) == (12, 2, 0.25)


def test_a_step_began_with_its_first_attempt() -> None:
    """Further attempts and its end do not move that; before it there is none."""
    started = StepAttemptStarted(savepoint=OID, input=DIGEST)
    assert step_after(StepScheduled()).began is None
    ended = StepCompleted(outcome="success", output=None, savepoint=OID)
    state = step_after(StepScheduled(), started, started, ended)
    assert (state.began, state.since) == ("2026-01-01T00:00:02.000000Z", "2026-01-01T00:00:04.000000Z")
