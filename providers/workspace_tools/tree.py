"""Walks and opens below one directory handle without following links.

Every component is opened relative to the handle of the one before it with ``O_NOFOLLOW``, so a link swapped in at any moment
is an error and never a way out. Special files are refused before they are opened, and again after.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from providers.workspace_tools.bounds import DEPTH_MAX, FILE_BYTES_MAX, NAMES_MAX, WALKED_MAX
from providers.workspace_tools.paths import Refused
from runner.contract.scope import is_git_path
from runner.contract.text import excerpt, visible

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 1024 * 1024

Kind = Literal["file", "directory", "link", "special"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a directory. ``parent`` is the handle of that directory, valid while the walk stands at the entry."""

    parent: int
    parts: tuple[str, ...]
    kind: Kind
    size: int

    @staticmethod
    def of(parent: int, parts: tuple[str, ...], found: os.stat_result) -> "Entry":
        return Entry(parent=parent, parts=parts, kind=kind_of(found.st_mode), size=found.st_size)

    @property
    def path(self) -> str:
        return "/".join(self.parts)


def open_root(worktree: str) -> int:
    """A handle of the worktree's root; ``OSError`` when there is none."""
    return os.open(worktree, _DIRECTORY)


@contextmanager
def directory(root: int, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """A handle of the directory at ``parts``; missing ones are made with ``create``. ``Refused`` when it cannot be."""
    fd = os.dup(root)
    try:
        for depth, name in enumerate(parts):
            with told("/".join(parts[: depth + 1])):
                following = _enter(fd, name, create=create)
            os.close(fd)
            fd = following
        yield fd
    finally:
        os.close(fd)


def _enter(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    os.mkdir(name, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


@contextmanager
def told(path: str) -> Iterator[None]:
    """Turns the machine's refusals into the tool's."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{visible(path) or '.'}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "there is no such file or directory"
        case errno.ELOOP | errno.ENOTDIR:
            return "is a symbolic link or not a directory; links are not followed"
        case _:
            return error.strerror or type(error).__name__


def kind_of(mode: int) -> Kind:
    """What a file's mode says it is."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "special"


def look(parent: int, name: str) -> os.stat_result | None:
    """What stands at ``name``, unfollowed; None if nothing does."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def refuse_other(found: os.stat_result, path: str) -> None:
    """``Refused`` for everything that is not a regular file."""
    kind = kind_of(found.st_mode)
    match kind:
        case "file":
            return
        case "directory":
            raise Refused(f"{path}: is a directory")
        case "link":
            raise Refused(f"{path}: is a symbolic link; links are not followed")
        case "special":
            raise Refused(f"{path}: is not a regular file")


def read_file(parent: int, name: str, path: str) -> bytes:
    """The bytes of a regular file up to ``FILE_BYTES_MAX``; ``Refused`` for anything else."""
    shown = visible(path)
    with told(path):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        # Before opening: opening a device or a FIFO can already do something.
        refuse_other(found, shown)
        fd = os.open(name, _FILE, dir_fd=parent)
        try:
            found = os.fstat(fd)
            refuse_other(found, shown)
            data = _all(fd)
        finally:
            os.close(fd)
    if data is None:
        raise Refused(f"{shown}: is larger than {FILE_BYTES_MAX} bytes")
    return data


def _all(fd: int) -> bytes | None:
    """Everything, or None if it is too much. A file may grow while it is read."""
    chunks, size = [], 0
    while chunk := os.read(fd, _CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > FILE_BYTES_MAX:
            return None
    return b"".join(chunks)


class Walk:
    """Everything below a directory in the order of its names, depth first, without ``.git`` and without following links.
    Bounded by ``WALKED_MAX`` entries and ``DEPTH_MAX`` levels; ``cut`` then says so. ``stopped`` ends it early."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._left = WALKED_MAX
        self.cut = False

    def below(self, parent: int, parts: tuple[str, ...], *, deep: bool) -> Generator[Entry, None, None]:
        """The entries of ``parent``, whose path is ``parts``; with ``deep`` also what is below them."""
        for name in self._names(parent):
            if self._left == 0 or self._stopped():
                self.cut = True
                return
            self._left -= 1
            found = look(parent, name)
            if found is None:
                continue
            here = (*parts, name)
            yield Entry.of(parent, here, found)
            if deep and stat.S_ISDIR(found.st_mode):
                yield from self._inside(parent, name, here)

    def _inside(self, parent: int, name: str, here: tuple[str, ...]) -> Generator[Entry, None, None]:
        if len(here) >= DEPTH_MAX:
            self.cut = True
            return
        try:
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
        except OSError:
            return  # gone, replaced by a link, or not ours to read: nothing below it can be shown
        try:
            yield from self.below(fd, here, deep=True)
        finally:
            os.close(fd)

    def _names(self, parent: int) -> list[str]:
        """Sorted before anything is cut, so that the same tree always shows the same."""
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, NAMES_MAX + 1)]
        if len(names) > NAMES_MAX:
            self.cut = True
        return sorted(name for name in names[:NAMES_MAX] if not is_git_path(name))


def shown_path(entry: Entry) -> str:
    """An entry as a list shows it: ``/`` after a directory, a word for what is not a file."""
    suffix = {"file": "", "directory": "/", "link": " (symbolic link)", "special": " (special file)"}[entry.kind]
    return excerpt(entry.path, 1_000) + suffix
