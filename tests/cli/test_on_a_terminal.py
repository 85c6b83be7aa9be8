"""What a person sees on a real terminal: a pseudo-terminal of eighty columns, drawn by a small model of one."""

import fcntl
import os
import re
import struct
import subprocess
import termios

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine

COLUMNS = 80
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


class Screen:
    """As much of a terminal as a moving part of a few lines needs: lines, a cursor, erasing, colours counted."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = 0
        self.column = 0
        self.colours: set[str] = set()
        self.moving: list[str] = []
        """Every form that the line of a running step ever had."""

    def write(self, text: str) -> None:
        for found in CONTROL.finditer(text):
            match found[0]:
                case "\r":
                    self.column = 0
                case "\n":
                    self.row += 1
                    self.lines += [""] * (self.row + 1 - len(self.lines))
                case printed if not printed.startswith("\x1b"):
                    line = self.lines[self.row].ljust(self.column)
                    self.lines[self.row] = line[: self.column] + printed + line[self.column + len(printed) :]
                    self.column += len(printed)
                    if self.lines[self.row].startswith("> "):
                        self.moving.append(self.lines[self.row])
                case _:
                    self._control(found[1], found[2])

    def _control(self, numbers: str, letter: str) -> None:
        match letter:
            case "A":
                self.row -= int(numbers or 1)
            case "K":
                self.lines[self.row] = "" if numbers == "2" else self.lines[self.row][: self.column]
            case "m":
                self.colours.update(n for n in numbers.split(";") if n[:1] in ("3", "4", "9") and len(n) == 2)
            case "h" | "l":
                assert numbers == "?25", numbers
            case other:
                raise AssertionError(f"the view uses {other!r} ({numbers})")


def on_a_terminal(runner: CommandLine, *words: str, **environment: str) -> Screen:
    """``runner`` with a terminal for all three streams, to its end."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [runner.interpreter, "-m", "runner.cli", *words],
        cwd=runner.here,
        env={**runner.environment, "TERM": "xterm-256color", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screen, seen = Screen(), bytearray()
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the last holder of the other side is gone
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    process.wait(60)
    screen.write(seen.decode())
    return screen


@pytest.fixture
def words(runner: CommandLine) -> tuple[str, ...]:
    """A run whose first step is seen running and prints a long line, and whose second breaks its scope."""
    repository = world.repository(runner.home / "repo")
    first = "for n in 1 2 3; do echo a line that is longer than eighty columns are wide $(seq 1 40); sleep 0.2; done"
    package = world.package(runner.here, f"{first}; echo two > two.py")
    package.write_text(package.read_text().replace("echo two > two.txt", "echo no > a/rather/deep/place.py || exit 3"))
    return ("run", str(package), "--repo", str(repository), "--id", "d1")


def test_a_run(runner: CommandLine, words: tuple[str, ...]) -> None:
    """Nothing moving is left behind, steps stand once and in columns, nothing but a path or a command is too wide."""
    screen = on_a_terminal(runner, *words)
    shown = [line.rstrip() for line in screen.lines]
    assert "  isolation  bubblewrap: commands reach only the worktree, and no network" in shown
    steps = [line for line in shown if re.match(r"[>+x~.-] ", line)]
    assert [line.split()[:3] for line in steps] == [["+", "first", "done"], ["x", "second", "failed"]]
    assert len({found.end() for line in steps if (found := re.search(r"\d\.\ds", line))}) == 1
    assert screen.moving and max(map(len, screen.moving)) <= COLUMNS
    wide = [line for line in shown if len(line) > COLUMNS]
    assert all(line.startswith(("  package", "  repository", "  worktree", "      ")) for line in wide), wide
    assert screen.colours
    assert on_a_terminal(runner, "inspect", "d1").colours


def test_no_color(runner: CommandLine, words: tuple[str, ...]) -> None:
    """NO_COLOR is honoured, and the view still moves."""
    screen = on_a_terminal(runner, *words, NO_COLOR="1")
    assert not screen.colours
    assert any(line.startswith("+ first") for line in screen.lines)
    assert not on_a_terminal(runner, "inspect", "d1", NO_COLOR="1").colours
