"""What the commands that are printed need to name, and how a command line is said: ready to paste, and short. Pure."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from runner.cli.terminal import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the commands that are printed need to name."""

    delivery: str
    worktree: str
    base_commit: str
    activation_file: Path | None
    """None where it is not known; a Delivery that was accepted can be named by its id."""
    config: Path | None = None
    """Set when it was named with --config: the printed commands then name it too."""
    repository: str | None = None
    """Where to look at the published branch; None when that is not known any more."""
    remote: str | None = None
    """Where the target is pushed to; None: the repository's own."""
    worktree_kept: bool = True
    recordings: Path | None = None
    """The directory of its recorded sessions, where they were asked for."""
    program: tuple[str, ...] = ("runner",)
    """The first words of a command line of ours."""
    here: Path | None = None
    """Where the person is, for shorter commands."""


def runner_command(where: Where, *words: str) -> str:
    """A ``runner`` command line, ready to paste."""
    config = ("--config", str(near(where.config, where.here))) if where.config else ()
    return shlex.join((*where.program, *words, *config))


def continue_command(where: Where) -> tuple[str, str]:
    """(why, command) that goes on with an accepted Delivery, from anywhere."""
    return ("continue", runner_command(where, "execute", where.delivery))


def begin_command(where: Where) -> tuple[str, str]:
    """The same for one that perhaps was not accepted yet: by its file, where that is known."""
    if where.activation_file is None:
        return continue_command(where)
    return ("continue", runner_command(where, "execute", str(near(where.activation_file, where.here))))


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
