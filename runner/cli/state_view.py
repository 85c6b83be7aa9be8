"""What is known of Deliveries, as lines for people and documents for scripts. Pure."""

import datetime as dt
from typing import Any, Final

from runner.cli.attention import (
    EDITED,
    INDENT,
    answer_commands,
    edited_commands,
    effect_lines,
    resolve_commands,
    step_name,
    wait_lines,
)
from runner.cli.render import after_settlement, output_lines, settlement_head, settlement_lines
from runner.cli.run_view import STYLES, Spent, State, StepLine, isolation_text, one_line
from runner.cli.terminal import Line
from runner.cli.where import Where, begin_command, command_lines, continue_command, runner_command
from runner.contract.canonical import FrozenJson, thaw
from runner.contract.ids import StepRef
from runner.contract.outcomes import DeliveryState, StepState, Verification
from runner.contract.records import Record
from runner.contract.text import excerpt

_STATES: Final[dict[str, State]] = {
    "scheduled": "waiting",
    "running": "running",
    "completed": "done",
    "failed": "failed",
    "skipped": "skipped",
    "superseded": "superseded",
}
FIELD_CHARS_MAX: Final = 60
DETAIL_LINES_MAX: Final = 60
DETAIL_CHARS_MAX: Final = 400


def state_lines(
    state: DeliveryState, where: Where, now: dt.datetime, columns: int | None, output: FrozenJson = None
) -> list[Line]:
    """``inspect DELIVERY``: its end or where it stands, its steps, what to do next. ``where`` may lack what is not known."""
    settled = state.settlement is not None
    lines: list[Line] = []
    if state.settlement is not None:
        lines += [
            settlement_head(state.settlement),
            *settlement_lines(state.settlement, where.remote),
            *output_lines(output),
        ]
    else:
        lines.append((f"Delivery {state.delivery}: {state.phase}", "bold"))
        lines.append(f"  driver     {state.driver or 'none: nobody is working on it'}")
    if state.detail and not any(step.detail == state.detail for step in state.steps):
        lines.append("  detail     " + state.detail.replace("\n", f"\n{INDENT}"))
    lines += [*_suspension_lines(state, now), *effect_lines(state.uncertain), *wait_lines(state.waits)]
    if state.accepted_at:
        lines.append(f"  accepted   {when(state.accepted_at)}")
        lines.append(f"  {'settled' if settled else 'last sign':<10} {when(state.last_at)}")
    if state.origin:
        lines.append(f"  origin     {state.origin}")
    lines.append(f"  isolation  {isolation_text(state.isolation)}")
    if total := str(_total(state.steps)):
        lines.append(f"  spent      {total}")
    if where.worktree and where.worktree_kept:
        lines.append(f"  worktree   {where.worktree}")
    lines.append(f"  records    {state.records}")
    if state.steps:
        lines.append("  steps")
    width = None if columns is None else columns - 2
    for step in state.steps:
        line = _step_line(step, running=state.driver is not None)
        style = STYLES[line.state]
        lines += [(f"  {text}", style) for text in line.lines(now.timestamp(), width)]
        lines += _more(step.detail)
    title = "next" if where.repository is not None or not settled else "next, in the repository"
    return [*lines, *command_lines(next_of(state, where), columns, title)]


def _suspension_lines(state: DeliveryState, now: dt.datetime) -> list[Line]:
    """Why the last execute stopped, and from when on the next is worth it. Open questions speak for themselves."""
    found = state.suspended
    if found is None or state.waits:
        return []
    at = f" at {step_name(found.step)}" if found.step else ""
    lines: list[Line] = [(f"  because    {found.reason}{at}", "yellow"), *_indented(found.detail)]
    if found.not_before is not None:
        come = _moment(found.not_before) <= now
        lines.append("  next try   " + ("now" if come else f"not before {when(found.not_before)}"))
    return lines


def _indented(detail: str) -> list[Line]:
    return [f"{INDENT}{excerpt(line, DETAIL_CHARS_MAX)}" for line in detail.splitlines()[:DETAIL_LINES_MAX]]


def _step_line(step: StepState, *, running: bool) -> StepLine:
    """The step as the live view would show it; one that runs without a driver stands still."""
    began = None if step.began is None else _moment(step.began).timestamp()
    ended = None if step.state == "running" and running else _moment(step.since).timestamp()
    says_nothing = step.outcome is None or step.outcome == step.state
    text = "nobody drives it" if step.state == "running" and not running else one_line(step.detail)
    return StepLine(
        step=StepRef.parse(step.step),
        state=_STATES[step.state],
        attempt=max(step.attempt, 1),
        began_s=began,
        ended_s=ended,
        outcome="" if says_nothing else str(step.outcome),
        text=text,
        spent=_spent(step),
    )


def _more(detail: str) -> list[Line]:
    """What a step's reason says after its first line."""
    rest = detail.strip().splitlines()[1:]
    more = [f"        ... and {len(rest) - DETAIL_LINES_MAX} more lines"] if len(rest) > DETAIL_LINES_MAX else []
    return [*(f"        {excerpt(line, DETAIL_CHARS_MAX)}" for line in rest[:DETAIL_LINES_MAX]), *more]


def _spent(step: StepState) -> Spent:
    return Spent(
        calls=step.answers,
        input_tokens=step.input_tokens,
        output_tokens=step.output_tokens,
        cost_usd=step.cost_usd,
        priced=step.priced,
        counted=step.counted,
    )


