"""The records of Deliveries: read what exists, leave what people say, keep and collect. Runs nothing and drives nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from custody import rewind
from custody.collect import Outside
from custody.compare import compare, find_savepoint, patch
from custody.export import export
from custody.verification import verify_custody
from hosts.langgraph.fitting import fitting
from runner.clock import SystemClock
from runner.contract.activation import Activation
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code
from runner.contract.events import ValueRef
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.kept import Collection, Difference, Restoration, Retention
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import (
    DeliveryState,
    Departure,
    OpenWait,
    SavepointState,
    TakenOver,
    Takeover,
    Verification,
)
from runner.contract.ports import Clock
from runner.contract.records import InboxItem, Record
from runner.coordinator.collection import Collector
from runner.coordinator.departure import Places, savepoints_in
from runner.coordinator.inspection import (
    accepted_activation,
    decided_output,
    inspect_delivery,
    list_deliveries,
    open_deliveries,
)
from runner.coordinator.journal import settled_in
from runner.coordinator.leaving import leave_answer, leave_resolution
from runner.coordinator.one_step import left_items, step_records, stored_value
from runner.coordinator.origin import past_of, told_of
from runner.coordinator.settled import accepted, alone_in_worktree, reading
from runner.coordinator.takeover import take_over
from runner.coordinator.verification import Probe, verify
from runner.interpreter.interpret import interpret
from runner.ledger.store import open_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Reads what exists, and leaves what people say for whoever drives. Runs nothing and drives nothing.

    Every method: ``CallerError`` (``delivery-id-invalid``, ``delivery-unknown``), ``IntegrityError`` when a stored fact does
    not hold.
    """

    state_root: Path
    isolation: str
    clock: Clock = field(default_factory=SystemClock)

    def deliveries(self) -> tuple[DeliveryId, ...]:
        """Every Delivery under the state root, by id. Opens no databases."""
        return list_deliveries(self.state_root)

    def open_deliveries(self) -> tuple[DeliveryId, ...]:
        """Those that were accepted, have not settled and are driven by nobody. Costs the end of each ledger."""
        return open_deliveries(self.state_root)

    def inspect(self, delivery: DeliveryId) -> DeliveryState:
        """As ``Runner.inspect``."""
        return inspect_delivery(self.state_root, delivery, self.isolation)

    def activation(self, delivery: DeliveryId) -> bytes | None:
        """What ``delivery`` was accepted with, canonical; None before it was."""
        return accepted_activation(self.state_root, delivery)

    def output(self, delivery: DeliveryId) -> FrozenJson:
        """The value of the workflow's ``output``, checked against the digest in the settlement; None before the end is
        decided, and for a Delivery without one (then the settlement's ``output`` is None too)."""
        return decided_output(self.state_root, delivery)

    def document(self, delivery: DeliveryId) -> bytes:
        """As ``activation``, for ``execute``; ``delivery-unknown`` for one that was never accepted."""
        document = accepted_activation(self.state_root, delivery)
        if document is None:
            raise CallerError(
                Code.DELIVERY_UNKNOWN, f"{delivery}: it was never accepted here", remedy="execute its activation file"
            )
        return document

    def events(self, delivery: DeliveryId, *, after: int = 0) -> Iterator[Record]:
        """The ledger in order, from the record behind ``after`` to the newest at the time of the call: to follow it, ask
        again behind the last one."""
        with open_reader(self._layout(delivery)) as reader:
            yield from reader.read(after=after)

    def step(self, delivery: DeliveryId, word: str) -> tuple[Record, ...]:
        """The records of one step, in order: of its newest visit, or of the one that ``ID@VISIT`` names. ``usage`` with the
        steps there are when it is none of them."""
        return step_records(self.state_root, delivery, word)

    def value(self, delivery: DeliveryId, ref: ValueRef) -> FrozenJson:
        """The value that a record names, checked against its digest."""
        return stored_value(self.state_root, delivery, ref)

    def left(self, delivery: DeliveryId) -> tuple[InboxItem, ...]:
        """What was said of ``delivery`` and nobody has taken yet: it counts from the next ``execute`` on."""
        return left_items(self.state_root, delivery)

    def waits(self, delivery: DeliveryId) -> tuple[OpenWait, ...]:
        """The questions that an answer would continue."""
        return self.inspect(delivery).waits

    def answer(self, delivery: DeliveryId, wait: str | None, value: FrozenJson, who: str = "") -> OpenWait:
        """Leaves an answer to ``wait``, or without one to the only wait that is open; which one that was. A bare word stands
        for the property that routes. The same answer counts once. ``wait-unknown`` for one that was answered, has expired or
        never was, and for none when not exactly one is open; ``answer-invalid`` with what does not fit its schema."""
        return leave_answer(self._layout(delivery), wait=wait, value=value, who=who, clock=self.clock)

    def resolve(
        self, delivery: DeliveryId, call: str, resolution: str, value: FrozenJson = None, who: str = ""
    ) -> None:
        """Leaves what somebody says of an uncertain effect: ``happened`` with the value it answered, ``did-not-happen``, or
        ``abandon``; with an empty ``call`` of an edited worktree: ``adopt``, ``discard`` or ``abandon``. The next ``execute``
        goes on with it. ``call-unknown`` when nothing like that is uncertain; ``answer-invalid`` when it does not fit, or
        something else was said before."""
        leave_resolution(self._layout(delivery), call=call, said=resolution, value=value, who=who, clock=self.clock)

    def savepoints(self, delivery: DeliveryId) -> tuple[SavepointState, ...]:
        """Every savepoint in the order of their records, also of a Delivery that is being driven."""
        return savepoints_in(tuple(self.events(delivery)))

    def savepoint_to_fork(self, delivery: DeliveryId, word: str) -> Departure:
        """Where a new Delivery starts from ``delivery`` at the savepoint that ``word`` names: the origin for its activation.
        ``savepoint-unknown``; ``origin-invalid`` when nothing can start there."""
        with self._places(delivery) as places:
            return places.savepoint(word)

    def failure_to_retry(self, delivery: DeliveryId) -> Departure:
        """Where a new Delivery starts to try again what made ``delivery`` end badly. ``origin-invalid`` saying what to do
        instead when it is open, completed, or did not end in a step."""
        with self._places(delivery) as places:
            return places.failure()

    def taken_over(self, activation: Activation) -> TakenOver:
        """What ``activation`` takes over from its origin, judged as ``execute`` will; the same ``CallerError``."""
        plan = interpret(activation)[1]
        return told_of(past_of(self.state_root, activation, plan, fitting), activation)

    @contextmanager
    def _places(self, delivery: DeliveryId) -> Iterator[Places]:
        with open_reader(self._layout(delivery)) as reader:
            yield Places(
                delivery=delivery,
                records=tuple(reader.read()),
                digest_at=reader.digest_at,
                settlement=settled_in(reader),
            )

    def takeover(self, delivery: DeliveryId) -> Takeover:
        """Ends whoever drives ``delivery``, and everything that was started for it; then its fence is free. May take some
        seconds. ``takeover-refused`` when the driver is not known for certain, or is not this machine's or this user's."""
        return take_over(self._layout(delivery))

    def verify(self, delivery: DeliveryId) -> Verification:
        """Looks at everything that is recorded of ``delivery`` again and says what it looked at. What does not hold is a
        check that is not ``ok``, no exception."""
        layout = self._layout(delivery)
        with reading(layout):
            return verify(layout, interpret, _probes())

    def diff(self, delivery: DeliveryId, before: str = "baseline", after: str = "newest") -> Difference:
        """What differs between two savepoints: each ``baseline``, ``newest``, a step, ``step@visit``, or the beginning of an
        id. From the private store, also beside a live driver. ``savepoint-unknown``."""
        layout = self._layout(delivery)
        with reading(layout):
            return compare(layout, tuple(self.events(delivery)), before, after)

    def patch(self, difference: Difference, *, stat: bool = False, binary: bool = False) -> bytes:
        """``difference`` as git shows it: as statistics, or as a patch, with ``binary`` one that ``git apply`` takes whole."""
        layout = self._layout(DeliveryId(difference.delivery))
        with reading(layout):
            return patch(layout, difference, stat=stat, binary=binary)

    def restore_to(self, delivery: DeliveryId, savepoint: str, directory: Path) -> Restoration:
        """Writes a savepoint, named as for ``diff``, to a new or empty directory outside of worktree, repository and state
        root. ``usage``, ``savepoint-unknown``, ``savepoint-missing``."""
        layout = self._layout(delivery)
        with reading(layout):
            commit = find_savepoint(layout, tuple(self.events(delivery)), savepoint)
            return export(accepted(layout), layout, commit, directory, state_root=self.state_root)

    def restore_in_place(self, delivery: DeliveryId, savepoint: str, *, preview: bool = False) -> Restoration:
        """Puts the worktree of a settled Delivery back to a savepoint, after keeping what is there as another; with ``preview``
        only says what would change. ``delivery-open``, ``worktree-missing``, ``worktree-leased``, ``restore-blocked``; killed
        anywhere, the same call finishes it."""
        layout = self._layout(delivery)
        with reading(layout), alone_in_worktree(self.state_root, layout, self.clock) as activation:
            records = tuple(self.events(delivery))
            commit = find_savepoint(layout, records, savepoint)
            if preview:
                return rewind.preview(activation, layout, commit)
            return rewind.rewind(activation, layout, commit, find_savepoint(layout, records, "newest"))

    def collect(
        self, policy: Retention, named: Sequence[DeliveryId] = (), *, dry_run: bool = False
    ) -> tuple[Collection, ...]:
        """Removes whole, settled Deliveries by ``policy``, or those that are ``named``, and leaves their settlements: what
        became of each. Killed anywhere, the next call goes on. ``delivery-unknown`` for a name."""
        collector = Collector(state_root=self.state_root, outside=Outside(), clock=self.clock)
        return collector.collect(policy, named, dry_run=dry_run)

    def _layout(self, delivery: DeliveryId) -> DeliveryLayout:
        return delivery_layout(self.state_root, delivery_id(delivery))


def _probes() -> tuple[Probe, ...]:
    from hosts.langgraph.verification import verify_checkpoint  # noqa: PLC0415 - importing LangGraph takes 0.7 s

    return (verify_checkpoint, verify_custody)
