"""What is shown of a step, record by record. Pure; kept beside the records, so that a look costs the steps and no history."""

from runner.contract import events
from runner.contract.outcomes import StepState
from runner.contract.records import Record


def shown_after(before: StepState | None, record: Record) -> StepState:
    """The state of the step of ``record`` after it; ``before`` is None for its first record."""
    if before is None:
        if record.step is None:
            raise ValueError(f"record {record.seq} is of no step")
        before = StepState(step=record.step.key, state="scheduled", attempt=0, since=record.at)
    changes = _changes(before, record)
    return before.model_copy(update=changes) if changes else before


def _changes(before: StepState, record: Record) -> dict[str, object]:
    match record.event:
        case events.StepAttemptStarted():
            began = {"began": before.began or record.at, "attempt": record.attempt or before.attempt}
            return {**_moved(record, "running"), **began}
        case events.StepCompleted(outcome=outcome):
            return _moved(record, "completed", outcome)
        case events.StepFailed(outcome=outcome, message=message):
            return _moved(record, "failed", outcome, message)
        case events.StepSkipped(reason=reason):
            return _moved(record, "skipped", "skipped", reason)
        case events.StepSuperseded(reason=reason):
            return _moved(record, "superseded", "superseded", reason)
        case events.ModelCalled():
            return {"model_calls": before.model_calls + 1}
        case events.ModelResponded(usage=usage):
            return _spent(before, usage)
        case events.ToolCalled():
            return {"tool_calls": before.tool_calls + 1}
        case _:
            return {}


def _moved(record: Record, state: str, outcome: str | None = None, detail: str = "") -> dict[str, object]:
    return {"state": state, "outcome": outcome, "detail": detail, "since": record.at}


def _spent(before: StepState, usage: events.Usage) -> dict[str, object]:
    changes: dict[str, object] = {"answers": before.answers + 1}
    if usage.input_tokens is not None or usage.output_tokens is not None:
        changes["counted"] = before.counted + 1
        changes["input_tokens"] = before.input_tokens + (usage.input_tokens or 0)
        changes["output_tokens"] = before.output_tokens + (usage.output_tokens or 0)
    if usage.cost_usd is not None:
        changes["priced"] = before.priced + 1
        changes["cost_usd"] = before.cost_usd + usage.cost_usd
    return changes
