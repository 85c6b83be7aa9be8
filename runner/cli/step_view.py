"""What ``inspect`` shows from near: one step record by record (turns, tool calls, output, savepoints, usage), and what was left
for the driver. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from runner.cli.run_view import duration
from runner.cli.state_view import record_document, when
from runner.cli.terminal import Line
from runner.contract import events
from runner.contract.canonical import FrozenJson, canonical, thaw
from runner.contract.events import ValueRef
from runner.contract.records import InboxItem, Record
from runner.contract.text import excerpt

Value = Callable[[ValueRef], FrozenJson]
"""The value that a record names."""

TEXT_CHARS_MAX: Final = 4_000
TEXT_LINES_MAX: Final = 40
PATHS_MAX: Final = 20
IN: Final = "      "
STREAMS: Final = ("stdout", "stderr")


def step_lines(records: tuple[Record, ...], value: Value) -> list[Line]:
    """For people; every text bounded. A prompt is not kept, only its digest: its template stands in the activation."""
    lines: list[Line] = []
    if records and records[0].step is not None:
        lines.append((f"step {records[0].step}, since {when(records[0].at)}", "bold"))
    for record in records:
        head, body = _said(record, value)
        lines.append(f"  {record.seq:>6}  {record.at[11:19]}  {head}")
        lines += [(f"{IN}{line}", "dim") for line in _bounded(body)]
    return lines


def left_lines(left: tuple[InboxItem, ...]) -> list[Line]:
    """What was said and nobody has taken yet."""
    if not left:
        return []
    said = [f"  {item.kind} by {excerpt(item.who, 100)}, {when(item.at)}  {excerpt(item.body, 200)}" for item in left]
    return ["left, and taken by whoever drives it next", *(line.rstrip() for line in said)]


def step_document(records: tuple[Record, ...], value: Value) -> dict[str, Any]:
    """For scripts: the records as ``--events`` has them, each with the values that it names, whole."""
    step = records[0].step if records else None
    return {
        "step": step.key if step else None,
        "records": [{**record_document(record), "values": _values(record, value)} for record in records],
    }


def _values(record: Record, value: Value) -> dict[str, Any]:
    named = {name: getattr(record.event, name) for name in type(record.event).model_fields}
    return {name: thaw(value(ref)) for name, ref in named.items() if isinstance(ref, ValueRef)}


def _said(record: Record, value: Value) -> tuple[str, str]:
    """What happened in one line, and the text that belongs to it."""
    match record.event:
        case events.StepAttemptStarted(savepoint=savepoint):
            return f"attempt {record.attempt} began at savepoint {savepoint[:10]}", ""
        case events.SessionStarted(descriptor=descriptor):
            return f"session began: {_short(descriptor)}", ""
        case events.ModelCalled(turn=turn, request=request):
            return f"turn {turn}: asked the model (request {request[:19]})", ""
        case events.ModelResponded() as responded:
            return _answer(responded), _text(value(responded.response)) if responded.response else _text(
                responded.failure
            )
        case events.ToolCalled(tool=tool, effect=effect, input=given):
            return f"{tool} ({effect})", _text(value(given))
        case events.ToolSucceeded(value=result):
            return "  gave", _text(value(result))
        case events.ToolFailed(message=message):
            return "  failed", message
        case events.SavepointTaken() as taken:
            paths = ", ".join(taken.changed[:PATHS_MAX])
            more = taken.changed_count - min(len(taken.changed), PATHS_MAX)
            head = f"savepoint {taken.savepoint[:10]} ({taken.role}), {taken.changed_count} changed"
            return head, paths + (f" and {more} more" if more > 0 else "")
        case events.StepCompleted(outcome=outcome, output=output):
            return f"completed: {outcome}", _text(value(output)) if output else ""
        case events.StepFailed(outcome=outcome, code=code, message=message):
            return f"failed: {outcome} ({code})", message
        case events.WaitOpened(prompt=prompt) | events.InteractionRequested(prompt=prompt):
            return "asked a person", prompt
        case events.WaitAnswered(who=who, value=said) | events.InteractionAnswered(who=who, value=said):
            return f"answered by {who}", _text(value(said))
        case other:
            return f"{other.KIND}  {_short(other.model_dump(mode='json'))}", ""


def _answer(responded: events.ModelResponded) -> str:
    usage = responded.usage
    told = [f"{count:,} {name}" for name, count in (("in", usage.input_tokens), ("out", usage.output_tokens)) if count]
    cost = [f"${usage.cost_usd:.4f}"] if usage.cost_usd is not None else []
    what = "the model answered" if responded.failure is None else "the call failed"
    return ", ".join([f"{what}: {responded.model or responded.provider}", *told, *cost, duration(responded.duration_s)])


def _text(value: FrozenJson) -> str:
    """Text as it is; how a process ended with both of its streams; anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and all(isinstance(value.get(name), str) for name in STREAMS):
        rest = {key: part for key, part in value.items() if key not in STREAMS}
        streams = [f"{name}:\n{value[name]}" for name in STREAMS if value[name]]
        return "\n".join([_text(rest), *streams])
    return canonical(value).decode()


def _short(value: FrozenJson | Mapping[str, Any]) -> str:
    return excerpt(canonical(value).decode(), 200)


def _bounded(text: str) -> list[str]:
    lines = excerpt(text.rstrip(), TEXT_CHARS_MAX).splitlines()
    more = [f"[... {len(lines) - TEXT_LINES_MAX} more lines]"] if len(lines) > TEXT_LINES_MAX else []
    return [*lines[:TEXT_LINES_MAX], *more]
