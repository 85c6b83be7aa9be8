"""``inspect`` for people: what happened, where it stands, what to do next."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.cli import render, state_view
from runner.contract import events
from runner.contract.outcomes import DeliveryState, Outcome, Reason, StepState, UncertainEffect
from tests.cli.records import OID, record, settlement, text_of

AT = "2026-01-01T10:00:00.000000Z"
LATER = "2026-01-01T10:02:05.500000Z"
NOW = dt.datetime(2026, 1, 1, 11, tzinfo=dt.UTC)
WHERE = render.Where(
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


def shown(state: DeliveryState, where: render.Where = WHERE, columns: int | None = None) -> str:
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
    assert "    continue           runner execute /s/d1.json\n" in left


def test_what_needs_a_person() -> None:
    """Which effect is uncertain; never a command that would repeat it."""
    effect = UncertainEffect(
        step="deploy@1", call="deploy@1/1/t1", tool="command", input_text="./deploy", key="k", since=AT
    )
    text = shown(delivery(step("deploy@1", "running"), phase="needs-intervention", uncertain=(effect,)))
    assert "uncertain  deploy: command" in text and "./deploy" in text and "execute" not in text


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
