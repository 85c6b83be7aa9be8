"""``inspect`` for people: what happened, where it stands, what to do next."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.cli import state_view
from runner.cli.exit_codes import of_verification
from runner.cli.where import Where
from runner.contract import events
from runner.contract.outcomes import (
    Check,
    DeliveryState,
    OpenWait,
    Outcome,
    Reason,
    StepState,
    UncertainEffect,
    Verification,
)
from tests.cli.records import OID, record, settlement, text_of

AT = "2026-01-01T10:00:00.000000Z"
LATER = "2026-01-01T10:02:05.500000Z"
NOW = dt.datetime(2026, 1, 1, 11, tzinfo=dt.UTC)
WHERE = Where(
    delivery="d1",
    worktree="/w",
    base_commit="2" * 40,
    activation_file=Path("/s/d1.json"),
    repository="/r",
    worktree_kept=False,
)


def step(key: str, state: str, **more: Any) -> StepState:
    return StepState.model_validate({"step": key, "state": state, "attempt": 1, "since": LATER, "began": AT, **more})


def delivery(*steps: StepState, **more: Any) -> DeliveryState:
    fields = {"delivery": "d1", "phase": "running", "isolation": "none", "accepted_at": AT, "last_at": LATER}
    return DeliveryState.model_validate({**fields, "records": 9, "steps": steps, **more})


def shown(state: DeliveryState, where: Where = WHERE, columns: int | None = None) -> str:
    return text_of(state_view.state_lines(state, where, NOW, columns))


def test_a_settled_delivery() -> None:
    """Outcome, publication, times, what was spent, each step with its time and tokens, and how to take the result."""
    used = {"model_calls": 2, "answers": 2, "counted": 2, "priced": 1, "cost_usd": 0.5}
    steps = (
        step("plan@1", "completed", outcome="success", input_tokens=1200, output_tokens=34, **used),
        step("tests@2", "failed", attempt=2, outcome="failure", detail="ended with exit status 1"),
        step("later@1", "skipped", began=None, attempt=0, outcome="skipped", detail="when"),
    )
    text = shown(delivery(*steps, phase="settled", outcome=Outcome.COMPLETED, settlement=settlement()))
    assert text.splitlines() == [
        "Delivery d1: completed (all-steps-finished)",
        "  published  branch runner/d1 at 111111111111",
        "  accepted   2026-01-01 10:00:00 UTC",
        "  settled    2026-01-01 10:02:05 UTC",
        "  isolation  none: commands run as ordinary processes with your rights",
        "  spent      1,200 in + 34 out tokens, at least $0.5000",
        "  records    9",
        "  steps",
        "  + plan                 done             2m05s  1,200 in + 34 out, at least $0.5000",
        "  x tests.visit[2]       failed           2m05s  attempt 2  ended with exit status 1",
        "  - later                skipped                 when",
        "  next",
        "    see the commits    git -C /r log --oneline 222222222222..runner/d1",
        "    see the change     git -C /r diff 222222222222 111111111111",
        "    take it            git -C /r merge runner/d1",
        "    see what happened  runner inspect d1 --events",
    ]


def test_an_open_delivery_says_how_to_go_on() -> None:
    """Driven: look again or cancel. Not driven: continue; its running step stands still and its time does not grow."""
    running = step("tests@1", "running", since=AT)
    driven = shown(delivery(running, driver="host:7"))
    assert "driver     host:7" in driven and "> tests                running          1h00m" in driven
    assert "runner cancel d1" in driven and "execute" not in driven
    left = shown(delivery(running, phase="suspended"))
    assert "nobody is working on it" in left and "0.0s  nobody drives it" in left
    assert "    continue           runner execute d1\n" in left


def test_why_it_is_suspended() -> None:
    """Reason, step, detail, and from when on the next execute is worth it; open questions speak for themselves."""
    said = {"reason": "transient", "detail": "openai: gone\x1b[1m", "step": "plan@1"}
    later = delivery(phase="suspended", suspended={**said, "not_before": "2026-01-01T12:00:00Z"})
    assert "  because    transient at plan\n             openai: gone" in shown(later)
    assert "\x1b" not in shown(later)
    assert "  next try   not before 2026-01-01 12:00:00 UTC\n" in shown(later)
    past = delivery(phase="suspended", suspended={**said, "not_before": "2026-01-01T10:30:00Z"})
    assert "  next try   now\n" in shown(past)
    wait = OpenWait(wait="ask@1", kind="approval", step="ask@1", prompt="?", answer_schema={}, since=AT)
    asked = delivery(phase="suspended", waits=(wait,), suspended={**said, "not_before": None})
    assert "because" not in shown(asked)


EFFECT = UncertainEffect(
    step="deploy@1", call="deploy@1/1/t1", tool="command", input_text="./deploy", key="sha256:k", since=AT
)


def test_an_uncertain_effect() -> None:
    """Which, since when, with what, under which key; every resolution as a command, and only then how to go on."""
    state = delivery(step("deploy@1", "running"), phase="needs-intervention", uncertain=(EFFECT,))
    text = shown(state)
    assert f"uncertain  deploy: command, begun {AT}, call deploy@1/1/t1\n" in text
    assert "             ./deploy\n             key sha256:k\n" in text
    assert [words for _, words in state_view.next_of(state, WHERE)] == [
        "runner resolve d1 deploy@1/1/t1 --happened 0",
        "runner resolve d1 deploy@1/1/t1 --did-not-happen",
        "runner resolve d1 deploy@1/1/t1 --abandon",
        "runner execute d1",
        "runner cancel d1",
        "runner inspect d1 --events",
    ]


def test_two_uncertain_effects_are_told_apart() -> None:
    """Each command says which of them it is about."""
    other = EFFECT.model_copy(update={"call": "ship@1/1/t1", "tool": "ship"})
    text = shown(delivery(phase="needs-intervention", uncertain=(EFFECT, other)))
    assert "it did not happen (ship@1/1/t1) " in text and "runner resolve d1 ship@1/1/t1 --happened RESULT" in text


def test_an_edited_worktree() -> None:
    """What somebody changed is decided about, by name."""
    text = shown(delivery(phase="needs-intervention", detail="worktree-edited: plan: src/a.py"))
    for said in ("adopt", "discard", "abandon"):
        assert f"runner resolve d1 --{said}\n" in text


def test_open_questions() -> None:
    """Who asks, what, until when, what an answer is, and one command for every answer; its terminal is not steered."""
    answer = {
        "type": "object",
        "properties": {"decision": {"type": "string", "enum": ["approve", "reject"]}, "comment": {"type": "string"}},
        "required": ["decision"],
    }
    review = {"kind": "approval", "step": "review@2", "prompt": "Ship\x1b[2J it?\nReally?", "answer_schema": answer}
    first = OpenWait.model_validate(
        {**review, "wait": "review@2~1", "outcome": "decision", "since": AT, "expires_at": LATER}
    )
    text = shown(delivery(phase="suspended", waits=(first,)))
    assert f"asks       review.visit[2]: wait review@2~1, since {AT}, until {LATER}\n" in text
    assert "             Ship\\x1b[2J it?\n             Really?\n" in text
    assert "answer: decision = approve | reject, comment (optional text)\n" in text
    assert "    approve            runner answer d1 'review@2~1' approve\n" in text
    second = OpenWait.model_validate(
        {"wait": "a@1/1/t1", "kind": "interaction", "step": "a@1", "prompt": "?", "answer_schema": True, "since": AT}
    )
    both = shown(delivery(phase="suspended", driver="host:7", waits=(first, second)))
    assert "reject (review.visit[2])" in both and "runner answer d1 a@1/1/t1 VALUE\n" in both
    assert "execute" not in both


def test_verification() -> None:
    """Every check and its detail, then how many failed."""
    checks = (Check(name="chain", ok=True, detail="9 records"), Check(name="store", ok=False, detail="a\nb"))
    lines = text_of(state_view.verification_lines(Verification(delivery="d1", checks=checks))).splitlines()
    assert lines == [
        "  ok      chain  9 records",
        "  failed  store  a",
        "                 b",
        "Delivery d1: 1 of 2 checks failed",
    ]
    whole = Verification(delivery="d1", checks=checks[:1])
    assert text_of(state_view.verification_lines(whole)).endswith("Delivery d1: all 1 checks hold")
    assert [of_verification(v) for v in (whole, Verification(delivery="d1", checks=checks))] == [0, 4]


def test_a_long_reason_is_shown_whole_and_bounded() -> None:
    """The first line beside the step, the others below it, not without end."""
    reason = "\n".join(["asks for something else:", *(f"line {n}" for n in range(100))])
    text = shown(delivery(step("plan@1", "failed", outcome="failure", detail=reason)))
    assert "asks for something else: [...]\n        line 0\n        line 1\n" in text
    assert "line 59\n        ... and 40 more lines" in text and "line 60" not in text


def test_nothing_is_known_yet() -> None:
    """A Delivery that was never accepted: what there is is said, nothing is invented."""
    text = shown(
        delivery(phase="accepting", accepted_at="", last_at=""), replace(WHERE, base_commit="", repository=None)
    )
    assert "accepted " not in text and "isolation  none" in text


def test_the_list() -> None:
    """Id, phase, outcome and when, in columns; one that cannot be read is listed with its error."""
    ended = delivery(phase="settled", outcome=Outcome.FAILED, reason=Reason.STEP_FAILED)
    text = text_of(state_view.list_lines([ended, delivery(delivery="a-longer-name"), ("odd", "error[x]: y")]))
    assert text.splitlines() == [
        "DELIVERY       PHASE    OUTCOME               ACCEPTED",
        "d1             settled  failed (step-failed)  2026-01-01 10:00:00 UTC",
        "a-longer-name  running  open                  2026-01-01 10:00:00 UTC",
        "odd  error[x]: y",
    ]


def test_records_in_one_line() -> None:
    """A record is one line whatever it holds."""
    event = events.StepFailed(outcome="failure", code="exit", message="first\nsecond", retriable=True, savepoint=OID)
    line = state_view.record_line(record(event, seq=12))
    assert line.count("\n") == 0 and line.split()[0] == "12" and "step.failed" in line and "first\\nsecond" in line
