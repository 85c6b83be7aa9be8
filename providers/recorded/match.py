"""Which recorded turn answers a request, or why none does. Pure."""

import difflib
import json
from dataclasses import dataclass
from typing import Final

from providers.recorded.fixture import Fixture
from runner.contract.canonical import FrozenJson, thaw
from runner.contract.errors import Finding
from runner.contract.recording import RecordedTurn, Recording, blank, normalise, request_digest
from runner.contract.text import excerpt, visible

DIFF_LINES_MAX: Final = 40
DIFF_COLUMNS_MAX: Final = 200
COMPARED_LINES_MAX: Final = 4_000
"""Of each side; comparing longer texts takes long."""
NAMES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Nothing was recorded for the request; ``message`` names the nearest recording and what differs. Bounded."""

    message: str


def match(fixture: Fixture, step: str, turn: int, request: FrozenJson, worktree: str | None) -> RecordedTurn | Miss:
    """The turn recorded for ``step`` and ``turn``, if its request is this one."""
    recording = fixture.recordings.get(step)
    if recording is None:
        return _no_step(fixture, step, turn)
    recorded = recording.turns.get(turn)
    if recorded is None:
        return _no_turn(fixture, recording, step, turn)
    volatile = recording.header.volatile
    if recorded.line.digest == request_digest(request, worktree, volatile):
        return recorded
    before = blank(recorded.line.request, volatile)
    now = normalise(request, worktree, volatile)
    head = f"turn {turn} of step {step} asks for something else than {_place(fixture, step, recorded)} recorded:"
    return Miss(message="\n".join([head, *_difference(before, now)]))


def unused(fixture: Fixture, asked: frozenset[tuple[str, int]]) -> tuple[Finding, ...]:
    """One finding for each recorded turn that nothing asked for, by file and line."""
    left = [
        (fixture.files[step], recorded.number, step, turn)
        for step, recording in fixture.recordings.items()
        for turn, recorded in recording.turns.items()
        if (step, turn) not in asked
    ]
    return tuple(
        Finding(
            place=visible(f"{fixture.place}/{name}:{number}"),
            problem=f"turn {turn} of step {step} was recorded, but nothing asked for it",
            fix="record the workflow again, or remove the line",
        )
        for name, number, step, turn in sorted(left)
    )


def _no_step(fixture: Fixture, step: str, turn: int) -> Miss:
    site = step.partition("@")[0]
    near = [key for key in fixture.recordings if key.partition("@")[0] == site] or list(fixture.recordings)
    names = ", ".join(sorted(near)[:NAMES_MAX]) + (", ..." if len(near) > NAMES_MAX else "")
    where = excerpt(fixture.place, 300)
    return Miss(message=f"turn {turn} of step {step}: {where} records no such step; the nearest: {names}")


def _no_turn(fixture: Fixture, recording: Recording, step: str, turn: int) -> Miss:
    if not recording.turns:
        return Miss(message=f"turn {turn} of step {step}: {visible(fixture.files[step])} records no turn")
    last = recording.turns[max(recording.turns)]
    return Miss(
        message=f"turn {turn} of step {step} was not recorded; the nearest is turn {last.line.turn}, "
        f"{_place(fixture, step, last)}"
    )


def _place(fixture: Fixture, step: str, recorded: RecordedTurn) -> str:
    return f"{visible(fixture.files[step])}:{recorded.number}"


def _difference(before: FrozenJson, now: FrozenJson) -> list[str]:
    old, new = _lines(before), _lines(now)
    found = list(
        difflib.unified_diff(
            old[:COMPARED_LINES_MAX], new[:COMPARED_LINES_MAX], "recorded", "asked now", n=2, lineterm=""
        )
    )
    if not found:
        return [f"  (the first {COMPARED_LINES_MAX} lines are equal)"]
    more = len(found) - DIFF_LINES_MAX
    shown = [f"  {excerpt(line, DIFF_COLUMNS_MAX)}" for line in found[:DIFF_LINES_MAX]]
    return shown + ([f"  ... and {more} more lines"] if more > 0 else [])


def _lines(value: FrozenJson) -> list[str]:
    """For reading: sorted and indented, texts broken where they have line breaks."""
    text = json.dumps(thaw(value), indent=1, sort_keys=True, ensure_ascii=False)
    return text.replace("\\n", "\n    ").split("\n")
