"""One walk over the worktree, directory by directory, by handle and without following links.

A file's content is read again unless inode, size, mode, mtime and ctime are what they were when it was last read and its
ctime is older than the start of that reading scan: no rewrite, not even one with its mtime put back, can look like that.
Files are read whole, between two ``fstat`` that must agree.
"""

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from custody.ignore import IgnoreRules
from custody.paths import DIRECTORY, Root, parents, permission, show
from custody.reading import Reader, Seen, Unreadable, lost, special_kind, too_large
from custody.state import GITLINK, File, Index, Staged, State, directories_of
from runner.contract import limits
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.scope import is_git_path

Present = tuple[bytes, os.stat_result]
"""Name and status of what is in a directory."""
_Tracked = tuple[frozenset[bytes], frozenset[bytes], frozenset[bytes]]
"""Files that an index names, the directories above them, and its gitlinks."""
DEPTH_MAX: Final = 200
"""Directories inside directories: each level holds one handle open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one savepoint may hold. Beyond ``file_bytes`` a file is reported as not captured; the others end the scan."""

    files: int = limits.CAPTURE_FILES_MAX
    bytes: int = limits.CAPTURE_BYTES_MAX
    file_bytes: int = limits.CAPTURE_FILE_BYTES_MAX
    seconds: float = 600.0


@dataclass(slots=True)
class Found:
    """What a walk has found so far."""

    files: dict[bytes, File] = field(default_factory=dict)
    dirs: dict[bytes, int] = field(default_factory=dict)
    empty: set[bytes] = field(default_factory=set)
    specials: dict[bytes, str] = field(default_factory=dict)
    not_captured: dict[bytes, str] = field(default_factory=dict)
    bytes: int = 0


class Scanner:
    """Scans one worktree; remembers what it read, for this process."""

    def __init__(self, root: Root, rules: IgnoreRules, object_format: str, budget: Budget) -> None:
        self._root = root
        self.rules = rules
        self.reader = Reader(object_format, budget.file_bytes)
        self.budget = budget
        self._seen: dict[bytes, Seen] = {}
        self._index: tuple[Index, _Tracked] | None = None
        self._state: tuple[State, frozenset[bytes]] | None = None

    def scan(self, reference: State | None, index: Index, keep: Callable[[str, bytes], None]) -> Found:
        """Everything that counts: files that ``reference`` has or tracks, that ``index`` tracks, or that the frozen rules do
        not ignore. ``keep`` gets the content of each file that was read. ``CAPTURE_FAILED`` when a file that was captured
        before cannot be now, ``CAPTURE_BUDGET`` naming the directory that breaks a budget."""
        walk = _Walk(self, seen=self._seen, reference=reference, index=index, keep=keep)
        try:
            walk.directory(self._root.fd, b"", 0)
        finally:
            self.rules.rest()
        self._seen = walk.seen_now
        return walk.found

    def tracked(self, index: Index) -> "_Tracked":
        """What ``index`` says of paths; kept for as long as it is the same one."""
        if self._index is None or self._index[0] is not index:
            self._index = index, _tracked(index)
        return self._index[1]

    def holders(self, state: State) -> frozenset[bytes]:
        """Directories above something that ``state`` has captured; kept for as long as it is the same state."""
        if self._state is None or self._state[0].files is not state.files:
            self._state = state, directories_of((*state.files, *state.specials, *state.empty))
        return self._state[1]

    def seen(self, path: bytes) -> Seen | None:
        """The file at ``path`` as it was when it was last read."""
        return self._seen.get(path)

    def note(self, path: bytes, seen: Seen) -> None:
        """``path`` was read by somebody else, and its content is kept."""
        self._seen[path] = seen

    def forget(self) -> None:
        """Everything is read again by the next scan."""
        self._seen = {}


