"""Attempts in the worktree: how one begins, what is kept while it runs, how it is judged and undone.

An attempt is judged against the savepoint that it opened with, whatever was kept in between. It goes on after a crash from its
newest recorded mid-step savepoint; one that was staged and never recorded does not count, because neither does the result
of the tool call that it belongs to.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from custody.desk import Desk
from custody.environment import branches, moved, surroundings
from custody.facts import Foreign, kept_as, savepoint, savepoint_of, taken
from custody.foreign import confined, somebody_elses, spliced
from custody.midstep import Mark
from custody.origin import arrive
from custody.paths import scope_text, show
from custody.restore import unequal
from custody.scope import Change, difference, environment_changes, named, outside
from custody.state import Directory, Kept, State
from runner.contract import grant as grants
from runner.contract import ports
from runner.contract.canonical import digest
from runner.contract.errors import Code, IntegrityError
from runner.contract.grant import GrantKey, WorkspaceGrant
from runner.contract.ids import ObjectId, StepRef
from runner.contract.records import Draft
from runner.contract.scope import Scope, allowing

ALWAYS: Final = float("-inf")
WORKTREE_GONE: Final = "the worktree was gone, so it was not put back"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """What was found against an attempt; it stands even when putting the worktree back has to be tried again."""

    changes: tuple[Change, ...]
    bad: tuple[Change, ...]
    environment: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Running:
    """The open attempt."""

    grant: WorkspaceGrant
    opening: Kept
    mark: Mark
    branches: Mapping[str, str]
    """The repository's branches and tags when this process began the attempt."""
    judgement: _Judgement | None = None


