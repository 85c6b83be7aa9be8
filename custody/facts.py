"""What custody has recorded before, read from the ledger. This is all that survives a process."""

from dataclasses import dataclass

from runner.contract.events import (
    Event,
    OwnerRetired,
    PublicationAsked,
    PublicationKnown,
    ResultPreserved,
    SavepointTaken,
    StepAttemptStarted,
)
from runner.contract.outcomes import Publication, Retirement
from runner.contract.plan import Plan
from runner.contract.ports import LedgerReader
from runner.contract.records import Record


@dataclass(frozen=True, slots=True)
class Facts:
    ledger: LedgerReader

    def baseline(self) -> SavepointTaken | None:
        for record in self.ledger.read(kinds=frozenset({SavepointTaken.KIND})):
            if isinstance(record.event, SavepointTaken) and record.event.role == "baseline":
                return record.event
        return None

    def newest(self) -> tuple[int, SavepointTaken] | None:
        """The newest savepoint that steps go on from, and its sequence: neither foreign nor in the middle of a step."""
        record = self.ledger.last(frozenset({SavepointTaken.KIND}))
        if record is not None and not _goes_on(record):
            found = [r for r in self.ledger.read(kinds=frozenset({SavepointTaken.KIND})) if _goes_on(r)]
            record = found[-1] if found else None
        if record is None or not isinstance(record.event, SavepointTaken):
            return None
        return record.seq, record.event

    def left_open(self, plan: Plan) -> Record | None:
        """The start of an attempt in the worktree that custody has never given a verdict on."""
        newest = self.newest()
        started = self.ledger.read(after=newest[0] if newest else 0, kinds=frozenset({StepAttemptStarted.KIND}))
        found = [r for r in started if r.step is not None and plan.site(r.step.site).uses_workspace]
        return found[-1] if found else None

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


def _goes_on(record: Record) -> bool:
    return isinstance(record.event, SavepointTaken) and record.event.role in ("baseline", "step")
