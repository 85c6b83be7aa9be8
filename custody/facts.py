"""What custody has recorded before, read from the ledger. This is all that survives a process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from custody.paths import show
from custody.scope import CHANGED_MAX, Change, paths_of
from custody.state import Kept
from runner.contract import ports
from runner.contract.events import (
    DeliveryForked,
    Event,
    InterventionResolved,
    OwnerRetired,
    PublicationAsked,
    PublicationKnown,
    ResultPreserved,
    SavepointTaken,
    StepAttemptStarted,
    TerminalProposed,
)
from runner.contract.ids import ObjectId, StepRef
from runner.contract.outcomes import Outcome, Publication, Retirement
from runner.contract.plan import Plan
from runner.contract.ports import LedgerReader
from runner.contract.records import Record

Role = Literal["baseline", "step", "mid-step", "foreign"]
_SAVEPOINTS: Final = frozenset({SavepointTaken.KIND})
_WINDOW: Final = 64
"""Records that the first look backwards takes in; each further look takes four times as many."""


def savepoint(commit: str, tree: str, changed: tuple[str, ...] = ()) -> ports.Savepoint:
    return ports.Savepoint(commit=ObjectId(commit), tree=ObjectId(tree), changed=changed)


def savepoint_of(kept: Kept, changes: tuple[Change, ...] = ()) -> ports.Savepoint:
    return savepoint(kept.commit, kept.tree, paths_of(changes)[:CHANGED_MAX])


def taken(
    at: ports.Savepoint, role: Role, *, changed_count: int | None = None, notes: tuple[str, ...] = ()
) -> SavepointTaken:
    """The fact that ``at`` was taken. ``notes`` is what it does not hold, and why."""
    return SavepointTaken(
        savepoint=at.commit,
        tree=at.tree,
        changed=at.changed[:CHANGED_MAX],
        changed_count=len(at.changed) if changed_count is None else changed_count,
        not_captured=notes[:CHANGED_MAX],
        role=role,
    )


def kept_as(kept: Kept, changes: tuple[Change, ...], role: Role, notes: tuple[str, ...] = ()) -> SavepointTaken:
    missing = tuple(f"{show(path)}: {why}" for path, why in sorted(kept.state.not_captured.items()))
    count = len(paths_of(changes))
    return taken(savepoint_of(kept, changes), role, changed_count=count, notes=(*notes, *missing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A savepoint of somebody else's edits, and what a person said about it since."""

    seq: int
    commit: str
    tree: str
    resolution: Literal["adopt", "discard"] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    ledger: LedgerReader

    def baseline(self) -> SavepointTaken | None:
        for record in self.ledger.read(kinds=_SAVEPOINTS):
            if isinstance(record.event, SavepointTaken) and record.event.role == "baseline":
                return record.event
        return None

    def arrival(self) -> tuple[int, str] | None:
        """The first savepoint of a Delivery that starts from another one, behind everything taken over, and its sequence."""
        forked = self.ledger.last(frozenset({DeliveryForked.KIND}))
        if forked is None or not isinstance(forked.event, DeliveryForked):
            return None
        record = next(self.ledger.read(after=forked.seq + forked.event.records, kinds=_SAVEPOINTS))
        return (record.seq, record.event.savepoint) if isinstance(record.event, SavepointTaken) else None

    def newest(self) -> tuple[int, ports.Savepoint] | None:
        """The newest savepoint that steps go on from, and its sequence: never one in the middle of a step; a foreign one
        only when it was adopted."""
        found = self._verdict()
        if found is None or not isinstance(found.event, SavepointTaken):
            return None
        event = found.event
        adopted = [foreign for foreign in self.foreign(found.seq) if foreign.resolution == "adopt"]
        if adopted:
            return adopted[-1].seq, savepoint(adopted[-1].commit, adopted[-1].tree)
        return found.seq, savepoint(event.savepoint, event.tree, event.changed)

    def foreign(self, after: int) -> tuple[Foreign, ...]:
        """Foreign savepoints beyond ``after``, in order. A resolution is about the one before it."""
        found: list[Foreign] = []
        for record in self.ledger.read(after=after, kinds=frozenset({SavepointTaken.KIND, InterventionResolved.KIND})):
            match record.event:
                case SavepointTaken(role="foreign", savepoint=commit, tree=tree):
                    found.append(Foreign(seq=record.seq, commit=commit, tree=tree))
                case InterventionResolved(call="", resolution="adopt" | "discard" as resolution) if found:
                    found[-1] = replace(found[-1], resolution=resolution)
                case _:
                    pass  # a savepoint of the Delivery's own, or a resolution of something else
        return tuple(found)

    def started(self, step: StepRef, attempt: int) -> int:
        """The sequence of the attempt's start, 0 when none is recorded."""
        record = self.ledger.last(frozenset({StepAttemptStarted.KIND}), step)
        return record.seq if record is not None and record.attempt == attempt else 0

    def marked(self, step: StepRef, attempt: int, after: int) -> tuple[int, ObjectId] | None:
        """The attempt's last mid-step savepoint beyond ``after``, and its sequence."""
        found: tuple[int, ObjectId] | None = None
        for record in self.ledger.read(after=after, kinds=_SAVEPOINTS, step=step):
            event = record.event
            if isinstance(event, SavepointTaken) and event.role == "mid-step" and record.attempt == attempt:
                found = record.seq, ObjectId(event.savepoint)
        return found

    def left_open(self, plan: Plan) -> Record | None:
        """The start of an attempt in the worktree that custody has never given a verdict on."""
        verdict = self._verdict()
        started = self.ledger.read(after=verdict.seq if verdict else 0, kinds=frozenset({StepAttemptStarted.KIND}))
        found = [r for r in started if r.step is not None and plan.site(r.step.site).uses_workspace]
        return found[-1] if found else None

    def completed(self) -> bool:
        """Whether the terminal that was decided is a completion."""
        event = self._last(TerminalProposed.KIND)
        return isinstance(event, TerminalProposed) and event.outcome is Outcome.COMPLETED

    def preserved(self) -> ResultPreserved | None:
        event = self._last(ResultPreserved.KIND)
        return event if isinstance(event, ResultPreserved) else None

    def publication_asked(self) -> bool:
        return self._last(PublicationAsked.KIND) is not None

    def publication(self) -> Publication | None:
        event = self._last(PublicationKnown.KIND)
        return event.publication if isinstance(event, PublicationKnown) else None

    def retirement(self) -> Retirement | None:
        for record in self.ledger.read(kinds=frozenset({OwnerRetired.KIND})):
            if isinstance(record.event, OwnerRetired) and record.event.retirement.owner == "custody":
                return record.event.retirement
        return None

    def _last(self, kind: str) -> Event | None:
        record = self.ledger.last(frozenset({kind}))
        return record.event if record is not None else None

    def _verdict(self) -> Record | None:
        """The newest baseline or verdict on a step."""
        return self._backwards(
            lambda record: isinstance(record.event, SavepointTaken) and record.event.role in ("baseline", "step")
        )

    def _backwards(self, wanted: Callable[[Record], bool]) -> Record | None:
        """The newest savepoint record that is ``wanted``. Costs what lies behind it, not what lies before it."""
        after, span = self.ledger.head(), _WINDOW
        while after > 0:
            after = max(0, after - span)
            found = [record for record in self.ledger.read(after=after, kinds=_SAVEPOINTS) if wanted(record)]
            if found:
                return found[-1]
            span *= 4
        return None
