"""The door: what the host (``Workspaces``) and the coordinator (``CustodyLifecycle``) may ask of custody.

Every operation is idempotent by the ledger's facts and by what git and the worktree show; a process may die anywhere in it.
Order is what makes that safe: objects and refs are synced before a savepoint is staged, the present is kept before a file is
overwritten, a restore is journaled before its first change, publication is asked durably before the ref moves.
"""

import datetime as dt
import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from custody import baseline
from custody.environment import surroundings
from custody.facts import Facts
from custody.git import Git
from custody.paths import Root, show
from custody.publish import Publisher, Target
from custody.repository import Repository
from custody.restore import (
    Restorer,
    close_journal,
    not_equal,
    plan_between,
    read_journal,
    unequal,
    write_journal,
)
from custody.result import Converter, changed_paths, commit_result, keep_result, unclean
from custody.scan import Budget
from custody.scope import (
    CHANGED_MAX,
    Change,
    difference,
    environment_changes,
    named,
    outside,
    paths_of,
)
from custody.snapshot import Snapshots
from custody.staging import free_index_lock
from custody.state import Kept
from custody.store import Base, Frozen, Store
from runner.contract import grant as grants
from runner.contract import ports
from runner.contract.canonical import digest
from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.events import OwnerRetired, PublicationAsked, PublicationKnown, ResultPreserved, SavepointTaken
from runner.contract.grant import GrantKey, WorkspaceGrant
from runner.contract.ids import DeliveryId, Digest, ObjectId, StepRef
from runner.contract.outcomes import Publication, Retirement
from runner.contract.records import Draft
from runner.contract.scope import Scope

ALWAYS: Final = float("-inf")


def _nothing(_: str) -> None:
    """The default seam: no effect is disturbed."""


