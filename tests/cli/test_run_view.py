"""A Delivery's records as lines that people can follow."""

import contextlib
import io

import pytest

from runner.cli.live import LiveView
from runner.cli.run_view import RunView, Spent, duration
from runner.contract import events
from runner.contract.events import Usage
from runner.contract.ids import StepRef
from tests.cli.records import DIGEST, OID, record


def _started() -> events.StepAttemptStarted:
    return events.StepAttemptStarted(savepoint=OID, input=DIGEST)


def _responded(usage: Usage) -> events.ModelResponded:
    return events.ModelResponded(call="c", provider="openai", model="m", usage=usage)


def test_a_step_from_start_to_end() -> None:
    """State, elapsed time, tokens and cost; each change of state is told once."""
    view = RunView()
    assert view.take(record(events.StepScheduled()), 0.0) is None
    assert view.take(record(_started()), 1.0) is not None
    assert view.take(record(events.ModelCalled(call="c", turn=2, request=DIGEST)), 1.5) is None
    assert "asking the model (turn 2)" in view.running()[0].line(2.0)
    view.take(record(_responded(Usage(input_tokens=1200, output_tokens=34, cost_usd=0.5))), 2.0)
    ended = view.take(record(events.StepCompleted(outcome="success", output=None, savepoint=OID)), 4.5)
    assert ended is not None
    assert ended.line(99.0).split() == [
        "+",
        "tests",
        "done",
        "3.5s",
        "1,200",
        "in",
        "+",
        "34",
        "out,",
        "$0.5000",
    ]
    assert view.running() == []


def test_unknown_is_never_zero() -> None:
    """A call without tokens or cost makes a sum "at least", never exact and never 0."""
    spent = Spent()
    assert str(spent) == ""
    spent.add(Usage())
    assert (str(spent), spent.short()) == ("tokens unknown, cost unknown", "tokens unknown")
    spent.add(Usage(input_tokens=5, output_tokens=1, cost_usd=0.25))
    assert str(spent) == "at least 5 in + 1 out tokens, at least $0.2500"
    assert spent.short() == "at least 5 in + 1 out, at least $0.2500"


def test_failure_names_what_was_broken() -> None:
    """A scope violation shows its paths."""
    view = RunView()
    view.take(record(_started()), 0.0)
    failed = events.StepFailed(
        outcome="failure",
        code="scope-violation",
        message="wrote outside src/**",
        retriable=False,
        paths=("added x.txt",),
        savepoint=OID,
    )
    line = view.take(record(failed), 1.0)
    assert line is not None
    assert "failed " in line.line(1.0) and "added x.txt" in line.line(1.0)
    told = failed.model_copy(update={"message": "wrote outside src/**: added x.txt; widen it"})
    view = RunView()
    view.take(record(_started()), 0.0)
    again = view.take(record(told), 1.0)
    assert again is not None and again.line(1.0).count("added x.txt") == 1


def test_visits_are_lines_of_their_own() -> None:
    """A loop shows each round."""
    view = RunView()
    view.take(record(_started(), "tests@1"), 0.0)
    view.take(record(_started(), "tests@2"), 0.0)
    assert [str(line.step) for line in view.running()] == ["tests", "tests.visit[2]"]


def test_lines_fit_a_terminal() -> None:
    """Columns are aligned; a text that does not fit stands below, in words; on a pipe it is one line, whatever it holds."""
    view = RunView()
    view.take(record(_started()), 0.0)
    message = "the command wrote where it may not write, which is outside of its scope\nand more"
    failed = events.StepFailed(outcome="failure", code="x", message=message, retriable=False, savepoint=OID)
    line = view.take(record(failed), 83.0)
    assert line is not None
    whole = line.line(0.0)
    assert line.lines(0.0, None) == [whole] and whole.endswith("outside of its scope [...]")
    head, *below = line.lines(0.0, 60)
    assert head == "x tests                failed           1m23s"
    assert all(len(part) <= 60 and part.startswith("      ") for part in below)
    assert " ".join(part.strip() for part in below) == line.text


@pytest.mark.parametrize(("seconds", "said"), [(0.04, "0.0s"), (59.9, "59.9s"), (125, "2m05s"), (3720, "1h02m")])
def test_durations(seconds: float, said: str) -> None:
    """Short, and never wider than the column."""
    assert duration(seconds) == said


def test_progress_of_unknown_steps_is_ignored() -> None:
    """Progress is one-way and may come early or late."""
    view = RunView()
    view.progress(StepRef.parse("tests@1"), "text")
    assert view.running() == []


def test_plain_lines_on_a_pipe() -> None:
    """Without a terminal: one plain line per change, nothing that moves, control characters visible."""
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream), LiveView("none") as view:
        view.record(record(_started()))
        view.progress(StepRef.parse("tests@1"), "half\x1b[31m")
        view.record(record(events.StepSkipped(reason="when"), "other@1"))
        view.record(
            record(
                events.SavepointTaken(savepoint=OID, tree=OID, changed=("b", "a"), changed_count=2, role="step"),
                "tests@1",
            )
        )
        view.note("odd \x1b[2J text")
    lines = stream.getvalue().splitlines()
    assert [line.split()[:3] for line in lines[:3]] == [
        ["isolation", "none:", "commands"],
        [">", "tests", "running"],
        ["-", "other", "skipped"],
    ]
    assert "\x1b" not in stream.getvalue() and "\\x1b[2J" in stream.getvalue()
    assert view.changed == {"a", "b"}
