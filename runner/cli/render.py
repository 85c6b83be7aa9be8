"""Results as lines for people and as documents for scripts. Pure."""

import re
import shlex
from typing import Any, Final, assert_never

from runner.cli.attention import (
    EDITED,
    answer_commands,
    edited_commands,
    effect_documents,
    effect_lines,
    resolve_commands,
    step_name,
    wait_documents,
    wait_lines,
)
from runner.cli.driving import Driven
from runner.cli.exit_codes import of_result
from runner.cli.terminal import Line, Style
from runner.cli.where import Where, begin_command, command_lines, continue_command, git_command, near, runner_command
from runner.contract.canonical import FrozenJson, canonical, thaw
from runner.contract.ids import OBJECT_ID_PATTERN
from runner.contract.outcomes import (
    Busy,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Settlement,
    Suspended,
)
from runner.contract.text import excerpt

PATHS_SHOWN_MAX: Final = 20
OUTPUT_CHARS_MAX: Final = 400
"""Of an output value, for people; scripts get the whole."""
COMMIT_CHARS: Final = 12
"""Of an object id, for people; scripts get the whole."""

_OUTCOME_STYLES: Final[dict[Outcome, Style]] = {
    Outcome.COMPLETED: "green",
    Outcome.INCOMPLETE: "yellow",
    Outcome.FAILED: "red",
    Outcome.CANCELLED: "yellow",
}


def short(commit: str) -> str:
    """An object id as people read it; any other text as it is."""
    return commit[:COMMIT_CHARS] if re.fullmatch(OBJECT_ID_PATTERN, commit) else commit


# --- the end of an execute -------------------------------------------------------------------------------------------


def result_document(driven: Driven, where: Where, diffstat: str, output: FrozenJson = None) -> dict[str, Any]:
    """``--json`` of ``execute`` and ``run``."""
    result = driven.result
    return {
        "delivery": where.delivery,
        "result": _kind(result),
        "exit": int(of_result(result)),
        **_fields(result),
        "output": thaw(output),
        "changed": list(driven.changed),
        "diffstat": diffstat.splitlines(),
        "worktree": where.worktree if where.worktree_kept else None,
        "activation": None if where.activation_file is None else str(where.activation_file),
        "recordings": None if where.recordings is None else str(where.recordings),
        "next": [command for _, command in next_commands(result, where)],
    }


def result_lines(
    driven: Driven, where: Where, diffstat: str, columns: int | None, output: FrozenJson = None
) -> list[Line]:
    """Outcome, what changed, where it is published, what to do next."""
    lines: list[Line] = ["", *_headline(driven.result, where)]
    lines += output_lines(output)
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
    if where.recordings is not None:
        binding = shlex.quote(f"ROLE=recorded:{near(where.recordings, where.here)}")
        lines.append(f"  recorded   replay it with --bind {binding}")
    return [*lines, *command_lines(next_commands(driven.result, where), columns)]


def _headline(result: ExecuteResult, where: Where) -> list[Line]:
    match result:
        case Settled(settlement=settlement):
            return [settlement_head(settlement), *settlement_lines(settlement, where.remote)]
        case Suspended(reason=reason, detail=detail, step=step, not_before=not_before, waits=waits):
            when = f", not before {not_before}" if not_before and not waits else ""
            at = f" at {step}" if step else ""
            head: Line = (f"Delivery {where.delivery}: suspended{at} ({reason}){when}", "yellow")
            return [head, *(wait_lines(waits) or [f"  {detail}"])]
        case NeedsIntervention(reason=reason, detail=detail, effects=effects):
            head = (f"Delivery {where.delivery}: a person must decide ({reason})", "red")
            return [head, f"  {detail}", *effect_lines(effects)]
        case Busy(host=host, pid=pid, since=since):
            return [(f"Delivery {where.delivery}: busy, driven by pid {pid} on {host} since {since}", "yellow")]
        case Interrupted(detail=detail):
            return [(f"Delivery {where.delivery}: open, {detail}", "yellow")]
        case _:
            assert_never(result)


