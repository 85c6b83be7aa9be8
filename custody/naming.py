"""What people call a savepoint -> which one it is: ``baseline``, ``newest``, a step (its last visit), ``step@visit``, or the
beginning of its id. Pure."""

from collections.abc import Collection, Sequence
from typing import Final

from runner.contract.errors import CallerError, Code
from runner.contract.events import SavepointTaken, StepCompleted, StepFailed
from runner.contract.ids import StepRef
from runner.contract.records import Record

BASELINE: Final = "baseline"
NEWEST: Final = "newest"
PREFIX_CHARS_MIN: Final = 4


def savepoint_named(word: str, records: Sequence[Record], chain: Collection[str]) -> str:
    """The commit. ``chain`` is every savepoint of the store: also those that no record names, which in-place restores keep.
    ``CallerError`` (``savepoint-unknown``) when it is none, or more than one."""
    taken = [event for record in records if isinstance(event := record.event, SavepointTaken)]
    if not taken:
        raise _unknown(word, "there is none yet", "wait for its baseline")
    if word == BASELINE:
        return taken[0].savepoint
    if word == NEWEST:
        return next(event.savepoint for event in reversed(taken) if event.role != "foreign")
    steps = _of_steps(records)
    if word in steps:
        return steps[word]
    found = {commit for commit in chain if len(word) >= PREFIX_CHARS_MIN and commit.startswith(word)}
    if len(found) == 1:
        return found.pop()
    if found:
        raise _unknown(word, f"{len(found)} savepoints begin like that", "give more of its id")
    known = ", ".join(sorted(name for name in steps if "@" not in name)[:10]) or "none"
    raise _unknown(word, "no savepoint is called that", f"steps with one: {known}; 'runner savepoints' lists all")


def _of_steps(records: Sequence[Record]) -> dict[str, str]:
    """The savepoint at the end of every visit of every step, by ``step@visit``, and of the last one by the step alone."""
    found: dict[str, str] = {}
    for record in records:
        match record:
            case Record(step=StepRef() as step, event=StepCompleted() | StepFailed() as event):
                found[step.key] = found[step.site] = event.savepoint
            case _:
                pass
    return found


def _unknown(word: str, why: str, remedy: str) -> CallerError:
    return CallerError(Code.SAVEPOINT_UNKNOWN, f"{word[:80]!r}: {why}", remedy=remedy)
