"""What is printed at the end: outcome, change, publication, and commands that can be pasted."""

import shlex
from pathlib import Path

from runner.cli import failures, render
from runner.cli.driving import Driven
from runner.contract import events
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.outcomes import (
    Busy,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Suspended,
    UncertainEffect,
)
from tests.cli.records import OID, record, settlement

D = DeliveryId("d1")
WHERE = render.Where(
    delivery="d1",
    worktree="/w/my work",
    base_commit="2" * 40,
    activation_file=Path("/s/d1.json"),
    config=Path("/c d.toml"),
    repository="/r",
)


def _shown(result: ExecuteResult, diffstat: str = "") -> str:
    lines = render.result_lines(Driven(result=result, changed=("a",), spent=""), WHERE, diffstat)
    return "\n".join(line if isinstance(line, str) else line[0] for line in lines)


def test_published() -> None:
    """Where it is, what changed, and how to look at it and take it."""
    text = _shown(Settled(settlement=settlement()), " src/a.py | 3 +-\n 1 file changed")
    assert "d1: completed (all-steps-finished)" in text
    assert f"refs/heads/runner/d1 at {OID} (published)" in text and "src/a.py | 3 +-" in text
    assert f"git -C /r log --oneline {'2' * 40}..runner/d1" in text
    assert "git -C /r merge runner/d1" in text
    assert "runner inspect d1 --events --config '/c d.toml'" in text


def test_conflict_keeps_the_result_in_reach() -> None:
    """The target moved: nothing is lost, and the command that keeps the result is printed."""
    text = _shown(Settled(settlement=settlement(disposition="conflict", reason="moved", new="3" * 40)))
    assert "was not moved (moved)" in text and f"git -C /r branch d1-result {OID}" in text


def test_open_ones_say_how_to_go_on() -> None:
    """Every result that leaves the Delivery open prints the command that continues it."""
    for result in (
        Suspended(
            delivery=D, reason="quota", detail="wait", step=StepRef.parse("plan@1"), not_before="2026-01-01T00:00:00Z"
        ),
        Interrupted(delivery=D, detail="stopped"),
    ):
        assert "runner execute /s/d1.json --config '/c d.toml'" in _shown(result)
    busy = _shown(Busy(delivery=D, host="h", pid=7, since="then"))
    assert "pid 7 on h since then" in busy and "runner cancel d1" in busy


def test_uncertain_effects_are_named() -> None:
    """Which call, when, with what."""
    effect = UncertainEffect(
        step=StepRef.parse("deploy@1"),
        call="deploy@1/1/t1",
        tool="command",
        input_text="./deploy",
        key="k",
        since="then",
    )
    text = _shown(NeedsIntervention(delivery=D, reason="uncertain-effect", detail="x", effects=(effect,)))
    assert "deploy: command, begun then, call deploy@1/1/t1" in text and "./deploy" in text


def test_documents_hold_the_exit_code_and_the_settlement() -> None:
    """Scripts get the whole truth."""
    driven = Driven(result=Settled(settlement=settlement(Outcome.FAILED)), changed=(), spent="")
    document = render.result_document(driven, WHERE, "")
    assert (document["result"], document["exit"], document["settlement"]["outcome"]) == ("settled", 1, "failed")
    assert all(shlex.split(command)[0] in ("git", "runner") for command in document["next"])


def test_records_in_one_line() -> None:
    """A record is one line whatever it holds."""
    event = events.StepFailed(outcome="failure", code="exit", message="first\nsecond", retriable=True, savepoint=OID)
    line = render.record_line(record(event, seq=12))
    assert line.count("\n") == 0 and line.split()[0] == "12" and "step.failed" in line and "first\\nsecond" in line


def test_errors_show_every_finding() -> None:
    """Place, problem and fix of each, then what to do."""
    findings = (
        Finding(place="w.yaml:3", problem="is odd", fix="make it even"),
        Finding(place="w.yaml:9", problem="x", fix=""),
    )
    error = CallerError(Code.PACKAGE_INVALID, "2 problems", remedy="mend them", findings=findings)
    lines = [line if isinstance(line, str) else line[0] for line in failures.lines_of(error)]
    assert lines == [
        "error[package-invalid]: 2 problems",
        "  w.yaml:3: is odd",
        "    fix: make it even",
        "  w.yaml:9: x",
        "  what to do: mend them",
    ]
