"""Ignore rules as they were at the baseline: an agent that writes ``.gitignore`` hides nothing.

Freezing flattens every source into one file of root-anchored patterns, lowest precedence first (the user's global excludes,
``info/exclude``, then each ``.gitignore``, outer before inner), which gives the same verdicts because git takes the last
match of the highest source. Git itself then judges paths against that one file, in an empty directory where no other rule
and no tracked file exists.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from custody.git import Conversation, Git, Place
from custody.paths import Root, split
from custody.repository import Repository
from runner.contract.errors import Code, EnvironmentFault

RULES_BYTES_MAX: Final = 16 * 1024 * 1024
_BATCH_BYTES: Final = 16_384
"""Queries written before their answers are read; both fit into a pipe, so neither side waits for the other."""


def frozen_rules(git: Git, repository: Repository, root: Root) -> bytes:
    """The flat rules of the worktree as it is now."""
    parts = [_plain(_user_excludes(git, repository)), _plain(_file(repository.common_dir / "info" / "exclude"))]
    listing = git.run(
        repository.place_with_index, "ls-files", "-z", "--cached", "--others", "--", ":(glob)**/.gitignore"
    ).stdout
    places = sorted({path for path in listing.split(b"\0") if path}, key=lambda p: (p.count(b"/"), p))
    for path in places:
        directory, _ = split(path)
        parts.append(b"".join(line + b"\n" for line in anchored(directory, _lines(_below(root, path)))))
    return b"".join(parts)


def anchored(directory: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Patterns of ``directory``'s ignore file as patterns of the root's. Pure.

    A directory whose name holds a line break cannot be written in a pattern: its rules are dropped, so its files count.
    """
    if not directory:
        yield from lines
        return
    if b"\n" in directory:
        return
    prefix = b"/" + re.sub(rb"([\\*?\[\]])", rb"\\\1", directory) + b"/"
    for line in lines:
        negated = line.startswith(b"!")
        body = _trimmed(line[1:] if negated else line)
        bare = body[:-1] if body.endswith(b"/") else body
        if not bare:
            continue
        deep = b"" if b"/" in bare else b"**/"
        yield (b"!" if negated else b"") + prefix + deep + body.removeprefix(b"/")


def _trimmed(line: bytes) -> bytes:
    """Without trailing spaces, as git reads it: an escaped one stays."""
    while line.endswith(b" "):
        shorter = line[:-1]
        backslashes = len(shorter) - len(shorter.rstrip(b"\\"))
        if backslashes % 2:
            break
        line = shorter
    return line


def _lines(data: bytes) -> Iterator[bytes]:
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        rule = line.removesuffix(b"\r")
        if rule and not rule.startswith(b"#"):
            yield rule


def _plain(data: bytes) -> bytes:
    return b"".join(line + b"\n" for line in _lines(data))


def _user_excludes(git: Git, repository: Repository) -> bytes:
    """The user's own ``core.excludesFile``, or the place where git looks without one."""
    named = git.user_setting(repository.place, "core.excludesFile", as_path=True)
    if named is not None:
        return _file(repository.worktree / named) if named else b""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", "/nonexistent"), ".config")  # noqa: PTH118
    return _file(Path(home) / "git" / "ignore")


def _file(path: Path) -> bytes:
    """An ignore file outside the worktree; none, unreadable or no regular file means no rules, as for git."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return _bounded(file.read(RULES_BYTES_MAX + 1), str(path))
    except PermissionError:
        return b""


def _below(root: Root, path: bytes) -> bytes:
    """A ``.gitignore``; git follows no link to one either."""
    directory, name = split(path)
    try:
        with root.directory(directory) as fd:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return b""
    with os.fdopen(handle, "rb") as file:
        return _bounded(file.read(RULES_BYTES_MAX + 1), os.fsdecode(path))


def _bounded(data: bytes, place: str) -> bytes:
    if len(data) > RULES_BYTES_MAX:
        raise EnvironmentFault(
            Code.CAPTURE_BUDGET,
            f"{place} holds more than {RULES_BYTES_MAX} bytes of ignore rules",
            remedy="make it smaller",
        )
    return data


class IgnoreRules:
    """Answers whether frozen rules ignore a path. The rules never change, so neither does an answer: each is asked once."""

    def __init__(self, git: Git, git_dir: Path, rules: Path, empty: Path) -> None:
        self._git = git
        self._rules = rules
        self._place = Place(git_dir=git_dir, work_tree=empty, index=empty / "no-index")
        self._known: dict[bytes, bool] = {}
        self._talk: Conversation | None = None

    def ignored(self, paths: Sequence[bytes]) -> frozenset[bytes]:
        """Those of ``paths`` that are ignored. A directory is written with a trailing ``/``."""
        new = [path for path in paths if path not in self._known]
        while new:
            batch, size = [], 0
            while new and size < _BATCH_BYTES:
                size += len(new[-1])
                batch.append(new.pop())
            self._ask(batch)
        return frozenset(path for path in paths if self._known[path])

    def _ask(self, batch: Sequence[bytes]) -> None:
        """Asked again once: a process that waited for its next question may have been ended by somebody."""
        try:
            self._converse(batch)
        except EnvironmentFault:
            self.rest()
            self._converse(batch)

    def _converse(self, batch: Sequence[bytes]) -> None:
        if self._talk is None:
            self._talk = self._git.talk(
                self._place,
                *("check-ignore", "--stdin", "-z", "-v", "-n", "--no-index"),
                config=(f"core.excludesFile={self._rules}",),
            )
        # "./" keeps a leading ':' or '-' from meaning anything.
        self._talk.write(b"".join(b"./" + path + b"\0" for path in batch))
        for path in batch:
            _, _, pattern, _ = self._talk.read_fields(4)
            self._known[path] = bool(pattern) and not pattern.startswith(b"!")

    def rest(self) -> None:
        """Ends the process behind it, if there is one; the answers stay."""
        if self._talk is not None:
            self._talk.kill()
            self._talk = None
