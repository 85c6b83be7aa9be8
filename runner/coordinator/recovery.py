"""What a driver that starts over may do with the steps that were left open. Pure: records in, uncertain effects out.

| left at the last entry of an effect                     | then                                        |
|---|---|
| intent and result, also a recorded failure              | the result is used                          |
| model call without a response                           | called again under the same id              |
| ``read``, ``idempotent``, ``workspace`` without a result | the attempt starts again from its savepoint |
| ``external`` without a result                           | unknown: a person must say what happened    |

Restarting is the host's work; this file only says what it must not touch. Not covered yet: child processes of a driver that
died, and turns of foreign agents.
"""

from collections.abc import Iterable
from typing import Final

from runner.contract.canonical import canonical
from runner.contract.events import ToolCalled, ToolFailed, ToolSucceeded
from runner.contract.outcomes import UncertainEffect
from runner.contract.records import Record
from runner.contract.text import excerpt

EFFECT_UNKNOWN: Final = "effect-unknown"
"""The reason of an intervention for uncertain effects."""
INPUT_CHARS_MAX: Final = 500
SAFE: Final = frozenset({"read", "idempotent", "workspace"})


def uncertain_effects(records: Iterable[Record]) -> tuple[UncertainEffect, ...]:
    """Effects with an outside effect that were begun and whose end nobody recorded, in the order they were begun.

    ``records`` are all records of the open steps; an earlier attempt's open effect is as uncertain as the last one's.
    """
    begun: dict[tuple[str, str], UncertainEffect] = {}
    for record in records:
        if record.step is None:
            continue
        match record.event:
            case ToolCalled(effect=effect) as called if effect not in SAFE:
                begun[record.step.key, called.call] = UncertainEffect(
                    step=record.step.key,
                    call=called.call,
                    tool=called.tool,
                    input_text=_shown(called),
                    key=called.key,
                    since=record.at,
                )
            case ToolSucceeded(call=call) | ToolFailed(call=call):
                begun.pop((record.step.key, call), None)
    return tuple(begun.values())


def describe(effects: tuple[UncertainEffect, ...]) -> str:
    """One line per effect, for the record and for people."""
    return "\n".join(
        f"{effect.step}: {effect.tool} (call {effect.call}) was begun and nobody saw its end" for effect in effects
    )


def _shown(called: ToolCalled) -> str:
    if called.input.stored:
        return f"{called.input.bytes} bytes, {called.input.digest}"
    return excerpt(canonical(called.input.inline).decode(), INPUT_CHARS_MAX)
