"""Results as lines for people and as documents for scripts. Pure."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, assert_never

from runner.cli.driving import Driven
from runner.cli.exit_codes import of_result
from runner.cli.terminal import Line, Style
from runner.contract.ids import OBJECT_ID_PATTERN, StepRef
from runner.contract.outcomes import (
    Busy,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Settlement,
    Suspended,
    UncertainEffect,
)

PATHS_SHOWN_MAX: Final = 20
COMMIT_CHARS: Final = 12
"""Of an object id, for people; scripts get the whole."""

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
    here: Path | None = None
    """Where the person is, for shorter commands."""


def runner_command(where: Where, *words: str) -> str:
    """A ``runner`` command line, ready to paste."""
    config = ("--config", str(near(where.config, where.here))) if where.config else ()
    return shlex.join((*where.program, *words, *config))


def git_command(where: Where, *words: str) -> str:
    """A ``git`` command line, ready to paste; for the directory where it is pasted if the repository is not known."""
    if where.repository is None or where.here == Path(where.repository):
        return shlex.join(("git", *words))
    return shlex.join(("git", "-C", str(near(Path(where.repository), where.here)), *words))


def near(path: Path, here: Path | None) -> Path:
    """``path`` as it is shortest said from ``here``."""
    return path.relative_to(here) if here is not None and path.is_relative_to(here) else path


def command_lines(commands: list[tuple[str, str]], columns: int | None, title: str = "next") -> list[Line]:
    """What to do next: (why, command) side by side, or below each other where ``columns`` are too few."""
    if not commands:
        return []
    width = max(len(why) for why, _ in commands)
    beside = [f"    {why:<{width}}  {command}" for why, command in commands]
    if columns is None or all(len(line) <= columns for line in beside):
        return [f"  {title}", *beside]
    lines: list[Line] = [f"  {title}"]
    for why, command in commands:
        lines += [(f"    {why}", "dim"), f"      {command}"]
    return lines


def short(commit: str) -> str:
    """An object id as people read it; any other text as it is."""
    return commit[:COMMIT_CHARS] if re.fullmatch(OBJECT_ID_PATTERN, commit) else commit


def step_name(key: str | None) -> str:
    """A step's key as people see it; a text that is no key as it is."""
    try:
        return str(StepRef.parse(key)) if key else ""
    except ValueError:
        return key or ""


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


def result_lines(driven: Driven, where: Where, diffstat: str, columns: int | None) -> list[Line]:
    """Outcome, what changed, where it is published, what to do next."""
    lines: list[Line] = ["", *_headline(driven.result, where)]
    if driven.spent:
        lines.append(f"  spent      {driven.spent}")
    if diffstat:
        *files, total = [text.strip() for text in diffstat.splitlines()]
        lines += [f"  changed    {total}", *(f"    {file}" for file in files)]
    elif driven.changed:
        shown = driven.changed[:PATHS_SHOWN_MAX]
        more = len(driven.changed) - len(shown)
        lines.append(f"  changed    {', '.join(shown)}" + (f" and {more} more" if more else ""))
    if where.worktree_kept:
        lines.append(f"  worktree   {where.worktree}")
    return [*lines, *command_lines(next_commands(driven.result, where), columns)]


def _headline(result: ExecuteResult, where: Where) -> list[Line]:
    match result:
        case Settled(settlement=settlement):
            return [settlement_head(settlement), *settlement_lines(settlement)]
        case Suspended(reason=reason, detail=detail, step=step, not_before=not_before):
            when = f", not before {not_before}" if not_before else ""
            at = f" at {step}" if step else ""
            return [(f"Delivery {where.delivery}: suspended{at} ({reason}){when}", "yellow"), f"  {detail}"]
        case NeedsIntervention(reason=reason, detail=detail, effects=effects):
            head: Line = (f"Delivery {where.delivery}: a person must decide ({reason})", "red")
            return [head, f"  {detail}", *effect_lines(effects)]
        case Busy(host=host, pid=pid, since=since):
            return [(f"Delivery {where.delivery}: busy, driven by pid {pid} on {host} since {since}", "yellow")]
        case Interrupted(detail=detail):
            return [(f"Delivery {where.delivery}: open, {detail}", "yellow")]
        case _:
            assert_never(result)


def effect_lines(effects: tuple[UncertainEffect, ...]) -> list[Line]:
    """Effects that were begun and whose end nobody saw."""
    lines: list[Line] = []
    for effect in effects:
        lines.append(f"  uncertain  {step_name(effect.step)}: {effect.tool}, begun {effect.since}, call {effect.call}")
        lines.append(f"             {effect.input_text}")
    return lines


def settlement_head(settlement: Settlement) -> Line:
    """The end of a Delivery in one line."""
    at = f" at {step_name(settlement.step)}" if settlement.step else ""
    text = f"Delivery {settlement.delivery}: {settlement.outcome} ({settlement.reason}{at})"
    conflict = settlement.publication.disposition == "conflict"
    return (text, "red" if conflict else _OUTCOME_STYLES[settlement.outcome])


def settlement_lines(settlement: Settlement) -> list[Line]:
    """Where its result is."""
    publication, commit = settlement.publication, settlement.result_commit
    name = publication.ref.removeprefix("refs/heads/")
    name = f"branch {name}" if name != publication.ref else name
    match publication.disposition:
        case "published":
            return [f"  published  {name} at {short(publication.new)}"]
        case "already-at-target":
            return [f"  published  {name}, which was at {short(publication.new)} already"]
        case "conflict":
            text = f"conflict: {name} is at {short(publication.new)} and was not moved ({publication.reason})"
        case "not-requested":
            text = "nothing"
    return [f"  published  {text}", f"  result     commit {short(commit)}"]


def next_commands(result: ExecuteResult, where: Where) -> list[tuple[str, str]]:
    """What to do next, as (why, command)."""
    look = ("see what happened", runner_command(where, "inspect", where.delivery, "--events"))
    go_on = ("continue", runner_command(where, "execute", str(near(where.activation_file, where.here))))
    cancel = ("give it up", runner_command(where, "cancel", where.delivery))
    match result:
        case Settled(settlement=settlement):
            return [*after_settlement(settlement, where), look]
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


def after_settlement(settlement: Settlement, where: Where) -> list[tuple[str, str]]:
    """How to look at the result and take it."""
    publication, commit, base = settlement.publication, short(settlement.result_commit), short(where.base_commit)
    branch = publication.ref.removeprefix("refs/heads/")
    diff = ("see the change", git_command(where, "diff", base, commit))
    if publication.disposition in ("published", "already-at-target"):
        history = ("see the commits", git_command(where, "log", "--oneline", f"{base}..{branch}"))
        return [history, diff, ("take it", git_command(where, "merge", branch))]
    if publication.disposition == "conflict":
        keep = ("keep the result", git_command(where, "branch", f"{settlement.delivery}-result", commit))
        return [("see the target", git_command(where, "log", "--oneline", "-5", short(publication.new))), diff, keep]
    return [diff] if commit != base else []


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
