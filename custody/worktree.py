"""One Delivery's worktree and its store, opened: healed after a kill, looked at, kept, put back."""

import datetime as dt
import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from custody import baseline
from custody.git import Git
from custody.midstep import Mark
from custody.paths import Root
from custody.repository import Repository, leads_to
from custody.restore import (
    Restorer,
    close_journal,
    not_equal,
    plan_between,
    read_journal,
    unequal,
    write_journal,
)
from custody.result import Converter, unclean
from custody.scan import Budget
from custody.snapshot import Snapshots
from custody.staging import free_index_lock
from custody.state import At, Kept, State
from custody.store import Frozen, Store
from custody.writing import Base
from runner.contract.activation import Activation
from runner.contract.errors import Code, EnvironmentFault


class Worktree:
    """What an operation works with. ``close`` frees the worktree's handle."""

    def __init__(
        self,
        git: Git,
        store: Store,
        activation: Activation,
        *,
        budget: Budget,
        before_effect: Callable[[str], None],
        repository: Repository,
        root: Root,
        frozen: Frozen,
    ) -> None:
        """Use ``open_again`` or ``open_first``."""
        self._git = git
        self._activation = activation
        self._before_effect = before_effect
        self.store = store
        self.repository = repository
        self.root = root
        self.converter = Converter(
            git=git,
            repository=repository,
            store=store,
            conversions=frozen.conversions,
            modes_count=frozen.modes_count,
        )
        date = dt.datetime.fromisoformat(activation.admitted_at.replace("Z", "+00:00"))
        self._snapshots = Snapshots(
            git,
            repository,
            store,
            root,
            ignore=frozen.ignore_digest,
            budget=budget,
            date=date,
            before_effect=before_effect,
        )

    def close(self) -> None:
        self._snapshots.rules.rest()
        self.root.close()

    @property
    def base(self) -> Base:
        """The admitted tree."""
        return self.store.base(self._activation.workspace.base_tree)

    def take_baseline(self) -> Kept:
        """The first savepoint; ``CORRELATION_MISMATCH`` naming edits of tracked files that were not admitted."""
        base = self.base
        kept = self._snapshots.take(None, "baseline", base=base)
        if not self._activation.workspace.include_dirty:
            edits = unclean(self.converter, base, kept)
            if edits:
                raise baseline.dirty(self._activation, edits)
        return kept

    def unadmitted(self, found: Kept) -> tuple[str, ...]:
        """Tracked paths of ``found`` that are not the admitted tree's."""
        return unclean(self.converter, self.base, found)

    def look(self, reference: Kept) -> Kept:
        """``reference`` with the worktree's state as it is now; content is kept, but no savepoint. What surrounds the files
        stays as ``reference`` has it: no restore touches that, and an attempt is judged by what it was before."""
        return _being_at(reference, self._snapshots.look(reference))

    def take(self, reference: Kept, message: str) -> Kept:
        """The worktree as it is, kept; ``reference`` itself when nothing differs."""
        return self._snapshots.take(reference, message)

    def keep(self, state: State, reference: Kept, message: str) -> Kept:
        """``state``, made of states whose content is kept, as a savepoint."""
        return self._snapshots.keep(state, reference, message)

    def mark(self, before: Mark, paths: tuple[str, ...], message: str) -> tuple[Mark, Mapping[bytes, At]]:
        """See ``Snapshots.mark``."""
        return self._snapshots.mark(before, paths, message)

    def return_to(self, target: Kept, why: str) -> Kept:
        """Keeps the present, then puts the worktree back to ``target``."""
        return self.restore(target, self.take(target, f"found before going back to {target.commit}: {why}"))

    def restore(self, target: Kept, present: Kept, temp: str = "") -> Kept:
        """``target`` with the worktree's state as the proving scan found it. ``present`` is in the store; ``temp`` is given
        when a journaled restore goes on."""
        rules = self._snapshots.rules
        tracked = target.state.index
        new = [path for path in present.state.files if path not in target.state.files]
        ignored = rules.ignored([path for path in new if not any((path, stage) in tracked for stage in range(4))])
        rules.rest()
        plan = plan_between(present.state, target.state, ignored)
        if plan.empty and not temp:
            return _being_at(target, present.state)
        restorer = self._restorer()
        restorer.check(plan)
        if not temp:
            self._before_effect("open journal")
            temp = write_journal(self.store, target)
        restorer.carry_out(plan, target.state, temp)
        found = self.look(target)
        left = unequal(target.state, found.state)
        if left:
            raise not_equal(left, target)
        self._before_effect("close journal")
        close_journal(self.store)
        return found

    def finish_restore(self) -> None:
        """Goes on with a restore that was cut short, if there is one."""
        journal = read_journal(self.store)
        if journal is None:
            return
        commit, temp = journal
        target = self.store.load(commit)
        self._restorer().sweep(target.state.dirs, temp)
        self.restore(target, self.take(target, f"found before going on with going back to {commit}"), temp)

    def _restorer(self) -> Restorer:
        return Restorer(
            git=self._git,
            repository=self.repository,
            store=self.store,
            root=self.root,
            before_effect=self._before_effect,
            is_still=self._snapshots.is_still,
        )