class Custodian:
    """Custody of one Delivery's worktree, for the holder of its fence. Implements ``ports.Workspaces`` and
    ``ports.CustodyLifecycle``; the factory hands each caller the narrower one.

    ``before_effect`` is called by name in front of every change of the worktree or of a ref; tests kill there.
    """

    def __init__(
        self,
        *,
        case: ports.Case,
        writer: ports.LedgerWriter,
        key: GrantKey,
        clock: ports.Clock,
        budget: Budget | None = None,
        before_effect: Callable[[str], None] = _nothing,
    ) -> None:
        self._case = case
        self._writer = writer
        self._key = key
        self._clock = clock
        self._budget = budget or Budget()
        self._before_effect = before_effect
        self._facts = Facts(case.ledger)
        self._delivery = DeliveryId(case.activation.delivery)
        self._git = Git()
        self._store = Store(self._git, case.layout.store)
        self._lock = threading.RLock()
        self._snapshots: Snapshots | None = None
        self._known: Kept | None = None
        """The savepoint that the worktree is known to be at, with its state as last seen."""
        self._newest: ports.Savepoint | None = None
        self._grant: WorkspaceGrant | None = None

    @property
    def git_processes(self) -> int:
        """Git processes started so far; for the cost tests."""
        return self._git.processes

    def close(self) -> None:
        """Frees the handle of the worktree. Idempotent; the next operation opens it again."""
        with self._lock:
            if self._snapshots is not None:
                self._snapshots.root.close()
            self._snapshots = self._known = self._grant = None

    # --- for the host ------------------------------------------------------------------------------------------------

    def current(self) -> ports.Savepoint:
        """The newest savepoint that steps go on from."""
        with self._lock:
            if self._newest is None:
                found = self._facts.newest()
                if found is None:
                    raise IntegrityError(
                        Code.ILLEGAL_TRANSITION,
                        f"{self._delivery} has no savepoint yet",
                        remedy="take the baseline first",
                    )
                event = found[1]
                self._newest = ports.Savepoint(
                    commit=ObjectId(event.savepoint), tree=ObjectId(event.tree), changed=event.changed
                )
            return self._newest

    def begin(
        self, step: StepRef, attempt: int, scope: Scope, *, opened_at: ObjectId | None, expires_in_s: float
    ) -> WorkspaceGrant | ports.ForeignEdit:
        """See ``ports.Workspaces.begin``. An attempt that was begun in this process and never ended is undone first."""
        with self._working("begin an attempt"):
            snapshots = self._attached()
            if opened_at is not None:
                self._known = self._return_to(opened_at)
            elif self._grant is not None and self._known is not None:
                self._known = self._return_to(self._known.commit)
            elif self._known is None:
                foreign = self._look_for_foreign_edits(step)
                if foreign is not None:
                    return foreign
            known = self._known
            assert known is not None  # noqa: S101 - each branch above has set it or returned
            self._known = replace(known, state=replace(known.state, surroundings=surroundings(snapshots.repository)))
            self._grant = self._issue(step, attempt, scope, known, expires_in_s)
            return self._grant

    def settle(self, grant: WorkspaceGrant) -> ports.Verdict:
        """See ``ports.Workspaces.settle``. An attempt whose grant has expired is still judged: the scan is the proof."""
        return self._end(grant, keep=True)

    def discard(self, grant: WorkspaceGrant) -> ports.Verdict:
        """See ``ports.Workspaces.discard``."""
        return self._end(grant, keep=False)

    # --- for the coordinator -----------------------------------------------------------------------------------------

    def baseline(self) -> ports.Savepoint:
        """See ``ports.CustodyLifecycle.baseline``. Tracked files must be the base's, byte for byte after conversion, unless
        dirty edits were admitted; untracked files belong to the baseline and not to the result."""
        with self._working("take the baseline"):
            event = self._facts.baseline()
            if event is not None:
                return ports.Savepoint(commit=ObjectId(event.savepoint), tree=ObjectId(event.tree))
            activation = self._case.activation
            repository = baseline.admitted_repository(self._git, activation)
            root = Root(repository.worktree)
            try:
                frozen = baseline.freeze(self._git, repository, self._store, root)
                self._store.copy_objects(repository, activation.workspace.base_tree)
                snapshots = self._make_snapshots(repository, root, frozen)
                kept = snapshots.take(None, "baseline", base=self._base())
                if not activation.workspace.include_dirty:
                    edits = unclean(self._converter(repository, frozen), self._base(), kept)
                    if edits:
                        raise baseline.dirty(activation, edits)
            except BaseException:
                root.close()
                raise
            self._snapshots = snapshots
            self._writer.append(Draft(event=_taken(kept, (), "baseline")))
            self._newest = _savepoint(kept, ())
            return self._newest

    def settle_interrupted(self) -> None:
        """See ``ports.CustodyLifecycle.settle_interrupted``."""
        with self._working("settle an interrupted attempt"):
            left = self._facts.left_open(self._case.plan)
            if left is None and self._grant is None:
                return
            self._attached()
            self._known = self._return_to(self.current().commit)
            self._grant = None
            if left is not None:
                # Without the step's name: that step has its end, and nothing may follow it there.
                self._writer.stage(Draft(event=_taken(self._known, (), "step")))

    def preserve(self) -> tuple[ObjectId, ObjectId]:
        """See ``ports.CustodyLifecycle.preserve``. Without changes the result is the base commit itself."""
        with self._working("preserve the result"):
            done = self._facts.preserved()
            if done is not None:
                return ObjectId(done.tree), ObjectId(done.commit)
            repository = self._attached().repository
            activation, base = self._case.activation, self._base()
            start, last = self._store.load(self.baseline().commit), self._store.load(self.current().commit)
            changes = changed_paths(base, start, last, include_dirty=activation.workspace.include_dirty)
            self._before_effect("write result")
            converter = self._converter(repository, self._store.frozen())
            tree, commit = commit_result(converter, activation, base, changes, last)
            self._before_effect("keep result")
            ref = keep_result(self._git, repository, self._delivery, commit)
            self._before_effect("record result")
            self._writer.append(Draft(event=ResultPreserved(tree=tree, commit=commit, ref=ref)))
            return ObjectId(tree), ObjectId(commit)

    def publish(self, *, requested: bool) -> Publication:
        """See ``ports.CustodyLifecycle.publish``. In a conflict ``old`` is what the target had to be, ``new`` what it is."""
        with self._working("publish the result"):
            known = self._facts.publication()
            if known is None:
                known = self._publish(requested)
                self._before_effect("record publication")
                self._writer.append(Draft(event=PublicationKnown(publication=known)))
            return known

    def retire(self, authorization: Digest) -> Retirement:
        """See ``ports.CustodyLifecycle.retire``. Store, savepoints and the preserved result stay until they are collected."""
        with self._working("retire custody"):
            known = self._facts.retirement()
            if known is None:
                if self._facts.baseline() is not None:
                    self._attached()
                    self._store.heal()
                self.close()
                known = Retirement(owner="custody", authorization=authorization)
                self._writer.append(Draft(event=OwnerRetired(retirement=known)))
            if known.authorization != authorization:
                raise IntegrityError(
                    Code.AUTHORIZATION_FOREIGN,
                    f"custody of {self._delivery} was retired under {known.authorization}, not {authorization}",
                    remedy="ask with the authorization that the ledger holds",
                )
            return known

    # --- attempts ----------------------------------------------------------------------------------------------------

    def _issue(self, step: StepRef, attempt: int, scope: Scope, known: Kept, expires_in_s: float) -> WorkspaceGrant:
        device, inode = self._attached().root.identity
        grant = WorkspaceGrant(
            delivery=self._delivery,
            step=step.key,
            attempt=attempt,
            worktree=self._case.activation.workspace.worktree,
            device=device,
            inode=inode,
            savepoint=ObjectId(known.commit),
            scope=scope,
            scope_digest=digest(scope.to_json()),
            expires_at=self._clock.monotonic() + expires_in_s,
            nonce=secrets.token_hex(16),
        )
        return replace(grant, signature=grants.sign(self._key, grant))

    def _look_for_foreign_edits(self, step: StepRef) -> ports.ForeignEdit | None:
        """Sets what is known of the worktree, or keeps what somebody made of it and says so."""
        snapshots = self._attached()
        reference = self._store.load(self.current().commit)
        state = snapshots.look(reference)
        changes = unequal(reference.state, state)
        if not changes:
            self._known = replace(reference, state=state)
            return None
        found = snapshots.take(reference, f"foreign edits found before {step.key}")
        self._writer.stage(Draft(event=_taken(found, changes, "foreign")))
        return ports.ForeignEdit(paths=named(changes), savepoint=_savepoint(found, changes))

    def _end(self, grant: WorkspaceGrant, *, keep: bool) -> ports.Verdict:
        with self._working("settle an attempt"):
            opening = self._opening(grant)
            present = self._attached().take(opening, f"{grant.step} attempt {grant.attempt}")
            changes = difference(opening.state, present.state)
            bad = outside(changes, grant.scope)
            environment = environment_changes(opening.state, present.state)
            if keep and not bad and not environment:
                return self._accept(grant, present, changes)
            self._known = self._restore(opening, present)
            savepoint = _savepoint(opening, ())
            self._record_end(grant, opening, savepoint, ())
            if environment:
                return ports.EnvironmentChanged(what=(*environment, *named(bad)), savepoint=savepoint)
            if bad:
                return ports.Violation(paths=named(bad), rule=str(grant.scope), savepoint=savepoint)
            return ports.Accepted(savepoint=savepoint)

    def _accept(self, grant: WorkspaceGrant, present: Kept, changes: tuple[Change, ...]) -> ports.Accepted:
        savepoint = _savepoint(present, changes)
        self._known = present
        self._record_end(grant, present, savepoint, changes)
        return ports.Accepted(savepoint=savepoint)

    def _record_end(
        self, grant: WorkspaceGrant, kept: Kept, savepoint: ports.Savepoint, changes: tuple[Change, ...]
    ) -> None:
        """Staged also for an attempt that came to nothing: that there is a verdict tells it from one left open."""
        step = StepRef.parse(grant.step)
        self._writer.stage(Draft(event=_taken(kept, changes, "step"), step=step, attempt=grant.attempt))
        self._newest = savepoint
        self._grant = None

    def _opening(self, grant: WorkspaceGrant) -> Kept:
        """The savepoint that the attempt under ``grant`` started from; ``GRANT_INVALID`` for any but the open grant."""
        found = Path(self._case.activation.workspace.worktree).lstat()
        grants.verify(
            self._key,
            grant,
            delivery=self._delivery,
            step=grant.step,
            device=found.st_dev,
            inode=found.st_ino,
            now=ALWAYS,
        )
        if self._grant is None or self._known is None or grant.nonce != self._grant.nonce:
            raise IntegrityError(
                Code.GRANT_INVALID,
                f"workspace grant for {grant.step} refused: it is not the one of the attempt that is open",
                remedy="begin the attempt again",
            )
        return self._known

    # --- restoring ---------------------------------------------------------------------------------------------------

    def _return_to(self, commit: str) -> Kept:
        """Keeps the present, then puts the worktree back to the savepoint ``commit``."""
        target = self._known if self._known is not None and self._known.commit == commit else self._store.load(commit)
        present = self._attached().take(target, f"found before going back to {commit}")
        return self._restore(target, present)

    def _restore(self, target: Kept, present: Kept, temp: str = "") -> Kept:
        """``target`` with the worktree's state as the proving scan found it. ``present`` is in the store."""
        snapshots = self._attached()
        leaving = [path for path in present.state.files if path not in target.state.files]
        ignored = snapshots.rules.ignored(leaving)
        snapshots.rules.rest()
        plan = plan_between(present.state, target.state, ignored)
        restorer = self._restorer(snapshots)
        if plan.empty and not temp:
            return replace(target, state=present.state)
        restorer.check(plan)
        temp = temp or write_journal(self._store, target)
        restorer.carry_out(plan, target.state, temp)
        found = snapshots.look(target)
        left = unequal(target.state, found)
        if left:
            raise not_equal(left, target)
        self._before_effect("close journal")
        close_journal(self._store)
        return replace(target, state=found)

    def _finish_restore(self, commit: str, temp: str) -> None:
        target = self._store.load(commit)
        snapshots = self._attached()
        restorer = self._restorer(snapshots)
        restorer.sweep((target.state.dirs,), temp)
        present = snapshots.take(target, f"found before going on with going back to {commit}")
        self._restore(target, present, temp)

    def _restorer(self, snapshots: Snapshots) -> Restorer:
        return Restorer(
            git=self._git,
            repository=snapshots.repository,
            store=self._store,
            root=snapshots.root,
            before_effect=self._before_effect,
        )

    # --- publishing --------------------------------------------------------------------------------------------------

    def _publish(self, requested: bool) -> Publication:
        result = self._facts.preserved()
        if result is None:
            raise IntegrityError(
                Code.ILLEGAL_TRANSITION,
                f"{self._delivery} has no preserved result",
                remedy="preserve it before publishing",
            )
        target = self._case.activation.target
        wanted = Target(ref=target.ref, expected=target.expected, new=result.commit)
        publisher = Publisher(git=self._git, repository=self._attached().repository, target=wanted)
        asked = self._facts.publication_asked()
        step, now = publisher.look(asked=asked)
        if not requested and not asked:
            return Publication(disposition="not-requested", ref=target.ref, old=now, new=now)
        if step == "ask":
            if not asked:
                event = PublicationAsked(ref=wanted.ref, expected=wanted.expected, new=wanted.new)
                self._writer.append(Draft(event=event))
            self._before_effect("move target")
            step, now = publisher.move()
        return wanted.known(step, now)

    # --- the bench ---------------------------------------------------------------------------------------------------

    def _attached(self) -> Snapshots:
        """Everything an operation works with. The first call of a process heals what a killed one left and finishes a
        restore that it had begun."""
        if self._snapshots is None:
            frozen = self._store.frozen()
            repository = Repository(
                worktree=Path(self._case.activation.workspace.worktree),
                git_dir=Path(frozen.git_dir),
                common_dir=Path(frozen.common_dir),
                object_format=frozen.object_format,
            )
            self._snapshots = self._make_snapshots(repository, self._open(repository), frozen)
            self._store.heal()
            free_index_lock(repository)
            journal = read_journal(self._store)
            if journal is not None:
                try:
                    self._finish_restore(*journal)
                except BaseException:
                    self.close()
                    raise
        return self._snapshots

    def _open(self, repository: Repository) -> Root:
        try:
            if not repository.git_dir.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(repository.git_dir))
            return Root(repository.worktree)
        except OSError as error:
            raise EnvironmentFault(
                Code.WORKTREE_MISSING,
                f"the worktree {repository.worktree} cannot be opened: {error.strerror} ({error.filename})",
                remedy="put the worktree and its repository back where they were admitted",
            ) from None

    def _make_snapshots(self, repository: Repository, root: Root, frozen: Frozen) -> Snapshots:
        date = dt.datetime.fromisoformat(self._case.activation.admitted_at.replace("Z", "+00:00"))
        return Snapshots(
            self._git, repository, self._store, root, ignore=frozen.ignore_digest, budget=self._budget, date=date
        )

    def _base(self) -> Base:
        tree = self._case.activation.workspace.base_tree
        return Base(tree=tree, files=self._store.tree_files(tree))

    def _converter(self, repository: Repository, frozen: Frozen) -> Converter:
        return Converter(
            git=self._git,
            repository=repository,
            store=self._store,
            conversions=frozen.conversions,
            modes_count=frozen.modes_count,
        )

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        """One operation at a time; what the machine refuses becomes a fault with its place."""
        with self._lock:
            try:
                yield
            except OSError as error:
                code = Code.DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else Code.CAPTURE_FAILED
                place = show(os.fsencode(error.filename)) if isinstance(error.filename, str | bytes) else "a file"
                raise EnvironmentFault(
                    code,
                    f"cannot {what}: {place}: {error.strerror}",
                    remedy="mend that, then run the same command again",
                ) from error


def _savepoint(kept: Kept, changes: tuple[Change, ...]) -> ports.Savepoint:
    return ports.Savepoint(
        commit=ObjectId(kept.commit), tree=ObjectId(kept.tree), changed=paths_of(changes)[:CHANGED_MAX]
    )


def _taken(kept: Kept, changes: tuple[Change, ...], role: str) -> SavepointTaken:
    changed = paths_of(changes)
    missing = tuple(f"{show(path)}: {why}" for path, why in sorted(kept.state.not_captured.items()))
    return SavepointTaken.model_validate(
        {
            "savepoint": kept.commit,
            "tree": kept.tree,
            "changed": changed[:CHANGED_MAX],
            "changed_count": len(changed),
            "not_captured": missing[:CHANGED_MAX],
            "role": role,
        }
    )