class Attempts:
    """One at a time. ``known`` is the savepoint that the worktree is known to be at."""

    def __init__(self, desk: Desk, key: GrantKey, clock: ports.Clock) -> None:
        self._desk = desk
        self._key = key
        self._clock = clock
        self._known: Kept | None = None
        self._newest: ports.Savepoint | None = None
        self._running: _Running | None = None
        self._foreign: Foreign | None = None
        """The newest foreign savepoint of this process, perhaps not recorded yet."""

    def forget(self) -> None:
        """Nothing is known of the worktree any more."""
        self._known = self._running = None

    # --- which savepoint ---------------------------------------------------------------------------------------------

    def current(self) -> ports.Savepoint:
        """The newest savepoint that steps go on from."""
        return self._newest or self._look_up()

    def _look_up(self) -> ports.Savepoint:
        found = self._desk.facts.newest()
        if found is None:
            raise IntegrityError(
                Code.ILLEGAL_TRANSITION,
                f"{self._desk.delivery} has no savepoint yet",
                remedy="take the baseline first",
            )
        self._newest = found[1]
        return self._newest

    def take_baseline(self) -> ports.Savepoint:
        """The first savepoint, recorded."""
        event = self._desk.facts.baseline()
        if event is not None:
            return savepoint(event.savepoint, event.tree)
        if self._desk.case.activation.origin is not None:
            return self._arrive()
        kept = self._desk.new_worktree().take_baseline()
        self._desk.before_effect("record baseline")
        self._desk.writer.append(Draft(event=kept_as(kept, (), "baseline")))
        self._newest = savepoint_of(kept)
        return self._newest

    def _arrive(self) -> ports.Savepoint:
        """For a Delivery that starts from another one. Its baseline is that one's, recorded with this: the result is all that
        differs from the admitted commit."""
        kept, role = arrive(self._desk)
        self._desk.before_effect("record baseline")
        self._desk.writer.append(Draft(event=kept_as(kept, (), role)))
        return self.take_baseline()

    def _load(self, commit: str) -> Kept:
        """The savepoint ``commit``, from memory where it is the one the worktree is at."""
        known = self._known
        return known if known is not None and known.commit == commit else self._desk.store.load(commit)

    # --- beginning ---------------------------------------------------------------------------------------------------

    def begin(
        self, step: StepRef, attempt: int, scope: Scope, *, opened_at: ObjectId | None, expires_in_s: float
    ) -> WorkspaceGrant | ports.ForeignEdit:
        """See ``ports.Workspaces.begin``. An attempt that was begun in this process and never ended is undone first."""
        if opened_at is not None:
            found = self._resume(step, attempt, scope, opened_at)
        elif self._running is not None:
            opening = self._desk.worktree().return_to(self._running.opening, f"{step.key} was never ended")
            found = self._surrounded(opening), opening
        elif self._known is not None:
            found = self._surrounded(self._known), self._known
        else:
            found = self._first(step)
        if isinstance(found, ports.ForeignEdit):
            return found
        opening, self._known = found
        start = opening if opened_at is None else self._written(step, self._known)
        grant = self._issue(step, attempt, scope, opening, expires_in_s)
        self._running = _Running(
            grant=grant,
            opening=opening,
            mark=Mark.at_start(start),
            branches=branches(self._desk.worktree().repository),
        )
        return grant

    def _first(self, step: StepRef) -> tuple[Kept, Kept] | ports.ForeignEdit:
        """The first attempt of a process: the worktree must be the newest savepoint's, or a person has to say what becomes
        of the edits."""
        worktree = self._desk.worktree()
        target = self._desk.store.load(self._look_up().commit)
        edit = self._edited(step, target, target, None, after=self._newest_seq())
        if isinstance(edit, ports.ForeignEdit):
            return edit
        known = worktree.return_to(target, f"edits before {step.key} were discarded") if edit else worktree.look(target)
        return self._surrounded(known), known

    def _resume(
        self, step: StepRef, attempt: int, scope: Scope, opened_at: ObjectId
    ) -> tuple[Kept, Kept] | ports.ForeignEdit:
        """An attempt goes on: the savepoint it is judged against, and the one the worktree was put back to."""
        desk, self._running = self._desk, None
        worktree, started = desk.worktree(), desk.facts.started(step, attempt)
        mark = desk.facts.marked(step, attempt, started)
        adopted = [foreign for foreign in desk.facts.foreign(started) if foreign.resolution == "adopt"]
        opening = self._arrived(self._load(adopted[-1].commit if adopted else opened_at), started)
        target = self._load(mark[1]) if mark else opening
        self._known = None  # until the worktree is surely somewhere
        if mark and adopted and mark[0] < adopted[-1].seq:
            state = spliced(target.state, opening.state, scope)
            target = worktree.keep(state, target, f"{step.key} with adopted edits")
        reach = confined(desk.case.plan.site(step.site).action, scope)
        if reach is not None:
            after = adopted[-1].seq if adopted else started
            edit = self._edited(step, target, opening, reach, after=after)
            if isinstance(edit, ports.ForeignEdit):
                return edit
        return opening, worktree.return_to(target, f"{step.key} was interrupted")

    def _arrived(self, opening: Kept, started: int) -> Kept:
        """For an attempt that began in another Delivery, what surrounded this one's worktree at its start is what it is
        judged by."""
        arrival = self._desk.facts.arrival()
        if arrival is None or started > arrival[0]:
            return opening
        around = self._desk.store.load(arrival[1]).state.surroundings
        return replace(opening, state=replace(opening.state, surroundings=around))

    def _edited(
        self, step: StepRef, target: Kept, opening: Kept, scope: Scope | None, *, after: int
    ) -> ports.ForeignEdit | bool:
        """Whether the worktree differs from ``target`` by edits that were discarded. Edits that nobody has resolved are
        kept, recorded once, and answered; so are edits made since others were resolved."""
        worktree = self._desk.worktree()
        found = worktree.look(target)
        changes = somebody_elses(target.state, found.state, scope)
        if not changes:
            return False
        state = found.state if scope is None else spliced(opening.state, found.state, scope)
        known = (*([self._foreign] if self._foreign else []), *self._desk.facts.foreign(after))
        for foreign in reversed(known):
            if not unequal(self._desk.store.load(foreign.commit).state, state):
                if foreign.resolution == "discard":
                    return True
                return ports.ForeignEdit(paths=named(changes), savepoint=savepoint(foreign.commit, foreign.tree))
        kept = worktree.keep(state, target, f"foreign edits found before {step.key}")
        self._foreign = Foreign(seq=0, commit=kept.commit, tree=kept.tree)
        self._desk.writer.stage(Draft(event=kept_as(kept, changes, "foreign")))
        return ports.ForeignEdit(paths=named(changes), savepoint=savepoint_of(kept, changes))

    def _newest_seq(self) -> int:
        found = self._desk.facts.newest()
        return found[0] if found else 0

    def _surrounded(self, known: Kept) -> Kept:
        """``known`` with what surrounds the worktree now. Hooks or config that somebody changed between attempts, or a
        repository that somebody nested in it, are not the next attempt's doing: they become part of a savepoint, so that a
        crash does not make them that either."""
        worktree = self._desk.worktree()
        now = surroundings(worktree.repository)
        state = replace(known.state, surroundings=now)
        if known.exact and now.environment == known.state.surroundings.environment:
            return replace(known, state=state)
        kept = worktree.keep(state, known, "what is around the files was changed between steps")
        self._desk.writer.stage(Draft(event=kept_as(kept, (), "step")))
        self._newest = savepoint_of(kept)
        return kept

    def _written(self, step: StepRef, known: Kept) -> Kept:
        """``known`` as a commit that says all of it, for marks to be laid over."""
        if known.exact:
            return known
        return self._desk.worktree().keep(known.state, known, f"what {step.key} goes on with")

    def _issue(self, step: StepRef, attempt: int, scope: Scope, opening: Kept, expires_in_s: float) -> WorkspaceGrant:
        device, inode = self._desk.worktree().root.identity
        grant = WorkspaceGrant(
            delivery=self._desk.delivery,
            step=step.key,
            attempt=attempt,
            worktree=self._desk.case.activation.workspace.worktree,
            device=device,
            inode=inode,
            savepoint=ObjectId(opening.commit),
            scope=scope,
            scope_digest=digest(scope.to_json()),
            expires_at=self._clock.monotonic() + expires_in_s,
            nonce=secrets.token_hex(16),
        )
        return replace(grant, signature=grants.sign(self._key, grant))

    # --- while it runs -----------------------------------------------------------------------------------------------

    def mark(self, grant: WorkspaceGrant, paths: tuple[str, ...] | None) -> ports.Savepoint:
        """See ``ports.Workspaces.mark``. A mark that finds nothing new names the savepoint before it again."""
        running, worktree = self._open(grant), self._desk.worktree()
        if paths is None:
            paths = tuple(map(show, running.mark.differing(worktree.look(running.opening).state)))
        message = f"{grant.step} attempt {grant.attempt}, in the middle"
        running.mark, found = worktree.mark(running.mark, paths, message)
        changed = tuple(
            show(path) for path, now in found.items() if not isinstance(now, Directory) or show(path) in paths
        )
        kept = savepoint(running.mark.commit, running.mark.tree, changed)
        event = taken(kept, "mid-step")
        self._desk.writer.stage(Draft(event=event, step=StepRef.parse(grant.step), attempt=grant.attempt))
        return kept

    # --- ending ------------------------------------------------------------------------------------------------------

    def end(self, grant: WorkspaceGrant, *, keep: bool) -> ports.Verdict:
        """See ``ports.Workspaces.settle`` and ``discard``. An attempt whose grant has expired is still judged: the scan is
        the proof. After a fault the same call goes on with the verdict that was found first."""
        running, worktree = self._open(grant), self._desk.worktree()
        opening = running.opening
        present = worktree.take(opening, f"{grant.step} attempt {grant.attempt}")
        found = running.judgement or self._judge(running, present.state)
        if keep and not found.bad and not found.environment:
            self._record_end(grant, present, found.changes, found.notes)
            self._known = present
            return ports.Accepted(savepoint=savepoint_of(present, found.changes))
        running.judgement = found
        known = worktree.restore(opening, present)
        self._record_end(grant, opening, (), found.notes)
        self._known = known
        at_opening = savepoint_of(opening)
        if found.environment:
            what = (*found.environment, *named(found.bad), *found.notes)
            return ports.EnvironmentChanged(what=what, savepoint=at_opening)
        if found.bad:
            return ports.Violation(
                paths=named(found.bad),
                rule=str(grant.scope),
                savepoint=at_opening,
                allowed_by=allowing(scope_text(change.path) for change in found.bad),
            )
        return ports.Accepted(savepoint=at_opening)

    def _judge(self, running: _Running, present: State) -> _Judgement:
        before = running.opening.state
        changes = difference(before, present)
        refs = moved(running.branches, branches(self._desk.worktree().repository))
        heads = before.surroundings.head, present.surroundings.head
        head = () if heads[0] == heads[1] else (f"HEAD: was {heads[0]}, is {heads[1]}; it is reported, never put back",)
        return _Judgement(
            changes=changes,
            bad=outside(changes, running.grant.scope),
            environment=environment_changes(before, present),
            notes=(*head, *(f"{ref}; it is reported, never put back" for ref in refs)),
        )

    def _record_end(
        self, grant: WorkspaceGrant, kept: Kept, changes: tuple[Change, ...], notes: tuple[str, ...]
    ) -> None:
        """Staged also for an attempt that came to nothing: that there is a verdict tells it from one left open."""
        step, event = StepRef.parse(grant.step), kept_as(kept, changes, "step", notes)
        self._desk.writer.stage(Draft(event=event, step=step, attempt=grant.attempt))
        self._newest = savepoint_of(kept, changes)
        self._running = None

    def settle_interrupted(self) -> None:
        """See ``ports.CustodyLifecycle.settle_interrupted``. A worktree that is gone is told, and not put back."""
        left = self._desk.facts.left_open(self._desk.case.plan)
        if left is None and self._running is None:
            return
        target = self._load(self.current().commit)
        self._known = self._running = None
        worktree = self._desk.worktree_left()
        if worktree is not None:
            target = self._known = worktree.return_to(target, "an attempt was left open")
        if left is not None:
            # Without the step's name: that step has its end, and nothing may follow it there.
            notes = () if worktree is not None else (WORKTREE_GONE,)
            self._desk.writer.stage(Draft(event=kept_as(target, (), "step", notes)))

    def _open(self, grant: WorkspaceGrant) -> _Running:
        """The attempt under ``grant``; ``GRANT_INVALID`` for any but the open grant."""
        found = Path(self._desk.case.activation.workspace.worktree).lstat()
        grants.verify(
            self._key,
            grant,
            delivery=self._desk.delivery,
            step=grant.step,
            device=found.st_dev,
            inode=found.st_ino,
            now=ALWAYS,
        )
        if self._running is None or grant.nonce != self._running.grant.nonce:
            raise IntegrityError(
                Code.GRANT_INVALID,
                f"workspace grant for {grant.step} refused: it is not the one of the attempt that is open",
                remedy="begin the attempt again",
            )
        return self._running