def _being_at(savepoint: Kept, found: State) -> Kept:
    """``savepoint`` with what was ``found`` in the worktree that is at it."""
    was = savepoint.state
    parts = ("not_captured", "specials", "dirs", "empty")
    same = all(getattr(was, part) == getattr(found, part) for part in parts)
    state = replace(found, surroundings=was.surroundings)
    return replace(savepoint, state=state, exact=savepoint.exact and same)


def open_first(
    git: Git, store: Store, activation: Activation, *, budget: Budget, before_effect: Callable[[str], None]
) -> Worktree:
    """For the baseline: checks what was admitted, makes the store and freezes what holds from here on."""
    repository = baseline.admitted_repository(git, activation)
    root = Root(repository.worktree)
    try:
        before_effect("make store")
        frozen = baseline.freeze(git, repository, store, root)
        before_effect("copy base")
        store.copy_objects(repository, activation.workspace.base_tree)
    except BaseException:
        root.close()
        raise
    return Worktree(
        git,
        store,
        activation,
        budget=budget,
        before_effect=before_effect,
        repository=repository,
        root=root,
        frozen=frozen,
    )


def open_again(
    git: Git, store: Store, activation: Activation, *, budget: Budget, before_effect: Callable[[str], None]
) -> Worktree:
    """For everything after it: heals what a killed process left. Where the repository is comes from the store, so that nothing an agent wrote into the worktree can lead elsewhere."""
    frozen = store.frozen()
    repository = Repository(
        worktree=Path(activation.workspace.worktree),
        git_dir=Path(frozen.git_dir),
        common_dir=Path(frozen.common_dir),
        object_format=frozen.object_format,
    )
    worktree = Worktree(
        git,
        store,
        activation,
        budget=budget,
        before_effect=before_effect,
        repository=repository,
        root=_root(repository),
        frozen=frozen,
    )
    try:
        store.heal()
        free_index_lock(repository)
    except BaseException:
        worktree.close()
        raise
    return worktree


def _root(repository: Repository) -> Root:
    try:
        if not repository.git_dir.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(repository.git_dir))
        root = Root(repository.worktree)
    except OSError as error:
        raise EnvironmentFault(
            Code.WORKTREE_MISSING,
            f"the worktree {repository.worktree} cannot be opened: {error.strerror} ({error.filename})",
            remedy="put the worktree and its repository back where they were admitted",
        ) from None
    if not leads_to(repository):
        # Going back to a savepoint would delete whatever else stands there now.
        root.close()
        raise EnvironmentFault(
            Code.WORKTREE_MISSING,
            f"{repository.worktree} is not the worktree that was admitted: its .git does not lead to {repository.git_dir}",
            remedy=f"put it back, or mend its .git with: git -C {repository.common_dir} worktree repair {repository.worktree}",
        )
    return root
