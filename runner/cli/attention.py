"""What a Delivery needs of people: its open questions and its uncertain effects, as lines and as exact commands. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from runner.cli.terminal import Line
from runner.cli.where import Where, runner_command
from runner.contract.canonical import FrozenJson, canonical, thaw
from runner.contract.ids import StepRef
from runner.contract.outcomes import OpenWait, UncertainEffect
from runner.contract.text import excerpt

EDITED: Final = "worktree-edited"
"""The reason of an intervention for a worktree that somebody changed while nobody drove."""
COMMAND: Final = "command"
"""The tool of a workflow's own command."""
PROMPT_LINES_MAX: Final = 40
LINE_CHARS_MAX: Final = 400
CHOICES_MAX: Final = 8
FIELDS_MAX: Final = 12
INDENT: Final = " " * 13


def step_name(key: str | None) -> str:
    """A step's key as people see it; a text that is no key as it is."""
    try:
        return str(StepRef.parse(key)) if key else ""
    except ValueError:
        return key or ""


# --- questions -------------------------------------------------------------------------------------------------------


def wait_lines(waits: tuple[OpenWait, ...]) -> list[Line]:
    """Each open question: who asks, what, since when, until when, and what an answer looks like."""
    lines: list[Line] = []
    for wait in waits:
        until = f", until {wait.expires_at}" if wait.expires_at else ""
        lines.append((f"  asks       {step_name(wait.step)}: wait {wait.wait}, since {wait.since}{until}", "yellow"))
        lines += [f"{INDENT}{line}" for line in prompt_lines(wait)]
        lines.append(f"{INDENT}answer: {answer_text(wait)}")
    return lines


def prompt_lines(wait: OpenWait) -> list[str]:
    """The question, bounded."""
    all_lines = wait.prompt.strip().splitlines()
    shown = [excerpt(line, LINE_CHARS_MAX) for line in all_lines[:PROMPT_LINES_MAX]]
    more = len(all_lines) - len(shown)
    return [*shown, f"... and {more} more lines"] if more else shown


def answer_text(wait: OpenWait) -> str:
    """What fits the question's schema, in one line: ``decision = approve | reject, comment (optional text)``."""
    schema = wait.answer_schema
    branches = schema.get("anyOf") if isinstance(schema, Mapping) else None
    first = branches[0] if isinstance(branches, tuple) and branches else schema
    properties = first.get("properties") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(properties, Mapping) or not properties:
        return _kind(first)
    required = first.get("required")
    needed = required if isinstance(required, tuple) else ()
    fields = [_field(name, part, optional=name not in needed) for name, part in properties.items()]
    more = [f"and {len(fields) - FIELDS_MAX} more"] if len(fields) > FIELDS_MAX else []
    return ", ".join([*fields[:FIELDS_MAX], *more])


def choices(wait: OpenWait) -> tuple[str, ...]:
    """The bare words that answer the question; empty when they are not listed."""
    schema = wait.answer_schema
    branches = schema.get("anyOf") if isinstance(schema, Mapping) else None
    part: FrozenJson = branches[0] if isinstance(branches, tuple) and branches else schema
    if wait.outcome is not None and isinstance(part, Mapping):
        properties = part.get("properties")
        part = properties.get(wait.outcome) if isinstance(properties, Mapping) else None
    words = part.get("enum") if isinstance(part, Mapping) else None
    return tuple(word for word in words if isinstance(word, str)) if isinstance(words, tuple) else ()


def takes_comment(wait: OpenWait) -> bool:
    """Whether an answer may carry a ``comment``."""
    schema = wait.answer_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and "comment" in properties and wait.outcome != "comment"


def answer_commands(where: Where, waits: tuple[OpenWait, ...]) -> list[tuple[str, str]]:
    """(why, command) for every answer that can be given in one word; each names its wait, so that it can answer no other."""
    commands: list[tuple[str, str]] = []
    for wait in waits:
        words = choices(wait)
        shown = words[:CHOICES_MAX] or ("VALUE",)
        about = f" ({step_name(wait.step)})" if len(waits) > 1 else ""
        for word in shown:
            why = f"{word if words else 'answer'}{about}"
            commands.append((why, runner_command(where, "answer", where.delivery, wait.wait, word)))
    return commands


def wait_documents(waits: tuple[OpenWait, ...]) -> list[dict[str, Any]]:
    return [wait.model_dump(mode="json") for wait in waits]


def _field(name: str, schema: FrozenJson, *, optional: bool) -> str:
    words = schema.get("enum") if isinstance(schema, Mapping) else None
    if isinstance(words, tuple):
        return f"{name} = {_kind(schema)}" + (" (optional)" if optional else "")
    return f"{name} ({'optional ' if optional else ''}{_kind(schema)})"


def _kind(schema: FrozenJson) -> str:
    """One schema in few words."""
    if not isinstance(schema, Mapping):
        return "any JSON"
    words = schema.get("enum")
    if isinstance(words, tuple):
        shown = [str(thaw(word)) if isinstance(word, str) else canonical(word).decode() for word in words]
        return excerpt(" | ".join(shown), LINE_CHARS_MAX)
    match schema.get("type"):
        case "string":
            return "text"
        case str() as kind:
            return kind
        case tuple() as kinds:
            return " or ".join(str(kind) for kind in kinds)
        case _:
            return "any JSON"


# --- uncertain effects -----------------------------------------------------------------------------------------------


def effect_lines(effects: tuple[UncertainEffect, ...]) -> list[Line]:
    """Effects that were begun and whose end nobody saw: which, since when, with what, under which key."""
    lines: list[Line] = []
    for effect in effects:
        lines.append(f"  uncertain  {step_name(effect.step)}: {effect.tool}, begun {effect.since}, call {effect.call}")
        lines.append(f"{INDENT}{effect.input_text}")
        lines.append((f"{INDENT}key {effect.key}", "dim"))
    return lines


def effect_documents(effects: tuple[UncertainEffect, ...]) -> list[dict[str, Any]]:
    return [
        {
            "step": effect.step,
            "call": effect.call,
            "tool": effect.tool,
            "input": effect.input_text,
            "key": effect.key,
            "since": effect.since,
        }
        for effect in effects
    ]


def resolve_commands(where: Where, effects: tuple[UncertainEffect, ...]) -> list[tuple[str, str]]:
    """(why, command) for everything that can be said of each effect."""
    commands: list[tuple[str, str]] = []
    for effect in effects:
        about = f" ({effect.call})" if len(effects) > 1 else ""
        said = ("resolve", where.delivery, effect.call)
        ended, value = ("it ended, with exit status 0", "0") if effect.tool == COMMAND else ("it happened", "RESULT")
        commands += [
            (f"{ended}{about}", runner_command(where, *said, "--happened", value)),
            (f"it did not happen{about}", runner_command(where, *said, "--did-not-happen")),
            (f"nobody knows, end it{about}", runner_command(where, *said, "--abandon")),
        ]
    return commands


def edited_commands(where: Where) -> list[tuple[str, str]]:
    """(why, command) for a worktree that somebody edited."""
    said = ("resolve", where.delivery)
    return [
        ("the edits belong to it", runner_command(where, *said, "--adopt")),
        ("put it back as it was", runner_command(where, *said, "--discard")),
        ("end it", runner_command(where, *said, "--abandon")),
    ]
