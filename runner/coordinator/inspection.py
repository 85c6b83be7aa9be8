"""What is known of a Delivery: one pass over its ledger, beside a driver that may be running. Changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runner.contract import events
from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import DeliveryState, Settlement, StepState
from runner.contract.records import Record
from runner.coordinator.fence import live_driver
from runner.coordinator.journal import accepted_in, settled_in
from runner.coordinator.machine import CUES, Cue, Phase, after
from runner.coordinator.recovery import Found, describe, uncertain
from runner.ledger import FileArtifacts, open_reader

State = Literal["scheduled", "running", "completed", "failed", "skipped", "superseded"]


def list_deliveries(state_root: Path) -> tuple[DeliveryId, ...]:
    """Every Delivery under ``state_root``, by id. Opens no databases; other names in the directory are not Deliveries."""
    try:
        names = sorted(path.name for path in (state_root / "deliveries").iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(found for name in names if (found := _as_id(name)) is not None)


def inspect_delivery(state_root: Path, delivery: str, isolation: str = "none") -> DeliveryState:
    """The state of ``delivery``. ``CallerError``: ``delivery-id-invalid``, ``delivery-unknown``. ``IntegrityError`` when
    its ledger does not hold. ``isolation`` is what is said of a Delivery that has recorded nothing yet."""
    name = delivery_id(delivery)
    layout = delivery_layout(state_root, name)
    if not layout.root.is_dir():
        raise CallerError(
            Code.DELIVERY_UNKNOWN,
            f"{layout.root.parent}: no Delivery {name} is recorded here",
            remedy="check the id and the state root; inspect without an id lists what there is",
        )
    driver = live_driver(layout)
    if not layout.ledger.exists():
        return fold((), name, driver, isolation)
    with open_reader(layout) as reader:
        return fold(reader.read(), name, driver, isolation)


def open_deliveries(state_root: Path) -> tuple[DeliveryId, ...]:
    """Accepted, without a settlement, and driven by nobody: what may be executed. Reads the ends of the ledgers. One that
    cannot be read is listed too: whoever executes it hears why."""
    return tuple(name for name in list_deliveries(state_root) if _is_open(delivery_layout(state_root, name)))


def _is_open(layout: DeliveryLayout) -> bool:
    if not layout.ledger.exists() or live_driver(layout) is not None:
        return False
    try:
        with open_reader(layout) as reader:
            return accepted_in(reader) is not None and settled_in(reader) is None
    except IntegrityError:
        return True


def accepted_activation(state_root: Path, delivery: str) -> bytes | None:
    """The activation that ``delivery`` was accepted with, in its canonical form; None before it was. Errors as
    ``inspect_delivery``."""
    layout = delivery_layout(state_root, delivery_id(delivery))
    if not layout.ledger.exists():
        return None
    with open_reader(layout) as reader:
        found = accepted_in(reader)
    return None if found is None else canonical(FileArtifacts(layout.artifacts).get(found[0].document))


def fold(records: Iterable[Record], delivery: DeliveryId, driver: str | None, isolation: str) -> DeliveryState:
    """The state after ``records``, all of them in order. Pure; costs one pass."""
    seen = _Seen()
    for record in records:
        seen.add(record)
    left = seen.found.remaining
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
        isolation=seen.isolation or isolation,
        driver=driver,
        accepted_at=seen.accepted_at,
        last_at=seen.last_at,
        records=seen.head,
        steps=tuple(step.state() for step in seen.steps.values()),
        waits=() if left.closing else tuple(waiting.wait for waiting in left.waits),
        uncertain=effects,
        settlement=seen.settlement,
    )


@dataclass(slots=True)
class _Step:
    """One step while its records go by."""

    key: str
    since: str
    state_name: State = "scheduled"
    attempt: int = 0
    outcome: str | None = None
    detail: str = ""
    began: str | None = None
    model_calls: int = 0
    tool_calls: int = 0
    answers: int = 0
    counted: int = 0
    priced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def state(self) -> StepState:
        return StepState(
            step=self.key,
            state=self.state_name,
            attempt=self.attempt,
            outcome=self.outcome,
            since=self.since,
            began=self.began,
            detail=self.detail,
            model_calls=self.model_calls,
            tool_calls=self.tool_calls,
            answers=self.answers,
            counted=self.counted,
            priced=self.priced,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost_usd,
        )

    def add(self, record: Record) -> None:
        match record.event:
            case events.StepAttemptStarted():
                self._move(record, "running")
                self.began = self.began or record.at
                self.attempt = record.attempt or self.attempt
            case events.StepCompleted(outcome=outcome):
                self._move(record, "completed", outcome)
            case events.StepFailed(outcome=outcome, message=message):
                self._move(record, "failed", outcome, message)
            case events.StepSkipped(reason=reason):
                self._move(record, "skipped", "skipped", reason)
            case events.StepSuperseded(reason=reason):
                self._move(record, "superseded", "superseded", reason)
            case events.ModelCalled():
                self.model_calls += 1
            case events.ModelResponded(usage=usage):
                self._spend(usage)
            case events.ToolCalled():
                self.tool_calls += 1
            case _:
                pass

    def _spend(self, usage: events.Usage) -> None:
        self.answers += 1
        if usage.input_tokens is not None or usage.output_tokens is not None:
            self.counted += 1
            self.input_tokens += usage.input_tokens or 0
            self.output_tokens += usage.output_tokens or 0
        if usage.cost_usd is not None:
            self.priced += 1
            self.cost_usd += usage.cost_usd

    def _move(self, record: Record, state: State, outcome: str | None = None, detail: str = "") -> None:
        self.state_name, self.outcome, self.detail, self.since = state, outcome, detail, record.at


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
    proposed: events.TerminalProposed | None = None
    settlement: Settlement | None = None
    steps: dict[str, _Step] = field(default_factory=dict)
    found: Found = field(default_factory=Found)

    def move(self, cue: Cue) -> None:
        self.phase = after(self.phase, cue)

    def add(self, record: Record) -> None:
        if self.generation and record.generation != self.generation:
            self.move(Cue.LEFT)
            self.move(Cue.TAKEN_UP)
        self.generation, self.head, self.last_at = record.generation, record.seq, record.at
        self.found.add(record)
        before = self.phase
        self.move(CUES[record.event.KIND])
        if before is Phase.NEEDS_INTERVENTION and self.phase is Phase.RUNNING:
            self.detail = ""
        if record.step is not None:
            self._step(record).add(record)
        match record.event:
            case events.DeliveryAccepted(meaning_text=meaning):
                self.accepted_at = record.at
                self.isolation = str(meaning.get("isolation", "")) if isinstance(meaning, Mapping) else ""
            case events.CancelRequested(who=who, cause=cause):
                self.detail = f"cancel asked for by {who}" if cause == "request" else "the Delivery's time is over"
            case events.InterventionNeeded(reason=reason, detail=detail):
                self.detail = f"{reason}: {detail}"
            case events.TerminalProposed() as proposed:
                self.proposed, self.detail = proposed, proposed.detail
            case events.DeliverySettled(settlement=settlement):
                self.settlement = settlement
            case _:
                pass

    def _step(self, record: Record) -> _Step:
        assert record.step is not None  # noqa: S101 - narrows the type; the caller has checked
        key = record.step.key
        step = self.steps.get(key)
        if step is None:
            step = self.steps[key] = _Step(key=key, since=record.at)
        return step


def _as_id(name: str) -> DeliveryId | None:
    try:
        return delivery_id(name)
    except CallerError:
        return None
