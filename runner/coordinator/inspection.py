"""What is known of a Delivery, read beside a driver that may be running. Costs its steps, not its history; changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner.contract import events
from runner.contract.canonical import FrozenJson, canonical
from runner.contract.errors import CallerError, IntegrityError
from runner.contract.ids import DeliveryId, StepRef, delivery_id
from runner.contract.kept import Tombstone
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import DeliveryState, Settlement, StepState, Suspension
from runner.contract.records import Record
from runner.coordinator import tombstone
from runner.coordinator.fence import live_driver
from runner.coordinator.journal import accepted_in, essentials, settled_in
from runner.coordinator.machine import CUES, Cue, Phase, after
from runner.coordinator.recovery import Found, describe, uncertain
from runner.ledger import FileArtifacts, has_ledger, open_reader
from runner.ledger.files import written_at
from runner.ledger.inbox import unknown_delivery
from runner.ledger.steps import shown_after


def list_deliveries(state_root: Path) -> tuple[DeliveryId, ...]:
    """Every Delivery under ``state_root``, by id. Opens no databases; other names in the directory are not Deliveries."""
    place = state_root / "deliveries"
    with written_at(place):
        try:
            names = sorted(path.name for path in place.iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return ()
    return tuple(found for name in names if (found := _as_id(name)) is not None)


def inspect_delivery(state_root: Path, delivery: str, isolation: str = "none") -> DeliveryState:
    """The state of ``delivery``. ``CallerError``: ``delivery-id-invalid``, ``delivery-unknown``. ``IntegrityError`` when
    its ledger does not hold. ``isolation`` is what is said of a Delivery that has recorded nothing yet."""
    name = delivery_id(delivery)
    layout = delivery_layout(state_root, name)
    stone = tombstone.read(layout)
    if stone is not None:
        return _collected(stone)
    recorded = has_ledger(layout)
    if not recorded and not layout.root.is_dir():
        raise unknown_delivery(layout)
    driver = live_driver(layout)
    if not recorded:
        return fold((), name, driver, isolation)
    with open_reader(layout) as reader:
        return fold(essentials(reader), name, driver, isolation, reader.steps())


def _collected(stone: Tombstone) -> DeliveryState:
    """What is still known."""
    return DeliveryState(
        delivery=stone.settlement.delivery,
        phase="collected",
        outcome=stone.settlement.outcome,
        reason=stone.settlement.reason,
        detail=f"collected at {stone.collected_at}: only its settlement is kept",
        isolation=stone.isolation,
        accepted_at=stone.accepted_at,
        last_at=stone.settled_at,
        records=stone.records,
        steps=(),
        settlement=stone.settlement,
    )


def open_deliveries(state_root: Path) -> tuple[DeliveryId, ...]:
    """Accepted, without a settlement, and driven by nobody: what may be executed. Reads the ends of the ledgers. One that
    cannot be read is listed too: whoever executes it hears why."""
    return tuple(name for name in list_deliveries(state_root) if _is_open(delivery_layout(state_root, name)))


def _is_open(layout: DeliveryLayout) -> bool:
    try:
        if not has_ledger(layout) or live_driver(layout) is not None:
            return False
        with open_reader(layout) as reader:
            return accepted_in(reader) is not None and settled_in(reader) is None
    except IntegrityError:
        return True


def accepted_activation(state_root: Path, delivery: str) -> bytes | None:
    """The activation that ``delivery`` was accepted with, in its canonical form; None before it was. Errors as
    ``inspect_delivery``."""
    layout = delivery_layout(state_root, delivery_id(delivery))
    if not has_ledger(layout):
        return None
    with open_reader(layout) as reader:
        found = accepted_in(reader)
    return None if found is None else canonical(FileArtifacts(layout.artifacts).get(found[0].document))


def decided_output(state_root: Path, delivery: str) -> FrozenJson:
    """The workflow's output value, checked against its digest; None until the end is decided, and where there is none. Errors
    as ``inspect_delivery``; ``IntegrityError`` (``artifact-corrupt``) when the value was lost or altered."""
    layout = delivery_layout(state_root, delivery_id(delivery))
    if not has_ledger(layout):
        if layout.root.is_dir():
            return None
        raise unknown_delivery(layout)
    with open_reader(layout) as reader:
        found = reader.last(frozenset({events.TerminalProposed.KIND}))
    proposed = found.event if found is not None else None
    if not isinstance(proposed, events.TerminalProposed) or proposed.output is None:
        return None
    return FileArtifacts(layout.artifacts).get(proposed.output)


def fold(
    records: Iterable[Record],
    delivery: DeliveryId,
    driver: str | None,
    isolation: str,
    steps: tuple[StepState, ...] | None = None,
) -> DeliveryState:
    """The state after ``records``: all of them in order, or only the essential ones when ``steps`` are known. Pure."""
    seen = _Seen()
    shown: dict[StepRef, StepState] = {}
    for record in records:
        seen.add(record)
        if steps is None and record.step is not None:
            shown[record.step] = shown_after(shown.get(record.step), record)
    left = seen.found.remaining
    if driver is not None and seen.phase is Phase.SUSPENDED:
        seen.move(Cue.TAKEN_UP)
    if driver is None:
        seen.move(Cue.LEFT)
        if seen.phase is Phase.SUSPENDED and left.asked:
            # Its driver died before it could say so; the next one will.
            seen.move(Cue.ASKED)
    # While a driver works, what was begun is in flight.
    effects = uncertain(left.asked) if seen.phase is Phase.NEEDS_INTERVENTION else ()
    proposed = seen.proposed
    return DeliveryState(
        delivery=delivery,
        phase=seen.phase,
        outcome=proposed.outcome if proposed else None,
        reason=proposed.reason if proposed else None,
        detail=seen.detail or describe(effects),
        suspended=seen.suspended if seen.phase is Phase.SUSPENDED else None,
        isolation=seen.isolation or isolation,
        driver=driver,
        accepted_at=seen.accepted_at,
        last_at=seen.last_at,
        records=seen.head,
        steps=tuple(shown.values()) if steps is None else steps,
        waits=() if left.closing else tuple(waiting.wait for waiting in left.waits),
        uncertain=effects,
        settlement=seen.settlement,
        origin=seen.origin,
    )


@dataclass(slots=True)
class _Seen:
    """What the records so far say."""

    phase: Phase = Phase.ACCEPTING
    head: int = 0
    generation: int = 0
    accepted_at: str = ""
    last_at: str = ""
    isolation: str = ""
    detail: str = ""
    origin: str = ""
    proposed: events.TerminalProposed | None = None
    suspended: Suspension | None = None
    """While nothing else was recorded since."""
    settlement: Settlement | None = None
    found: Found = field(default_factory=Found)

    def move(self, cue: Cue) -> None:
        self.phase = after(self.phase, cue)

    def add(self, record: Record) -> None:
        if self.generation and record.generation != self.generation:
            self.move(Cue.LEFT)
            self.move(Cue.TAKEN_UP)
        self.generation, self.head, self.last_at = record.generation, record.seq, record.at
        self.found.add(record)
        self.suspended = None
        before = self.phase
        self.move(CUES[record.event.KIND])
        if before is Phase.NEEDS_INTERVENTION and self.phase is Phase.RUNNING:
            self.detail = ""
        match record.event:
            case events.DeliveryAccepted(meaning_text=meaning):
                self.accepted_at = record.at
                self.isolation = str(meaning.get("isolation", "")) if isinstance(meaning, Mapping) else ""
            case events.DeliveryForked(origin=origin, records=count):
                place = f"record {origin.position}, savepoint {origin.savepoint}"
                self.origin = f"{origin.delivery} at {place}; {count} records taken over"
            case events.CancelRequested(who=who, cause=cause):
                self.detail = f"cancel asked for by {who}" if cause == "request" else "the Delivery's time is over"
            case events.InterventionNeeded(reason=reason, detail=detail):
                self.detail = f"{reason}: {detail}"
            case events.DeliverySuspended(reason=reason, detail=detail, step=step, not_before=not_before):
                self.suspended = Suspension(reason=reason, detail=detail, step=step, not_before=not_before)
            case events.TerminalProposed() as proposed:
                self.proposed, self.detail = proposed, proposed.detail
            case events.DeliverySettled(settlement=settlement):
                self.settlement = settlement
            case _:
                pass


def _as_id(name: str) -> DeliveryId | None:
    try:
        return delivery_id(name)
    except CallerError:
        return None