def result_line(result: ExecuteResult) -> str:
    """How it ended, in few words: for a list."""
    match result:
        case Settled(settlement=settlement):
            at = f" at {step_name(settlement.step)}" if settlement.step else ""
            conflict = ", not published" if settlement.publication.disposition == "conflict" else ""
            return f"{settlement.outcome} ({settlement.reason}{at}){conflict}"
        case Suspended(reason=reason, not_before=not_before, waits=waits):
            names = f": {', '.join(wait.wait for wait in waits)}" if waits else ""
            when = f", not before {not_before}" if not_before and not waits else ""
            return f"suspended ({reason}{names}){when}"
        case NeedsIntervention(reason=reason):
            return f"a person must decide ({reason})"
        case Busy(host=host, pid=pid):
            return f"busy, driven by pid {pid} on {host}"
        case Interrupted():
            return "open, stopped"
        case _:
            assert_never(result)


def settlement_head(settlement: Settlement) -> Line:
    """The end of a Delivery in one line."""
    at = f" at {step_name(settlement.step)}" if settlement.step else ""
    text = f"Delivery {settlement.delivery}: {settlement.outcome} ({settlement.reason}{at})"
    conflict = settlement.publication.disposition == "conflict"
    return (text, "red" if conflict else _OUTCOME_STYLES[settlement.outcome])


def settlement_lines(settlement: Settlement, remote: str | None) -> list[Line]:
    """Where its result is."""
    publication, commit = settlement.publication, settlement.result_commit
    name = publication.ref.removeprefix("refs/heads/")
    name = f"branch {name}" if name != publication.ref else name
    name = f"{name} of {remote}" if remote else name
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


def output_lines(output: FrozenJson) -> list[Line]:
    """The workflow's output value in one line, cut where it is long; nothing for none."""
    if output is None:
        return []
    return [f"  output     {excerpt(canonical(output).decode(), OUTPUT_CHARS_MAX)}"]


def next_commands(result: ExecuteResult, where: Where) -> list[tuple[str, str]]:
    """What to do next, as (why, command)."""
    look = ("see what happened", runner_command(where, "inspect", where.delivery, "--events"))
    go_on = continue_command(where)
    cancel = ("give it up", runner_command(where, "cancel", where.delivery))
    match result:
        case Settled(settlement=settlement):
            return [*after_settlement(settlement, where), look]
        case Suspended(waits=waits):
            return [*answer_commands(where, waits), go_on, cancel, look]
        case NeedsIntervention(reason=reason, effects=effects):
            said = edited_commands(where) if reason == EDITED else resolve_commands(where, effects)
            return [*said, ("then continue", go_on[1]), cancel, look]
        case Busy():
            return [("watch it", runner_command(where, "inspect", where.delivery)), cancel]
        case Interrupted():
            return [begin_command(where), cancel]
        case _:
            assert_never(result)


def after_settlement(settlement: Settlement, where: Where) -> list[tuple[str, str]]:
    """How to look at the result and take it."""
    publication, commit, base = settlement.publication, short(settlement.result_commit), short(where.base_commit)
    branch = publication.ref.removeprefix("refs/heads/")
    diff = ("see the change", git_command(where, "diff", base, commit))
    if where.remote is not None:
        return [diff] if commit != base else []
    if publication.disposition in ("published", "already-at-target"):
        history = ("see the commits", git_command(where, "log", "--oneline", f"{base}..{branch}"))
        return [history, diff, ("take it", git_command(where, "merge", branch))]
    if publication.disposition == "conflict":
        keep = ("keep the result", git_command(where, "branch", f"{settlement.delivery}-result", commit))
        return [("see the target", git_command(where, "log", "--oneline", "-5", short(publication.new))), diff, keep]
    again = [("try that step again", runner_command(where, "retry", settlement.delivery))] if settlement.step else []
    return [*again, *([diff] if commit != base else [])]


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
                "waits": wait_documents(result.waits),
            }
        case NeedsIntervention():
            return {"reason": result.reason, "detail": result.detail, "effects": effect_documents(result.effects)}
        case Busy():
            return {"host": result.host, "pid": result.pid, "since": result.since}
        case Interrupted():
            return {"detail": result.detail}
        case _:
            assert_never(result)
