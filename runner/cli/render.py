"""Results as lines for people and as documents for scripts. Pure."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, assert_never

from runner.cli.driving import Driven
from runner.cli.exit_codes import of_result
from runner.cli.terminal import Line, Style
from runner.contract.outcomes import (
    Busy,
    CancelAck,
    DeliveryState,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Settlement,
    StepState,
    Suspended,
)
from runner.contract.records import Record

PATHS_SHOWN_MAX: Final = 20
ISOLATION_NONE: Final = (
    "isolation: none (commands run as ordinary processes with your rights; containment is not built yet)"
)

_OUTCOME_STYLES: Final[dict[Outcome, Style]] = {
    Outcome.COMPLETED: "green",
    Outcome.INCOMPLETE: "yellow",
    Outcome.FAILED: "red",
    Outcome.CANCELLED: "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the commands that are printed need to name."""

    delivery: str
    worktree: str
    base_commit: str
    activation_file: Path
    config: Path | None = None
    """Set when it was named with --config: the printed commands then name it too."""
    repository: str | None = None
    """Where to look at the published branch; None when that is not known any more."""
    worktree_kept: bool = True
    program: tuple[str, ...] = ("runner",)
    """The first words of a command line of ours."""


def runner_command(where: Where, *words: str) -> str:
    """A ``runner`` command line, ready to paste."""
    config = ("--config", str(where.config)) if where.config else ()
    return shlex.join((*where.program, *words, *config))


def git_command(where: Where, *words: str) -> str:
    """A ``git`` command line, ready to paste."""
    place = ("-C", where.repository) if where.repository else ()
    return shlex.join(("git", *place, *words))


# --- the end of an execute -------------------------------------------------------------------------------------------


def result_document(driven: Driven, where: Where, diffstat: str) -> dict[str, Any]:
    """``--json`` of ``execute`` and ``run``."""
    result = driven.result
    return {
        "delivery": where.delivery,
        "result": _kind(result),
        "exit": int(of_result(result)),
        **_fields(result),
        "changed": list(driven.changed),
        "diffstat": diffstat.splitlines(),
        "worktree": where.worktree if where.worktree_kept else None,
        "activation": str(where.activation_file),
        "next": [command for _, command in next_commands(result, where)],
    }


def result_lines(driven: Driven, where: Where, diffstat: str) -> list[Line]:
    """Outcome, what changed, where it is published, what to do next."""
    lines: list[Line] = ["", *_headline(driven.result, where)]
    if driven.spent:
        lines.append(f"  spent      {driven.spent}")
    if diffstat:
        lines.append("  changed")
        lines += [f"    {text.strip()}" for text in diffstat.splitlines()]
    elif driven.changed:
        shown = driven.changed[:PATHS_SHOWN_MAX]
        more = len(driven.changed) - len(shown)
        lines.append(f"  changed    {', '.join(shown)}" + (f" and {more} more" if more else ""))
    if where.worktree_kept:
        lines.append(f"  worktree   {where.worktree}")
    commands = next_commands(driven.result, where)
    if commands:
        width = max(len(what) for what, _ in commands)
        lines += ["  next", *(f"    {what:<{width}}  {command}" for what, command in commands)]
    return lines


def _headline(result: ExecuteResult, where: Where) -> list[Line]:
    match result:
        case Settled(settlement=settlement):
            return settlement_lines(settlement)
        case Suspended(reason=reason, detail=detail, step=step, not_before=not_before):
            when = f", not before {not_before}" if not_before else ""
            at = f" at {step}" if step else ""
            return [(f"Delivery {where.delivery}: suspended{at} ({reason}){when}", "yellow"), f"  {detail}"]
        case NeedsIntervention(reason=reason, detail=detail, effects=effects):
            lines: list[Line] = [(f"Delivery {where.delivery}: a person must decide ({reason})", "red"), f"  {detail}"]
            for effect in effects:
                lines.append(f"  uncertain  {effect.step}: {effect.tool}, begun {effect.since}, call {effect.call}")
                lines.append(f"             {effect.input_text}")
            return lines
        case Busy(host=host, pid=pid, since=since):
            return [(f"Delivery {where.delivery}: busy, driven by pid {pid} on {host} since {since}", "yellow")]
        case Interrupted(detail=detail):
            return [(f"Delivery {where.delivery}: open, {detail}", "yellow")]
        case _:
            assert_never(result)


def settlement_lines(settlement: Settlement) -> list[Line]:
    """The end of a Delivery."""
    at = f" at {settlement.step}" if settlement.step else ""
    head = f"Delivery {settlement.delivery}: {settlement.outcome} ({settlement.reason}{at})"
    publication = settlement.publication
    style = _OUTCOME_STYLES[settlement.outcome]
    match publication.disposition:
        case "published" | "already-at-target":
            text = f"{publication.ref} at {publication.new} ({publication.disposition})"
        case "conflict":
            style = "red"
            text = f"conflict: {publication.ref} was not moved ({publication.reason}), it is at {publication.new}"
        case "not-requested":
            text = "nothing"
    return [(head, style), f"  published  {text}", f"  result     commit {settlement.result_commit}"]


