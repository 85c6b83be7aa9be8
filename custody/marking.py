"""What a mid-step savepoint looks at: each known path, the directories above it, and nothing else.

The rules are those of a scan: ignored files that nobody tracks, nested repositories and submodules are not looked into, a
file that was captured must be captured now. A directory is itself, not what is in it; one that is gone took everything with it.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from custody.ignore import IgnoreRules
from custody.midstep import Mark, meant
from custody.paths import Root, parents, permission, split
from custody.reading import Keep, Reader, Seen, Unreadable, lost, special_kind, too_large
from custody.state import At, Directory, File, Special, Uncaptured
from runner.contract.scope import is_git_path


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at paths of one worktree. ``note`` is told of every regular file that was read."""

    root: Root
    rules: IgnoreRules
    reader: Reader
    note: Callable[[bytes, Seen], None]

    def look(self, before: Mark, paths: Sequence[str], keep: Keep) -> dict[bytes, At]:
        """What is at ``paths`` (as custody shows them) and above them, where it is other than in ``before``."""
        asked = [path for text in paths for path in meant(text) if _can_count(path)]
        start_ns = time.time_ns()
        found: dict[bytes, At] = {}
        for path in self._counted(before, dict.fromkeys(asked)):
            for place in (*reversed(list(parents(path))), path):
                if place not in found:
                    found[place] = self._at(before, place, start_ns, keep)
                if not isinstance(found[place], Directory):
                    break
            else:
                continue
            # What was at ``place`` as a directory is gone, and so is all that was below it.
            for gone in before.below(place) if isinstance(before.at(place), Directory) else ():
                found[gone] = None
        return {path: now for path, now in found.items() if before.at(path) != now}

    def _counted(self, before: Mark, paths: Sequence[bytes] | dict[bytes, None]) -> Iterator[bytes]:
        """Those of ``paths`` that count: captured, tracked, or not ignored by the frozen rules, their directories included."""
        questions = {path: tuple(self._questions(before, path)) for path in paths}
        ignored = self.rules.ignored([question for asked in questions.values() for question in asked])
        return (path for path, asked in questions.items() if not ignored.intersection(asked))

    def _questions(self, before: Mark, path: bytes) -> Iterator[bytes]:
        if before.at(path) is not None or any((path, stage) in before.start.state.index for stage in range(4)):
            return
        for above in parents(path):
            if not isinstance(before.at(above), Directory):
                yield above + b"/"
        status = self.root.lstat(path)
        yield path + b"/" if status is not None and stat.S_ISDIR(status.st_mode) else path

    def _at(self, before: Mark, path: bytes, start_ns: int, keep: Keep) -> At:
        known = before.at(path)
        if isinstance(known, Uncaptured) and known.why in ("submodule", "nested repository"):
            return known
        status = self.root.lstat(path)
        if status is None:
            return None
        if stat.S_ISDIR(status.st_mode):
            return self._directory(path, known, status)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            return Special(special_kind(status))
        try:
            return self._file(path, status, start_ns, keep)
        except Unreadable as error:
            if error.gone:
                return None
            if isinstance(known, File):
                raise lost(path, error.why) from None
            return Uncaptured(error.why)

    def _directory(self, path: bytes, known: At, status: os.stat_result) -> At:
        with self.root.directory(path) as fd, os.scandir(fd) as entries:
            empty = next(entries, None) is None
            if not isinstance(known, Directory) and not empty and self.root.lstat(path + b"/.git") is not None:
                return Uncaptured("nested repository")
        return Directory(permission(status), empty)

    def _file(self, path: bytes, status: os.stat_result, start_ns: int, keep: Keep) -> File:
        directory, name = split(path)
        with self.root.directory(directory) as fd:
            if stat.S_ISLNK(status.st_mode):
                return self.reader.link(fd, name, keep)
            if status.st_size > self.reader.bytes_max:
                raise Unreadable(too_large(status))
            seen = self.reader.regular(fd, name, start_ns, keep)
        self.note(path, seen)
        return seen.file


def _can_count(path: bytes) -> bool:
    """Whether ``path`` is one name below the worktree's root, and not git's own."""
    parts = path.split(b"/")
    return not (b"\0" in path or {b"", b".", b".."}.intersection(parts) or is_git_path(os.fsdecode(path)))
