"""What ``restore`` does: the files of a savepoint into a directory, or back into a settled Delivery's worktree."""

import sys
from pathlib import Path
from typing import Any, Final

from runner.cli import config_lookup
from runner.cli.inspecting import open_records
from runner.cli.program import command
from runner.cli.terminal import Line, write_json, write_lines
from runner.contract.errors import CallerError, Code
from runner.contract.ids import delivery_id
from runner.contract.kept import Restoration

SHOWN_MAX: Final = 50
SHORT: Final = 12


def restore_to(lookup: config_lookup.Lookup, text: str, savepoint: str, directory: Path, *, as_json: bool) -> None:
    """``--to DIR``."""
    done = open_records(lookup).restore_to(delivery_id(text), savepoint, directory)
    if as_json:
        write_json({"delivery": text, "directory": str(directory), **document(done)})
        return
    head: Line = (f"{directory}: savepoint {done.savepoint[:SHORT]} of {text}, {len(done.changes)} entries", "green")
    write_lines([head, *_missing(done)])


def restore_in_place(
    lookup: config_lookup.Lookup, text: str, savepoint: str, named: Path | None, *, yes: bool, as_json: bool
) -> None:
    """``--in-place``: says what would change, asks, does it, and says how to undo it."""
    records, delivery = open_records(lookup), delivery_id(text)
    if not yes:
        preview = records.restore_in_place(delivery, savepoint, preview=True)
        if not preview.changes:
            _tell(text, preview, None, as_json=as_json)
            return
        _confirm(text, preview)
    done = records.restore_in_place(delivery, savepoint)
    config = ("--config", str(named)) if named else ()
    undo = command("restore", text, done.present[:SHORT], "--in-place", *config) if done.present else None
    _tell(text, done, undo if done.changes else None, as_json=as_json)


def _tell(text: str, done: Restoration, undo: str | None, *, as_json: bool) -> None:
    if as_json:
        write_json({"delivery": text, **document(done), "undo": undo})
        return
    if not done.changes:
        write_lines([f"the worktree of {text} is at savepoint {done.savepoint[:SHORT]} already", *_missing(done)])
        return
    head: Line = (f"the worktree of {text} is at savepoint {done.savepoint[:SHORT]}; HEAD was not moved", "green")
    write_lines([head, *_changes(done), *_missing(done), f"  undo: {undo}"])


def document(done: Restoration) -> dict[str, Any]:
    """``--json``."""
    return done.model_dump(mode="json")


def _confirm(text: str, preview: Restoration) -> None:
    """``CallerError`` unless a person at the terminal says yes."""
    head: Line = (f"this would change in the worktree of {text}; what is there now is kept:", "bold")
    write_lines([head, *_changes(preview), *_missing(preview)], stderr=True)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CallerError(Code.USAGE, "nobody is here to confirm it, so nothing was changed", remedy="add --yes")
    sys.stderr.write("Do it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallerError(Code.USAGE, "not confirmed, so nothing was changed", remedy="answer y, or add --yes")


def _changes(done: Restoration) -> list[Line]:
    more = len(done.changes) - SHOWN_MAX
    return [*(f"  {change}" for change in done.changes[:SHOWN_MAX]), *([f"  ... and {more} more"] if more > 0 else [])]


def _missing(done: Restoration) -> list[Line]:
    """Captured by no savepoint: not restored, and never deleted."""
    return [(f"  not in it: {what}", "yellow") for what in done.missing[:SHOWN_MAX]]
