"""What a running Delivery looks like: a fold of its records into one line per step. Pure."""

import textwrap
from dataclasses import dataclass, field
from typing import Final, Literal

from runner.cli.terminal import Style
from runner.contract import events
from runner.contract.ids import StepRef
from runner.contract.records import Record
from runner.contract.text import excerpt

State = Literal["waiting", "running", "done", "failed", "skipped", "superseded"]
TEXT_CHARS_MAX: Final = 60
REASON_CHARS_MAX: Final = 400
DEEP: Final = " " * 6
"""What a text on a line of its own begins with."""

MARKS: Final[dict[State, str]] = {
    "waiting": ".",
    "running": ">",
    "done": "+",
    "failed": "x",
    "skipped": "-",
    "superseded": "~",
}


def one_line(text: str) -> str:
    """The first line, and a sign where there is more; bounded."""
    first, _, more = text.strip().partition("\n")
    return excerpt(first, REASON_CHARS_MAX) + (" [...]" if more else "")


def isolation_text(isolation: str) -> str:
    """What the isolation means for whoever watches."""
    match isolation:
        case "none":
            return "none: commands run as ordinary processes with your rights"
        case "bubblewrap":
            return "bubblewrap: commands reach only the worktree, and no network"
        case _:
            return isolation


def duration(seconds: float) -> str:
    """``3.5s``, ``2m05s``, ``1h02m``."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


@dataclass(slots=True)
class Spent:
    """Tokens and cost summed once per call. Unknown is never zero: a call without a cost makes the sum "at least"."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    priced: int = 0
    counted: int = 0

    def add(self, usage: events.Usage) -> None:
        self.calls += 1
        if usage.input_tokens is not None or usage.output_tokens is not None:
            self.counted += 1
            self.input_tokens += usage.input_tokens or 0
            self.output_tokens += usage.output_tokens or 0
        if usage.cost_usd is not None:
            self.priced += 1
            self.cost_usd += usage.cost_usd

    def __str__(self) -> str:
        """``1,234 in + 56 out tokens, cost unknown``; empty when no model was called."""
        if not self.calls:
            return ""
        return f"{self._tokens(' tokens')}, {self._cost() or 'cost unknown'}"

    def short(self) -> str:
        """``1,234 in + 56 out, $0.0123``; a cost that is unknown is left out."""
        return ", ".join(part for part in (self._tokens(""), self._cost()) if part) if self.calls else ""

    def _tokens(self, unit: str) -> str:
        at_least = "" if self.counted == self.calls else "at least "
        return (
            f"{at_least}{self.input_tokens:,} in + {self.output_tokens:,} out{unit}"
            if self.counted
            else "tokens unknown"
        )

    def _cost(self) -> str:
        at_least = "" if self.priced == self.calls else "at least "
        return f"{at_least}${self.cost_usd:.4f}" if self.priced else ""


STYLES: Final[dict[State, Style]] = {
    "waiting": "",
    "running": "",
    "done": "green",
    "failed": "red",
    "skipped": "dim",
    "superseded": "dim",
}


@dataclass(slots=True)
class StepLine:
    """One step as it is known so far. Times are seconds of the viewer's own clock."""

    step: StepRef
    state: State = "waiting"
    attempt: int = 1
    began_s: float | None = None
    ended_s: float | None = None
    outcome: str = ""
    text: str = ""
    spent: Spent = field(default_factory=Spent)

    def line(self, now_s: float) -> str:
        """The step as one line of text."""
        return "  ".join(part for part in (self._head(now_s), self.text) if part).rstrip()

    def lines(self, now_s: float, columns: int | None) -> list[str]:
        """The same, with the text on lines of its own where ``columns`` are too few; None: nothing is too long."""
        whole = self.line(now_s)
        if columns is None or len(whole) <= columns or not self.text:
            return [whole]
        return [
            self._head(now_s).rstrip(),
            *textwrap.wrap(self.text, max(columns, 40), initial_indent=DEEP, subsequent_indent=DEEP),
        ]

    def _head(self, now_s: float) -> str:
        took = "" if self.began_s is None else duration((self.ended_s or now_s) - self.began_s)
        state = self.state if self.outcome in ("", "success", "failure") else f"{self.state}: {self.outcome}"
        attempt = f"attempt {self.attempt}" if self.attempt > 1 else ""
        parts = (f"{MARKS[self.state]} {self.step!s:<20} {state:<14} {took:>7}", self.spent.short(), attempt)
        return "  ".join(part for part in parts if part)


class RunView:
    """Folds records as they come. ``take`` answers with the step whose state it changed, if it did."""

    def __init__(self) -> None:
        self._lines: dict[str, StepLine] = {}
        self.total = Spent()

    def running(self) -> list[StepLine]:
        """The steps that run now, in the order they started."""
        return [line for line in list(self._lines.values()) if line.state == "running"]

    def progress(self, step: StepRef, text: str) -> None:
        """The newest output of a running step."""
        if (line := self._lines.get(step.key)) is not None and (last := text.strip().rpartition("\n")[2].strip()):
            line.text = last[:TEXT_CHARS_MAX]

    def take(self, record: Record, now_s: float) -> StepLine | None:
        """Folds one record in."""
        if record.step is None:
            return None
        line = self._lines.setdefault(record.step.key, StepLine(step=record.step))
        before = line.state, line.attempt
        self._fold(line, record, now_s)
        return line if (line.state, line.attempt) != before else None

    def _fold(self, line: StepLine, record: Record, now_s: float) -> None:
        match record.event:
            case events.StepAttemptStarted():
                line.state, line.attempt, line.text = "running", record.attempt or line.attempt, ""
                line.began_s = now_s if line.began_s is None else line.began_s
            case events.ModelCalled(turn=turn):
                line.text = f"asking the model (turn {turn})"
            case events.ModelResponded(usage=usage):
                line.spent.add(usage)
                self.total.add(usage)
            case events.ToolCalled(tool=tool):
                line.text = tool
            case events.ToolFailed(message=message):
                line.text = f"tool failed: {message}"[:TEXT_CHARS_MAX]
            case events.StepCompleted(outcome=outcome):
                self._end(line, "done", outcome, "", now_s)
            case events.StepFailed(outcome=outcome, code=code, message=message, paths=paths):
                where = f" [{', '.join(paths)}]" if paths and paths[0] not in message else ""
                self._end(line, "failed", outcome, f"{message or code}{where}", now_s)
            case events.StepSkipped(reason=reason):
                self._end(line, "skipped", "", reason, now_s)
            case events.StepSuperseded(reason=reason):
                self._end(line, "superseded", "", reason, now_s)
            case _:
                pass

    @staticmethod
    def _end(line: StepLine, state: State, outcome: str, text: str, now_s: float) -> None:
        line.state, line.outcome, line.ended_s = state, outcome, now_s
        line.text = one_line(text)
