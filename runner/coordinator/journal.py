"""The coordinator's own facts: read by kind, written only where the phase table allows them."""

from collections.abc import Iterable
from typing import Final, TypeVar

from runner.contract import events
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import Event
from runner.contract.ids import Digest, StepRef
from runner.contract.outcomes import Settlement
from runner.contract.ports import Ledger, LedgerReader
from runner.contract.records import Draft, InboxItem, Record
from runner.coordinator.machine import CUES, Cue, Phase, after
from runner.coordinator.recovery import Remaining, remaining
from runner.coordinator.settlement import TerminalFacts
from runner.coordinator.suspending import says_something_new
from runner.coordinator.wishes import CANCEL

E = TypeVar("E", bound=Event)

WHOLE: Final = frozenset(
    kind.KIND
    for kind in (
        events.DeliveryAccepted,
        events.DeliveryForked,
        events.CancelRequested,
        events.InterventionNeeded,
        events.InterventionResolved,
        events.TerminalProposed,
        events.ResultPreserved,
        events.PublicationAsked,
        events.PublicationKnown,
        events.RetirementAuthorized,
        events.OwnerRetired,
        events.DeliverySettled,
    )
)
"""Facts of the Delivery as a whole; there are a handful of them."""
MOVING: Final = frozenset({Cue.WORKED, Cue.RESOLVED})
"""What ends a phase in which a person is asked."""


def accepted_in(ledger: LedgerReader) -> tuple[events.DeliveryAccepted, Record] | None:
    """The acceptance and its record, if there is one."""
    record = ledger.last(frozenset({events.DeliveryAccepted.KIND}))
    if record is None:
        return None
    if not isinstance(record.event, events.DeliveryAccepted) or record.seq != 1:
        raise IntegrityError(Code.LEDGER_ORDER, f"delivery.accepted stands at {record.seq}", remedy="restore a backup")
    return record.event, record


def remaining_in(ledger: LedgerReader) -> Remaining:
    """What is left to do. Costs what is open, not what was done."""
    return remaining(essentials(ledger))


def essentials(ledger: LedgerReader) -> tuple[Record, ...]:
    """The records that say where a Delivery is, in order: all of the open steps, the few of the Delivery as a whole, the
    newest savepoint, suspension and record; and what first moved on after a person was asked."""
    found = {record.seq: record for step in ledger.open_steps() for record in ledger.read(step=step)}
    found |= {record.seq: record for record in ledger.read(kinds=WHOLE)}
    asked = ledger.last(frozenset({events.InterventionNeeded.KIND}))
    moved = (
        (record for record in ledger.read(after=asked.seq) if CUES[record.event.KIND] in MOVING) if asked else iter(())
    )
    newest = ledger.last(frozenset({events.SavepointTaken.KIND}))
    suspended = ledger.last(frozenset({events.DeliverySuspended.KIND}))
    last = next(ledger.read(after=max(0, ledger.head() - 1)), None)
    found |= {record.seq: record for record in (next(moved, None), newest, suspended, last) if record is not None}
    return tuple(found[seq] for seq in sorted(found))


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


def only_ends(ledger: LedgerReader, inbox: tuple[InboxItem, ...]) -> bool:
    """Whether no step begins any more: it was cancelled, given up, or its terminal is decided."""
    left = remaining_in(ledger)
    return left.closing or left.wind is not None or any(item.kind == CANCEL for item in inbox)


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

    def record(self, event: Event, step: StepRef | None = None, attempt: int | None = None) -> Record:
        """Durably. ``IntegrityError`` (``illegal-transition``) when the Delivery is in no phase for it."""
        after(phase_of(self.ledger), CUES[event.KIND])
        return self._writer.append(Draft(event=event, step=step, attempt=attempt))[0]

    def stage(self, event: Event) -> None:
        """Recorded in front of what any room appends next, in the same transaction; nothing, when that fails."""
        after(phase_of(self.ledger), CUES[event.KIND])
        self._writer.stage(Draft(event=event))

    def stage_all(self, drafts: Iterable[Draft]) -> None:
        """The same for facts of any owner that are taken over from another Delivery."""
        for draft in drafts:
            self.ledger.writer(draft.event.OWNER[0]).stage(draft)

    def flush(self) -> None:
        """Makes durable what other rooms staged, and that inbox items were taken."""
        self._writer.append()

    def suspend(self, event: events.DeliverySuspended) -> None:
        """Records why the execute ends, if that is new."""
        if says_something_new(event, self.ledger):
            self.record(event)
        else:
            self.flush()

    def ask_once(self, event: events.InterventionNeeded) -> None:
        """Records an intervention unless the same one was recorded before and nobody has said anything since."""
        said = self.ledger.last(frozenset({events.InterventionResolved.KIND}))
        asked = self.ledger.read(after=said.seq if said else 0, kinds=frozenset({events.InterventionNeeded.KIND}))
        if all(record.event != event for record in asked):
            self.record(event)
        else:
            self.flush()


def _event(ledger: LedgerReader, kind: type[E]) -> E | None:
    record = ledger.last(frozenset({kind.KIND}))
    return record.event if record is not None and isinstance(record.event, kind) else None