def next_commands(result: ExecuteResult, where: Where) -> list[tuple[str, str]]:
    """What to do next, as (why, command)."""
    look = ("see what happened", runner_command(where, "inspect", where.delivery, "--events"))
    go_on = ("continue", runner_command(where, "execute", str(where.activation_file)))
    cancel = ("give it up", runner_command(where, "cancel", where.delivery))
    match result:
        case Settled(settlement=settlement):
            return [*_after_settlement(settlement, where), look]
        case Suspended():
            return [go_on, cancel, look]
        case NeedsIntervention():
            return [look, cancel]
        case Busy():
            return [("watch it", runner_command(where, "inspect", where.delivery)), cancel]
        case Interrupted():
            return [go_on, cancel]
        case _:
            assert_never(result)


def _after_settlement(settlement: Settlement, where: Where) -> list[tuple[str, str]]:
    publication, commit = settlement.publication, settlement.result_commit
    branch = publication.ref.removeprefix("refs/heads/")
    diff = ("see the change", git_command(where, "diff", where.base_commit, commit))
    if publication.disposition in ("published", "already-at-target"):
        history = ("see the commits", git_command(where, "log", "--oneline", f"{where.base_commit}..{branch}"))
        return [history, diff, ("take it", git_command(where, "merge", branch))]
    if publication.disposition == "conflict":
        keep = ("keep the result", git_command(where, "branch", f"{settlement.delivery}-result", commit))
        return [("see the target", git_command(where, "log", "--oneline", "-5", publication.new)), diff, keep]
    return [diff] if commit != where.base_commit else []


def _kind(result: ExecuteResult) -> str:
    match result:
        case Settled():
            return "settled"
        case Suspended():
            return "suspended"
        case NeedsIntervention():
            return "needs-intervention"
        case Busy():
            return "busy"
        case Interrupted():
            return "interrupted"
        case _:
            assert_never(result)


def _fields(result: ExecuteResult) -> dict[str, Any]:
    match result:
        case Settled(settlement=settlement):
            return {"settlement": settlement.model_dump(mode="json")}
        case Suspended():
            return {
                "reason": result.reason,
                "detail": result.detail,
                "step": result.step.key if result.step else None,
                "not_before": result.not_before,
            }
        case NeedsIntervention():
            effects = [
                {
                    "step": e.step,
                    "call": e.call,
                    "tool": e.tool,
                    "input": e.input_text,
                    "key": e.key,
                    "since": e.since,
                }
                for e in result.effects
            ]
            return {"reason": result.reason, "detail": result.detail, "effects": effects}
        case Busy():
            return {"host": result.host, "pid": result.pid, "since": result.since}
        case Interrupted():
            return {"detail": result.detail}
        case _:
            assert_never(result)


# --- inspect and cancel ----------------------------------------------------------------------------------------------


def state_lines(state: DeliveryState) -> list[Line]:
    """``inspect DELIVERY``."""
    lines: list[Line] = [(f"Delivery {state.delivery}: {state.phase}", "bold")]
    if state.detail:
        lines.append(f"  {state.detail}")
    lines += [
        f"  accepted   {state.accepted_at}",
        f"  driver     {state.driver or 'none: nobody is working on it'}",
        f"  records    {state.records}",
        f"  {ISOLATION_NONE}" if state.isolation == "none" else f"  isolation: {state.isolation}",
    ]
    lines += [_state_line(step) for step in state.steps]
    if state.settlement is not None:
        lines += settlement_lines(state.settlement)
    return lines


def _state_line(step: StepState) -> Line:
    says_nothing = (None, "success", "failure", step.state)
    state = step.state if step.outcome in says_nothing else f"{step.state}: {step.outcome}"
    calls = (
        f"{step.model_calls} model calls, {step.tool_calls} tool calls" if step.model_calls or step.tool_calls else ""
    )
    tokens = f"{step.input_tokens:,} in + {step.output_tokens:,} out tokens" if step.model_calls else ""
    attempt = f"attempt {step.attempt}" if step.attempt > 1 else ""
    text = "  ".join(part for part in (f"  {step.step:<22} {state:<20}", attempt, calls, tokens, step.detail) if part)
    style: Style = "red" if step.state == "failed" else "green" if step.state == "completed" else ""
    return (text.rstrip(), style)


def state_document(state: DeliveryState) -> dict[str, Any]:
    return dict(state.model_dump(mode="json"))


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
    return text if len(text) <= 60 else text[:57] + "..."


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


def cancel_lines(ack: CancelAck) -> list[Line]:
    """``cancel DELIVERY``."""
    match ack.disposition:
        case "requested":
            return [f"Delivery {ack.delivery}: cancel requested; the process that drives it settles it"]
        case "settled":
            return [
                f"Delivery {ack.delivery}: cancelled",
                *(settlement_lines(ack.settlement) if ack.settlement else []),
            ]
        case "too-late":
            lines = settlement_lines(ack.settlement) if ack.settlement else []
            return [(f"Delivery {ack.delivery}: too late to cancel, its end was decided before", "yellow"), *lines]
        case _:
            assert_never(ack.disposition)


def cancel_document(ack: CancelAck) -> dict[str, Any]:
    settlement = ack.settlement.model_dump(mode="json") if ack.settlement else None
    return {"delivery": ack.delivery, "disposition": ack.disposition, "settlement": settlement}
