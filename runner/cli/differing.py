"""What ``diff`` does: two savepoints side by side. On a terminal with colours and nothing that could steer it; else git's own
bytes, so that ``git apply`` takes them."""

import sys
from typing import Any, Literal

from runner.cli import config_lookup
from runner.cli.inspecting import open_records
from runner.cli.terminal import Line, Style, write_json, write_lines
from runner.contract.ids import delivery_id
from runner.contract.kept import Difference

Form = Literal["patch", "stat", "names", "json"]


def show(lookup: config_lookup.Lookup, text: str, before: str, after: str, form: Form) -> None:
    """``runner diff``."""
    records = open_records(lookup)
    found = records.diff(delivery_id(text), before, after)
    if form == "json":
        write_json(document(found))
    elif form == "names":
        write_lines([file.path for file in found.files])
    elif sys.stdout.isatty():
        write_lines(coloured(records.patch(found, stat=form == "stat")))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(records.patch(found, stat=form == "stat", binary=True))
        sys.stdout.buffer.flush()


def document(found: Difference) -> dict[str, Any]:
    """``--json``."""
    return {
        "delivery": found.delivery,
        "before": found.before,
        "after": found.after,
        "files": [file.model_dump(mode="json") for file in found.files],
    }


def coloured(patch: bytes) -> list[Line]:
    """A patch as lines for people. Pure."""
    return [(line, _style(line)) for line in patch.decode("utf-8", "backslashreplace").splitlines()]


def _style(line: str) -> Style:
    if line.startswith(("diff --git", "index ", "--- ", "+++ ")):
        return "bold"
    for start, style in _STYLES.items():
        if line.startswith(start):
            return style
    return ""


_STYLES: dict[str, Style] = {"@@": "cyan", "+": "green", "-": "red"}
