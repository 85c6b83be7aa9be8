"""The coordinator's own facts: read by kind, written only where the phase table allows them."""

from typing import TypeVar

from runner.contract import events
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import Event
from runner.contract.ids import Digest
from runner.contract.outcomes import Settlement
from runner.contract.ports import Ledger, LedgerReader
from runner.contract.records import Draft, Record
from runner.coordinator.machine import CUES, Phase, after
from runner.coordinator.settlement import TerminalFacts

E = TypeVar("E", bound=Event)


def accepted_in(ledger: LedgerReader) -> tuple[events.DeliveryAccepted, Record] | None:
    """The acceptance and its record, if there is one."""
    record = ledger.last(frozenset({events.DeliveryAccepted.KIND}))
    if record is None:
        return None
    if not isinstance(record.event, events.DeliveryAccepted) or record.seq != 1:
        raise IntegrityError(Code.LEDGER_ORDER, f"delivery.accepted stands at {record.seq}", remedy="restore a backup")
    return record.event, record


def cancel_in(ledger: LedgerReader) -> events.CancelRequested | None:
    """The first cancel that was recorded: it is the one that counts."""
    record = next(ledger.read(kinds=frozenset({events.CancelRequested.KIND})), None)
    return record.event if record and isinstance(record.event, events.CancelRequested) else None


def settled_in(ledger: LedgerReader) -> Settlement | None:
    """The settlement, once there is one."""
    found = _event(ledger, events.DeliverySettled)
    return found.settlement if found else None


def terminal_facts(ledger: LedgerReader) -> TerminalFacts:
    """Everything recorded about the end. A handful of index lookups."""
    authorized = _event(ledger, events.RetirementAuthorized)
    known = _event(ledger, events.PublicationKnown)
    retired = [r.event for r in ledger.read(kinds=frozenset({events.OwnerRetired.KIND}))]
    return TerminalFacts(
        proposed=_event(ledger, events.TerminalProposed),
        preserved=_event(ledger, events.ResultPreserved),
        publication=known.publication if known else None,
        authorization=Digest(authorized.authorization) if authorized else None,
        retired={e.retirement.owner: e.retirement for e in retired if isinstance(e, events.OwnerRetired)},
        settlement=settled_in(ledger),
    )


def phase_of(ledger: LedgerReader) -> Phase:
    """The phase that a driver finds."""
    asked = ledger.last(frozenset({events.InterventionNeeded.KIND}))
    if settled_in(ledger) is not None:
        return Phase.SETTLED
    if _event(ledger, events.TerminalProposed) is not None:
        return Phase.SETTLING
    if accepted_in(ledger) is None:
        return Phase.ACCEPTING
    return Phase.NEEDS_INTERVENTION if asked and asked.seq == ledger.head() else Phase.RUNNING


class Journal:
    """Records the coordinator's facts, each only in a phase that has it. Synchronous: call it in a thread."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._writer = ledger.writer("coordinator")

    def record(self, event: Event) -> Record:
        """Durably. ``IntegrityError`` (``illegal-transition``) when the Delivery is in no phase for it."""
        after(phase_of(self.ledger), CUES[event.KIND])
        return self._writer.append(Draft(event=event))[0]

    def ask_once(self, event: events.InterventionNeeded) -> None:
        """Records an intervention unless the same one was recorded before."""
        asked = self.ledger.read(kinds=frozenset({events.InterventionNeeded.KIND}))
        if all(record.event != event for record in asked):
            self.record(event)


def _event(ledger: LedgerReader, kind: type[E]) -> E | None:
    record = ledger.last(frozenset({kind.KIND}))
    return record.event if record is not None and isinstance(record.event, kind) else None
