"""What a running Delivery looks like: a fold of its records into one line per step. Pure."""

from dataclasses import dataclass, field
from typing import Final, Literal

from runner.contract import events
from runner.contract.ids import StepRef
from runner.contract.records import Record

State = Literal["waiting", "running", "done", "failed", "skipped", "superseded"]
TEXT_CHARS_MAX: Final = 60

MARKS: Final[dict[State, str]] = {
    "waiting": ".",
    "running": ">",
    "done": "+",
    "failed": "x",
    "skipped": "-",
    "superseded": "~",
}


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
        at_least = "" if self.counted == self.calls else "at least "
        tokens = "tokens unknown"
        if self.counted:
            tokens = f"{at_least}{self.input_tokens:,} in + {self.output_tokens:,} out tokens"
        if not self.priced:
            return f"{tokens}, cost unknown"
        return f"{tokens}, {'' if self.priced == self.calls else 'at least '}${self.cost_usd:.4f}"


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
        elapsed = "" if self.began_s is None else f"{(self.ended_s or now_s) - self.began_s:.1f}s"
        state = self.state if self.outcome in ("", "success", "failure") else f"{self.state}: {self.outcome}"
        parts = [f"{MARKS[self.state]} {self.step!s:<22} {state:<20} {elapsed:>7}"]
        if self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        if spent := str(self.spent):
            parts.append(spent)
        if self.text:
            parts.append(self.text)
        return "  ".join(parts).rstrip()


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
            line.text = last[-TEXT_CHARS_MAX:]

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
                where = f" [{', '.join(paths)}]" if paths else ""
                self._end(line, "failed", outcome, f"{code}: {message}{where}", now_s)
            case events.StepSkipped(reason=reason):
                self._end(line, "skipped", "", reason, now_s)
            case events.StepSuperseded(reason=reason):
                self._end(line, "superseded", "", reason, now_s)
            case _:
                pass

    @staticmethod
    def _end(line: StepLine, state: State, outcome: str, text: str, now_s: float) -> None:
        line.state, line.outcome, line.text, line.ended_s = state, outcome, text, now_s
