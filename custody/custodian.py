"""The door: what the host (``Workspaces``) and the coordinator (``CustodyLifecycle``) may ask of custody.

Every operation is idempotent by the ledger's facts and by what git and the worktree show; a process may die anywhere in it.
Order is what makes that safe: objects and refs are synced before a savepoint is staged, the present is kept before a file is
overwritten, a restore is journaled before its first change, publication is asked durably before the ref moves.
"""

import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from custody.environment import surroundings
from custody.facts import Facts
from custody.git import Git
from custody.paths import show
from custody.publish import Publisher, Target
from custody.restore import (
    unequal,
)
from custody.result import changed_paths, commit_result, keep_result
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
from custody.state import Kept
from custody.store import Store
from custody.worktree import Worktree, open_again, open_first
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
        self._open: Worktree | None = None
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
            if self._open is not None:
                self._open.close()
            self._open = self._known = self._grant = None

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
            worktree = self._attached()
            if opened_at is not None:
                self._known = worktree.return_to(self._kept(opened_at), f"{step.key} was interrupted")
            elif self._grant is not None and self._known is not None:
                self._known = worktree.return_to(self._known, f"{self._grant.step} was never ended")
            elif self._known is None:
                foreign = self._look_for_foreign_edits(step)
                if foreign is not None:
                    return foreign
            known = self._known
            assert known is not None  # noqa: S101 - each branch above has set it or returned
            self._known = replace(known, state=replace(known.state, surroundings=surroundings(worktree.repository)))
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
            worktree = open_first(
                self._git,
                self._store,
                self._case.activation,
                budget=self._budget,
                before_effect=self._before_effect,
            )
            try:
                kept = worktree.take_baseline()
            except BaseException:
                worktree.close()
                raise
            self._open = worktree
            self._writer.append(Draft(event=_taken(kept, (), "baseline")))
            self._newest = _savepoint(kept, ())
            return self._newest

    def settle_interrupted(self) -> None:
        """See ``ports.CustodyLifecycle.settle_interrupted``."""
        with self._working("settle an interrupted attempt"):
            left = self._facts.left_open(self._case.plan)
            if left is None and self._grant is None:
                return
            self._known = self._attached().return_to(self._kept(self.current().commit), "an attempt was left open")
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
            worktree, activation = self._attached(), self._case.activation
            base = worktree.base
            start, last = self._store.load(self.baseline().commit), self._store.load(self.current().commit)
            changes = changed_paths(base, start, last, include_dirty=activation.workspace.include_dirty)
            self._before_effect("write result")
            tree, commit = commit_result(worktree.converter, activation, base, changes, last)
            self._before_effect("keep result")
            ref = keep_result(self._git, worktree.repository, self._delivery, commit)
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
        worktree = self._attached()
        reference = self._store.load(self.current().commit)
        seen = worktree.look(reference)
        changes = unequal(reference.state, seen.state)
        if not changes:
            self._known = seen
            return None
        found = worktree.take(reference, f"foreign edits found before {step.key}")
        self._writer.stage(Draft(event=_taken(found, changes, "foreign")))
        return ports.ForeignEdit(paths=named(changes), savepoint=_savepoint(found, changes))

    def _kept(self, commit: str) -> Kept:
        """The savepoint ``commit``, from memory where it is the one the worktree is at."""
        return self._known if self._known is not None and self._known.commit == commit else self._store.load(commit)

    def _end(self, grant: WorkspaceGrant, *, keep: bool) -> ports.Verdict:
        with self._working("settle an attempt"):
            opening = self._opening(grant)
            present = self._attached().take(opening, f"{grant.step} attempt {grant.attempt}")
            changes = difference(opening.state, present.state)
            bad = outside(changes, grant.scope)
            environment = environment_changes(opening.state, present.state)
            if keep and not bad and not environment:
                return self._accept(grant, present, changes)
            self._known = self._attached().restore(opening, present)
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

    # --- what it works with ------------------------------------------------------------------------------------------

    def _attached(self) -> Worktree:
        """The worktree, opened and healed by the first operation of a process."""
        if self._open is None:
            self._open = open_again(
                self._git,
                self._store,
                self._case.activation,
                budget=self._budget,
                before_effect=self._before_effect,
            )
        return self._open

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