def _total(steps: tuple[StepState, ...]) -> Spent:
    return Spent(
        calls=sum(s.answers for s in steps),
        input_tokens=sum(s.input_tokens for s in steps),
        output_tokens=sum(s.output_tokens for s in steps),
        cost_usd=sum(s.cost_usd for s in steps),
        priced=sum(s.priced for s in steps),
        counted=sum(s.counted for s in steps),
    )


def next_of(state: DeliveryState, where: Where) -> list[tuple[str, str]]:
    """What to do next with a Delivery that was looked at, as (why, command)."""
    look = ("see what happened", runner_command(where, "inspect", state.delivery, "--events"))
    go_on = continue_command(where) if state.accepted_at else begin_command(where)
    cancel = ("give it up", runner_command(where, "cancel", state.delivery))
    if state.phase == "collected":
        return []
    if state.settlement is not None:
        base_is_known = where.base_commit != ""
        return [*(after_settlement(state.settlement, where) if base_is_known else []), look]
    answers = answer_commands(where, state.waits)
    if state.driver is not None:
        return [*answers, look, cancel]
    said = resolutions(state, where)
    return [*answers, *said, ("then continue", go_on[1]) if said else go_on, cancel, look]


def resolutions(state: DeliveryState, where: Where) -> list[tuple[str, str]]:
    """What a person may say of what nobody knows, as (why, command)."""
    edited = state.phase == "needs-intervention" and state.detail.startswith(f"{EDITED}: ")
    return [*(edited_commands(where) if edited else []), *resolve_commands(where, state.uncertain)]


def list_lines(found: list[DeliveryState | tuple[str, str]]) -> list[Line]:
    """The list of all: id, phase, outcome, when it was accepted; or id and what is wrong with it."""
    rows = [("DELIVERY", "PHASE", "OUTCOME", "ACCEPTED"), *(_row(f) for f in found if isinstance(f, DeliveryState))]
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    lines: list[Line] = []
    for row in rows:
        text = "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        lines.append((text, "red" if row[2].startswith("failed") else "") if lines else (text, "dim"))
    lines += [(f"{f[0]}  {f[1]}", "red") for f in found if isinstance(f, tuple)]
    return lines


def _row(state: DeliveryState) -> tuple[str, str, str, str]:
    end = f"{state.outcome} ({state.reason})" if state.outcome else "driven now" if state.driver else "open"
    return (state.delivery, state.phase, end, when(state.accepted_at))


def list_document(state: DeliveryState) -> dict[str, Any]:
    return {
        "delivery": state.delivery,
        "phase": state.phase,
        "outcome": state.outcome,
        "reason": state.reason,
        "driver": state.driver,
        "accepted_at": state.accepted_at,
        "last_at": state.last_at,
    }


def state_document(state: DeliveryState, where: Where, output: FrozenJson = None) -> dict[str, Any]:
    return {
        **state.model_dump(mode="json"),
        "output": thaw(output),
        "next": [words for _, words in next_of(state, where)],
    }


def when(at: str) -> str:
    """A record's time for people, to the second; empty for none."""
    return f"{_moment(at):%Y-%m-%d %H:%M:%S} UTC" if at else ""


def _moment(at: str) -> dt.datetime:
    return dt.datetime.fromisoformat(at)


# --- records ---------------------------------------------------------------------------------------------------------


def record_line(record: Record) -> str:
    """``inspect --events``: one record as one line."""
    fields = record.event.model_dump(mode="json")
    shown = "  ".join(f"{key}={_short(value)}" for key, value in fields.items() if _short(value))
    step = f"{record.step}" if record.step else ""
    return f"{record.seq:>6}  {record.at}  {record.event.KIND:<24} {step:<22} {shown}".rstrip()


def _short(value: Any) -> str:
    """A field in few characters; empty when it says nothing."""
    match value:
        case None | "" | [] | {}:
            return ""
        case str():
            text = value[:19] if value.startswith("sha256:") else value.replace("\n", "\\n")
        case dict():
            inline = value.get("inline", value)
            text = _short(value.get("digest")) if inline is None else str(inline)
        case _:
            text = str(value)
    return text if len(text) <= FIELD_CHARS_MAX else text[: FIELD_CHARS_MAX - 3] + "..."


def record_document(record: Record) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "at": record.at,
        "generation": record.generation,
        "kind": record.event.KIND,
        "version": record.event.VERSION,
        "step": record.step.key if record.step else None,
        "attempt": record.attempt,
        "payload": record.event.model_dump(mode="json"),
    }


# --- verify ----------------------------------------------------------------------------------------------------------


def verification_lines(found: Verification) -> list[Line]:
    """``verify DELIVERY``: every check, then what it comes to."""
    width = max((len(check.name) for check in found.checks), default=0)
    lines: list[Line] = []
    for check in found.checks:
        detail = check.detail.replace("\n", "\n" + " " * (width + 12))
        line = f"  {'ok' if check.ok else 'failed':<6}  {check.name:<{width}}  {detail}".rstrip()
        lines.append((line, "" if check.ok else "red"))
    failed = sum(not check.ok for check in found.checks)
    if failed:
        return [*lines, (f"Delivery {found.delivery}: {failed} of {len(found.checks)} checks failed", "red")]
    return [*lines, (f"Delivery {found.delivery}: all {len(found.checks)} checks hold", "green")]


def verification_document(found: Verification) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "ok": found.ok}
