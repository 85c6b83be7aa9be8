"""What is printed at the end: outcome, change, publication, and commands that can be pasted."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from runner.cli import failures, render
from runner.cli.driving import Driven
from runner.cli.where import Where, git_command, runner_command
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
from tests.cli.records import settlement, text_of

D = DeliveryId("d1")
WHERE = Where(
    delivery="d1",
    worktree="/w/my work",
    base_commit="2" * 40,
    activation_file=Path("/s/d1.json"),
    config=Path("/c d.toml"),
    repository="/r",
)


def _shown(result: ExecuteResult, diffstat: str = "", columns: int | None = None) -> str:
    return text_of(render.result_lines(Driven(result=result, changed=("a",), spent=""), WHERE, diffstat, columns))


def test_published() -> None:
    """Where it is, what changed, and how to look at it and take it."""
    text = _shown(Settled(settlement=settlement()), " src/a.py | 3 +-\n 1 file changed")
    assert "d1: completed (all-steps-finished)" in text
    assert "published  branch runner/d1 at 111111111111\n" in text and "src/a.py | 3 +-" in text
    assert "git -C /r log --oneline 222222222222..runner/d1" in text
    assert "git -C /r merge runner/d1" in text
    assert "runner inspect d1 --events --config '/c d.toml'" in text


def test_what_was_recorded_can_be_pasted() -> None:
    """Where the sessions of this Delivery are, as the binding that replays them."""
    where = replace(WHERE, recordings=Path("/tapes of mine/d1"))
    driven = Driven(result=Settled(settlement=settlement()), changed=(), spent="")
    text = text_of(render.result_lines(driven, where, "", None))
    assert "recorded   replay it with --bind 'ROLE=recorded:/tapes of mine/d1'\n" in text
    assert render.result_document(driven, where, "")["recordings"] == "/tapes of mine/d1"
    assert "recorded " not in _shown(Settled(settlement=settlement()))


def test_a_long_output_is_cut() -> None:
    """For people; no value, no line."""
    (line,) = render.output_lines({"report": "x\n" * 10_000})
    assert isinstance(line, str) and len(line) < 500 and "\n" not in line
    assert render.output_lines(None) == []


def test_conflict_keeps_the_result_in_reach() -> None:
    """The target moved: nothing is lost, and the command that keeps the result is printed."""
    text = _shown(Settled(settlement=settlement(disposition="conflict", reason="moved", new="3" * 40)))
    assert "runner/d1 is at 333333333333 and was not moved (moved)" in text
    assert "git -C /r branch d1-result 111111111111" in text


def test_open_ones_say_how_to_go_on() -> None:
    """Every result that leaves the Delivery open prints the command that continues it."""
    step = StepRef.parse("plan@1")
    suspended = Suspended(delivery=D, reason="quota", detail="wait", step=step, not_before="2026-01-01T00:00:00Z")
    assert "runner execute d1 --config '/c d.toml'" in _shown(suspended)
    # Stopped that early, it may not be known by its id.
    assert "runner execute /s/d1.json --config '/c d.toml'" in _shown(Interrupted(delivery=D, detail="stopped"))
    busy = _shown(Busy(delivery=D, host="h", pid=7, since="then"))
    assert "pid 7 on h since then" in busy and "runner cancel d1" in busy


def test_uncertain_effects_are_named() -> None:
    """Which call, when, with what."""
    effect = UncertainEffect(
        step="deploy@1",
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


def test_a_command_is_never_cut_or_broken() -> None:
    """Where a terminal is too narrow for "why  command", the command has a line of its own."""
    result = Settled(settlement=settlement())
    narrow, wide = _shown(result, columns=60), _shown(result, columns=200)
    assert "    take it            git -C /r merge runner/d1\n" in wide
    assert "    take it\n      git -C /r merge runner/d1\n" in narrow
    commands = [line.strip() for line in narrow.splitlines() if line.startswith("      ")]
    assert all(command in wide for command in commands) and len(commands) == 4


@pytest.mark.parametrize(("here", "said"), [("/r", "git merge"), ("/", "git -C r merge"), ("/x", "git -C /r merge")])
def test_places_are_said_from_where_the_person_is(here: str, said: str) -> None:
    """Shorter where it can be, and right in every case."""
    where = replace(WHERE, here=Path(here), config=Path(here) / "c.toml", program=(".venv/bin/runner",))
    assert git_command(where, "merge", "b") == f"{said} b"
    assert runner_command(where, "cancel", "d1") == ".venv/bin/runner cancel d1 --config c.toml"


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