class _Walk:
    """One scan. ``seen_now`` holds only what exists now, so that memory follows the tree."""

    def __init__(
        self,
        tools: "Scanner",
        *,
        seen: Mapping[bytes, Seen],
        reference: State | None,
        index: Index,
        keep: Callable[[str, bytes], None],
    ) -> None:
        self.found = Found()
        self.seen_now: dict[bytes, Seen] = {}
        self._rules, self._reader, self._budget = tools.rules, tools.reader, tools.budget
        self._seen, self._keep = seen, keep
        self._captured: Mapping[bytes, File] = reference.files if reference else {}
        self._tracked, self._tracked_dirs, links = tools.tracked(index)
        if reference is not None and reference.index is not index:
            before, above, _ = _tracked(reference.index)  # taken out of the index is not gone
            self._tracked, self._tracked_dirs = self._tracked | before, self._tracked_dirs | above
        # A gitlink that was staged since then may be there only to hide a directory.
        self._links = {p for p in links if reference is None or _is_link(reference.index.get((p, 0)))}
        # Whatever is put around them since, what was captured in these is looked at.
        self._captured_dirs = tools.holders(reference) if reference else frozenset()
        # Compared with the stamps of files, so it must be the machine's clock and not the injected one.
        self._start_ns = time.time_ns()
        self._until = time.monotonic() + self._budget.seconds

    def directory(self, fd: int, prefix: bytes, depth: int) -> None:
        """Takes in one open directory; ``prefix`` is its path with a trailing ``/``, or empty."""
        found = _listed(fd)
        if prefix:
            if not found:
                self.found.empty.add(prefix[:-1])
            if any(name == b".git" for name, _ in found):
                if prefix[:-1] not in self._captured_dirs:
                    del self.found.dirs[prefix[:-1]]
                    self.found.not_captured[prefix[:-1]] = "nested repository"
                    return
                self.found.not_captured[prefix + b".git"] = "nested repository"
        for name, status in self._counted(prefix, self._news(prefix, found)):
            path = prefix + name
            if name == b".git":
                continue
            if is_git_path(os.fsdecode(name)):
                self._refuse(path, "a name that git reserves")
            elif stat.S_ISDIR(status.st_mode):
                self._enter(fd, name, path, status, depth)
            else:
                self._file(fd, name, path, status)
        self._check_budget()

    def _news(self, prefix: bytes, found: list[Present]) -> list[Present]:
        """Those entries that are not files as they were read before; those that are, are taken in. Most are, so this is short."""
        seen, captured, tracked = self._seen, self._captured, self._tracked
        files, seen_now, news, size = self.found.files, self.seen_now, [], 0
        for name, status in found:
            path = prefix + name
            known = seen.get(path)
            if known is not None and known.proves(status) and (path in captured or path in tracked):
                files[path], seen_now[path] = known.file, known
                size += status.st_size
            else:
                news.append((name, status))
        self.found.bytes += size
        return news

    def _counted(self, prefix: bytes, found: list[Present]) -> list[Present]:
        """Those entries that are not ignored, or that must be looked at all the same."""
        asked: dict[bytes, bytes] = {}
        for name, status in found:
            path = prefix + name
            if stat.S_ISDIR(status.st_mode):
                if path not in self._captured_dirs and path not in self._tracked_dirs:
                    asked[name] = path + b"/"
            elif path not in self._captured and path not in self._tracked and name != b".git":
                asked[name] = path
        asked.pop(b".git", None)
        ignored = self._rules.ignored(tuple(asked.values()))
        return [(name, status) for name, status in found if asked.get(name) not in ignored]

    def _enter(self, fd: int, name: bytes, path: bytes, status: os.stat_result, depth: int) -> None:
        if path in self._links and path not in self._captured_dirs:
            self.found.not_captured[path] = "submodule"
            return
        if depth >= DEPTH_MAX:
            self._refuse(path, f"more than {DEPTH_MAX} directories deep")
            return
        try:
            below = os.open(name, DIRECTORY, dir_fd=fd)
        except OSError as error:
            self._unreadable(path, error)
            return
        try:
            self.found.dirs[path] = permission(status)
            self.directory(below, path + b"/", depth + 1)
        except PermissionError as error:
            self.found.dirs.pop(path, None)
            self._unreadable(path, error)
        finally:
            os.close(below)

    def _file(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        if stat.S_ISLNK(status.st_mode):
            self._link(fd, name, path)
        elif stat.S_ISREG(status.st_mode):
            self._regular(fd, name, path, status)
        else:
            self.found.specials[path] = special_kind(status)

    def _link(self, fd: int, name: bytes, path: bytes) -> None:
        try:
            self.found.files[path] = self._reader.link(fd, name, self._keep)
        except Unreadable as error:
            self._report(path, error)

    def _regular(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        if status.st_size > self._budget.file_bytes:
            self._refuse(path, too_large(status))
            return
        self.found.bytes += status.st_size
        self._check_budget()
        seen = self._seen.get(path)
        if seen is None or not seen.proves(status):
            try:
                seen = self._reader.regular(fd, name, self._start_ns, self._keep)
            except Unreadable as error:
                self._report(path, error)
                return
        self.seen_now[path] = seen
        self.found.files[path] = seen.file

    def _unreadable(self, path: bytes, error: OSError) -> None:
        self._report(path, Unreadable.of(error))

    def _report(self, path: bytes, error: Unreadable) -> None:
        """Gone meanwhile is gone; everything else is reported or ends the scan."""
        if not error.gone:
            self._refuse(path, error.why)

    def _refuse(self, path: bytes, why: str) -> None:
        """Reports a new path; a path that was captured before must be captured now or there is no savepoint."""
        if path in self._captured or path in self._captured_dirs:
            raise lost(path, why)
        self.found.not_captured[path] = why

    def _check_budget(self) -> None:
        what = None
        if len(self.found.files) > self._budget.files:
            what = f"more than {self._budget.files} files"
        elif self.found.bytes > self._budget.bytes:
            what = f"more than {self._budget.bytes} bytes"
        elif time.monotonic() > self._until:
            what = f"not scanned within {self._budget.seconds:.0f} s"
        if what is not None:
            raise EnvironmentFault(
                Code.CAPTURE_BUDGET,
                f"the worktree cannot be captured: {what}; most of it is in {show(self._heaviest()) or '.'}/",
                remedy="let .gitignore name what is built there, before the Delivery is accepted",
            )

    def _heaviest(self) -> bytes:
        """The deepest directory that holds more than half of the files nobody tracks."""
        new = [path for path in self.found.files if path not in self._captured and path not in self._tracked] or list(
            self.found.files
        )
        count = Counter(directory for path in new for directory in parents(path))
        heavy = [directory for directory, files in count.items() if files * 2 > len(new)]
        return max(heavy, key=len, default=b"")


def _tracked(index: Index) -> _Tracked:
    links = frozenset(path for (path, _), entry in index.items() if entry.mode == GITLINK)
    files = frozenset(path for path, _ in index) - links
    return files, directories_of(files), links


def _is_link(entry: Staged | None) -> bool:
    return entry is not None and entry.mode == GITLINK


def _listed(fd: int) -> list[Present]:
    """What is in an open directory, by name. What goes before its status is asked for is not there."""
    found = []
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                found.append((os.fsencode(entry.name), entry.stat(follow_symlinks=False)))
            except FileNotFoundError:
                continue
    return sorted(found)
