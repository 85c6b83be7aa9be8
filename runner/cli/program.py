"""How a person starts this very program again: every command that is suggested begins with it."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "runner"


def command(*words: str) -> str:
    """A command line of this program, ready to paste."""
    return shlex.join((*program(), *words))


@cache
def program() -> tuple[str, ...]:
    """The first words of such a command line, for the directory this process was started in."""
    return words(argv0=sys.argv[0], interpreter=sys.executable, here=Path.cwd(), which=shutil.which)


def words(*, argv0: str, interpreter: str, here: Path, which: Callable[[str], str | None]) -> tuple[str, ...]:
    """``runner`` where a shell finds this very script by that name; else the script's path, relative where it lies below
    ``here``; ``INTERPRETER -m runner.cli`` where there is no script."""
    script = _script(argv0, interpreter, here)
    if script is None:
        return (interpreter, "-m", "runner.cli")
    found = which(NAME)
    if found is not None and os.path.realpath(found) == os.path.realpath(script):
        return (NAME,)
    if script.is_relative_to(here):
        inside = script.relative_to(here)
        # A shell looks a bare name up in PATH.
        return (str(inside) if len(inside.parts) > 1 else f"./{inside}",)
    return (str(script),)


def _script(argv0: str, interpreter: str, here: Path) -> Path | None:
    """The script that runs; for ``python -m`` the one that was installed with the interpreter."""
    for path in (here / argv0, here / Path(interpreter).parent / NAME):
        if path.name == NAME and path.is_file():
            return path
    return None
