"""Where text goes: results to stdout, everything else to stderr, colours only where a person looks."""

import json
import sys
from typing import TYPE_CHECKING, Any, Literal

from runner.contract.text import visible

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["", "bold", "dim", "green", "red", "yellow", "cyan"]
Line = str | tuple[str, Style]
"""A line of output, with the style of the whole line where it has one."""


def console(*, stderr: bool = False) -> "Console":
    """A rich console that interprets nothing in the text it shows. Honours NO_COLOR; plain on a pipe."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def columns() -> int | None:
    """How wide stdout is where a person looks at it; None for a pipe or a file."""
    return console().width if sys.stdout.isatty() else None


def write_lines(lines: list[Line], *, stderr: bool = False) -> None:
    """Each line on its own, control characters visible, never wrapped or shortened."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        for line in lines:
            stream.write(visible(line if isinstance(line, str) else line[0]) + "\n")
        stream.flush()
        return
    from rich.text import Text

    screen = console(stderr=stderr)
    for line in lines:
        text, style = (line, "") if isinstance(line, str) else line
        screen.print(Text(visible(text), style=style))


def say(text: str, style: Style = "") -> None:
    """One line for the person, on stderr."""
    write_lines([(text, style)], stderr=True)


def write_json(document: Any) -> None:
    """The one JSON document of a command, on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=True) + "\n")
    sys.stdout.flush()
