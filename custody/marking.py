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
from custody.midstep import Mark, at, meant
from custody.paths import Root, parents, permission, split
from custody.reading import Keep, Reader, Seen, Unreadable, lost, special_kind, too_large
from custody.state import GITLINK, At, Directory, File, Special, Uncaptured, directories_of
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
        ignored = self._ignored(before, asked)
        for path in dict.fromkeys(asked):
            if path in ignored:
                found |= self._nothing(before, path) if before.at(path) is not None else {}
                continue
            for place in (*reversed(list(parents(path))), path):
                if place not in found:
                    found[place] = self._at(before, place, start_ns, keep)
                if not isinstance(found[place], Directory):
                    break
            else:
                continue
            found |= {**self._nothing(before, place), place: found[place]}
        return {path: now for path, now in found.items() if before.at(path) != now}

    def _nothing(self, before: Mark, path: bytes) -> dict[bytes, At]:
        """Nothing that counts is at ``path`` any more; what was there as a directory took with it all that was below."""
        below = before.below(path) if isinstance(before.at(path), Directory) else ()
        return dict.fromkeys((path, *below))

    def _ignored(self, before: Mark, paths: Sequence[bytes]) -> frozenset[bytes]:
        """Those of ``paths`` that do not count: ignored by the frozen rules, or below what is, and neither captured as what
        they are nor tracked."""
        questions = {path: tuple(self._questions(before, path)) for path in paths}
        ignored = self.rules.ignored([question for asked in questions.values() for question in asked])
        found = {path for path, asked in questions.items() if ignored.intersection(asked)}
        holders = tuple(path + b"/" for path in found if path + b"/" in questions[path])
        tracked = [path for path, _ in before.start.state.index if path.startswith(holders)] if holders else []
        return frozenset(found.difference(directories_of(tracked)))

    def _questions(self, before: Mark, path: bytes) -> Iterator[bytes]:
        start, status = before.start.state, self.root.lstat(path)
        directory = status is not None and stat.S_ISDIR(status.st_mode)
        held = (before.at(path), at(start, path))
        if any(isinstance(what, Directory) is directory for what in held if what is not None):
            return
        if not directory and any((path, stage) in start.index for stage in range(4)):
            return
        for above in parents(path):
            if not isinstance(before.at(above), Directory):
                yield above + b"/"
        yield path + b"/" if directory else path

    def _at(self, before: Mark, path: bytes, start_ns: int, keep: Keep) -> At:
        known = before.at(path)
        status = self.root.lstat(path)
        if status is None:
            return None
        if stat.S_ISDIR(status.st_mode):
            return self._directory(before, path, status)
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

    def _directory(self, before: Mark, path: bytes, status: os.stat_result) -> At:
        known, entry = before.at(path), before.start.state.index.get((path, 0))
        if entry is not None and entry.mode == GITLINK and not isinstance(known, Directory):
            return Uncaptured("submodule")
        with self.root.directory(path) as fd, os.scandir(fd) as entries:
            empty = next(entries, None) is None
            known_as = (known, at(before.start.state, path))
            held = any(isinstance(what, Directory) and not what.empty for what in known_as)
            if not held and not empty and self.root.lstat(path + b"/.git") is not None:
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
