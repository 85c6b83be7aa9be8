"""The project's files as the checks see them. A tree is any directory laid out like the project, so that a test can plant
something in a copy and watch a check refuse it."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("runner", "hosts", "providers", "custody")


@dataclass(frozen=True, kw_only=True)
class Breach:
    """A rule that a place in the tree does not keep, and what to do about it."""

    place: str
    rule: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place}: {self.rule}\n    {self.fix}"


@dataclass(frozen=True)
class Module:
    """One Python file. ``path`` is relative to the tree, with ``/``."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def under(self, *places: str) -> bool:
        """Whether this is one of the files, or below one of the folders (``name/``), in ``places``."""
        return any(self.path == place or (place.endswith("/") and self.path.startswith(place)) for place in places)


def modules(tree: Path) -> Iterator[Module]:
    """Every Python file of the four packages."""
    for package in PACKAGES:
        for file in sorted((tree / package).rglob("*.py")):
            yield Module(file.relative_to(tree).as_posix(), file.read_text("utf-8"))


def tracked(tree: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every file that git tracks; bytes that are no text are shown as replacement characters."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=tree, check=True, capture_output=True)
    for path in listed.stdout.decode().split("\0"):
        file = tree / path
        if path and file.is_file() and not file.is_symlink():
            yield path, file.read_text("utf-8", errors="replace")
