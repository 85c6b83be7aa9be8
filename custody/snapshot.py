"""Savepoints: one scan, its index entries and surroundings, kept in the store as one commit. Nothing in between.

What a savepoint does not cover is in its manifest by name: too large, unreadable, changed while being read, nested
repositories, submodules. Ignored files that git does not track are not even looked at.
"""

import datetime as dt
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from custody.environment import surroundings
from custody.git import Git, Place
from custody.ignore import IgnoreRules
from custody.marking import Looker
from custody.midstep import Mark
from custody.objects import read_blobs
from custody.paths import Root, show
from custody.reading import CLOCK_MARGIN_NS
from custody.repository import Repository, read_index
from custody.scan import Budget, Scanner
from custody.state import GITLINK, At, Index, Kept, State
from custody.store import Store
from custody.writing import Base, Writer
from runner.contract.errors import Code, EnvironmentFault

INDEX_TRIES: Final = 3


class Snapshots:
    """Takes and keeps savepoints of one worktree. Not for several threads at once."""

    def __init__(
        self,
        git: Git,
        repository: Repository,
        store: Store,
        root: Root,
        *,
        ignore: str,
        budget: Budget,
        date: dt.datetime,
        before_effect: Callable[[str], None],
    ) -> None:
        self.repository = repository
        self.store = store
        self.root = root
        self.rules = IgnoreRules(git, store.path, store.rules, store.empty)
        self._git = git
        self._ignore = ignore
        self._date = str(int(date.timestamp()))
        self._before_effect = before_effect
        self._scanner = Scanner(root, self.rules, repository.object_format, budget)
        self._looker = Looker(root, self.rules, self._scanner.reader, self._scanner.note)
        self._index: tuple[tuple[int, ...], int, Index] | None = None
        self._tip: str | None = None
        """The newest kept commit, once known: nobody else writes the store."""

    def take(self, reference: Kept | None, message: str, *, base: Base | None = None) -> Kept:
        """The worktree as it is, kept. ``reference`` itself when nothing differs from it: no commit is made then.

        ``CAPTURE_FAILED`` or ``CAPTURE_BUDGET`` when any part cannot be had; then nothing was kept.
        """
        with self._writing() as writer:
            state = self._state(reference, writer)
            if reference is not None and state == reference.state:
                return replace(reference, state=state)
            return self._commit(writer, state, message, reference=reference, base=base)

    def keep(self, state: State, reference: Kept, message: str) -> Kept:
        """``state``, whose content is in the store already, as a savepoint; ``reference`` itself when it says the same."""
        if reference.exact and state == reference.state:
            return reference
        with self._writing() as writer:
            return self._commit(writer, state, message, reference=reference)

    def mark(self, before: Mark, paths: tuple[str, ...], message: str) -> tuple[Mark, Mapping[bytes, At]]:
        """A mid-step savepoint of ``paths`` on top of ``before``, and what was found there that ``before`` does not hold;
        ``before`` itself when that is nothing. No scan. ``CAPTURE_FAILED`` when a captured file cannot be read now."""
        with self._writing() as writer:
            found = self._looker.look(before, paths, writer.put)
            if not found:
                return before, found
            self._before_effect("keep mark")
            mark = writer.mark(before, found, parent=self._parent(), message=message, date=self._date)
            self._tip = mark.commit
            return mark, found

    def _commit(
        self, writer: Writer, state: State, message: str, *, reference: Kept | None, base: Base | None = None
    ) -> Kept:
        self._before_effect("keep savepoint")
        kept = writer.commit(
            state, reference=reference, base=base, parent=self._parent(), message=message, date=self._date
        )
        self._tip = kept.commit
        return kept

    def _parent(self) -> str | None:
        return self._tip or self.store.tip()

    def is_still(self, path: bytes, status: os.stat_result) -> bool:
        """Whether ``status`` is of the file that was last read at ``path``; also for what was never read."""
        seen = self._scanner.seen(path)
        return seen is None or seen.is_still(status)

    def look(self, reference: Kept) -> State:
        """The worktree as it is, without a savepoint."""
        with self._writing() as writer:
            return self._state(reference, writer)

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """A writer whose objects are in the store at the end; after a failure nothing remembers that they were read."""
        writer = self.store.writer()
        try:
            yield writer
            writer.finish()
            if self.store.crowded():
                self._before_effect("gather packs")
                self.store.gather()
        except BaseException:
            writer.abandon()
            self._index = self._tip = None
            self._scanner.forget()
            raise

    def _state(self, reference: Kept | None, writer: Writer) -> State:
        index = self._entries(reference, writer)
        found = self._scanner.scan(reference.state if reference else None, index, writer.put)
        return State(
            files=found.files,
            dirs=found.dirs,
            empty=frozenset(found.empty),
            specials=found.specials,
            index=index,
            not_captured=found.not_captured,
            surroundings=surroundings(self.repository),
            ignore=self._ignore,
        )

    def _entries(self, reference: Kept | None, writer: Writer) -> Index:
        """The index, read again only when its file is not what it was; blobs that only it refers to are kept."""
        before = self._signature()
        if self._index is not None and self._index[0] == before and before[-1] < self._index[1] - CLOCK_MARGIN_NS:
            return self._index[2]
        for _ in range(INDEX_TRIES):
            started_ns = _now_ns()
            index = read_index(self._git, self.repository.place_with_index)
            after = self._signature()
            if after == before:
                break
            before = after
        else:
            raise EnvironmentFault(
                Code.CAPTURE_FAILED,
                f"{self.repository.index} keeps changing while it is read",
                remedy="end what still works in the worktree, then run the same command again",
            )
        self._keep_staged(reference, index, writer)
        if reference is not None and reference.state.index == index:
            index = reference.state.index
        self._index = (before, started_ns, index)
        return index

    def _keep_staged(self, reference: Kept | None, index: Index, writer: Writer) -> None:
        known = reference.state.index if reference else {}
        new = sorted(
            {e.oid for key, e in index.items() if known.get(key) != e and e.mode != GITLINK} - self.store.known
        )
        paths = {entry.oid: path for (path, _), entry in index.items()}

        def missing(oid: str, why: str) -> Exception:
            return EnvironmentFault(
                Code.CAPTURE_FAILED,
                f"{show(paths[oid])} is staged but its content {oid} is {why} in the repository",
                remedy="fetch the missing object, or stage the file again",
            )

        place = Place(git_dir=self.repository.git_dir)
        for oid, data in zip(new, read_blobs(self._git, place, new, missing), strict=True):
            writer.put(oid, data)

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.repository.index.lstat()
        except FileNotFoundError:
            return (0,)
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _now_ns() -> int:
    """The machine's clock, because it is compared with the stamps of files."""
    return time.time_ns()
