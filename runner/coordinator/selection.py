"""What a Delivery takes over from the one it starts from: which records, and as what. Pure.

Taken over is what had ended: every record of a step that has its end at the position, and the savepoints between steps. Of a
step that was open there nothing is, so that it starts anew; unless the savepoint lies in its middle: then its records up to the
tool result that was recorded with the savepoint are taken over, and the step goes on behind that.

Never taken over: cancels, interventions and whatever belongs to an end, processes of a step that goes on (they are the
source's), and what people said of effects, which the result behind it says as well.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from runner.contract import events
from runner.contract.activation import Origin
from runner.contract.canonical import FrozenJson, canonical
from runner.contract.effects import effect_key
from runner.contract.events import STEP_ENDS, SavepointTaken, ToolCalled, ValueRef
from runner.contract.ids import DeliveryId, Digest, ObjectId, StepRef
from runner.contract.records import Record

ALLOWED: Final = frozenset(
    kind
    for kind, event in events.VOCABULARY.items()
    if event.OWNER != ("coordinator",) and not kind.startswith(("result.", "publication.", "owner."))
)
"""Kinds that may be taken over. What was said of an edited worktree is, too, for the savepoint that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is taken over, in order."""

    records: tuple[Record, ...]
    inside: StepRef | None
    """The step that goes on."""
    again: tuple[StepRef, ...]
    """Steps that were open and start anew."""

    @property
    def kept(self) -> tuple[StepRef, ...]:
        """Steps that have their end, in the order of their ends."""
        ends = (record.step for record in self.records if record.event.KIND in STEP_ENDS)
        return tuple(step for step in ends if step is not None)

    @property
    def savepoints(self) -> tuple[ObjectId, ...]:
        """Every savepoint that is named, once each."""
        taken = (record.event for record in self.records)
        return tuple(dict.fromkeys(ObjectId(e.savepoint) for e in taken if isinstance(e, SavepointTaken)))

    @property
    def boundary(self) -> ObjectId | None:
        """The savepoint that the next step would begin at."""
        found: str | None = None
        foreign: str | None = None
        for record in self.records:
            match record.event:
                case SavepointTaken(role="baseline" | "step", savepoint=savepoint):
                    found = savepoint
                case SavepointTaken(role="foreign", savepoint=savepoint):
                    foreign = savepoint
                case events.InterventionResolved(resolution="adopt"):
                    found = foreign or found
                case _:
                    pass
        return ObjectId(found) if found is not None else None


def select(records: Iterable[Record], origin: Origin) -> Selection:
    """What ``origin`` takes over of ``records``, which are its source's from the first on."""
    upto = [record for record in records if record.seq <= origin.position]
    ended = {record.step for record in upto if record.event.KIND in STEP_ENDS}
    open_ = tuple(dict.fromkeys(r.step for r in upto if r.step is not None and r.step not in ended))
    inside, last = _middle(upto, origin.savepoint, open_)
    kept = [record for record in upto if _is_kept(record, ended, inside, last)]
    return Selection(records=tuple(kept), inside=inside, again=tuple(step for step in open_ if step != inside))


def _middle(upto: list[Record], savepoint: str, open_: tuple[StepRef, ...]) -> tuple[StepRef | None, int]:
    """The open step in whose middle ``savepoint`` lies, and the sequence of the result recorded with it."""
    for record in reversed(upto):
        event, step = record.event, record.step
        if (
            isinstance(event, SavepointTaken)
            and event.role == "mid-step"
            and event.savepoint == savepoint
            and step in open_
        ):
            result = result_behind(upto, record)
            return (step, result.seq) if result is not None else (None, 0)
    return None, 0


def result_behind(records: Iterable[Record], mark: Record) -> Record | None:
    """The tool result that was recorded with the mid-step savepoint ``mark``."""
    results = (events.ToolSucceeded, events.ToolFailed)
    behind = (r for r in records if r.seq > mark.seq and r.step == mark.step and isinstance(r.event, results))
    return next(behind, None)


def _is_kept(record: Record, ended: set[StepRef | None], inside: StepRef | None, last: int) -> bool:
    event = record.event
    if record.step is None:
        about_files = isinstance(event, events.InterventionResolved) and event.resolution in ("adopt", "discard")
        return isinstance(event, SavepointTaken) or about_files
    if event.KIND not in ALLOWED:
        return False
    if record.step in ended:
        return True
    return record.step == inside and record.seq <= last and not isinstance(event, events.ProcessStarted)


# --- effect keys -----------------------------------------------------------------------------------------------------


def rekeyed(
    records: Iterable[Record], delivery: DeliveryId, value_of: Callable[[ValueRef], FrozenJson]
) -> tuple[Record, ...]:
    """``records`` with the effect keys of ``delivery``."""
    keys = _Keys(value_of)
    return tuple(
        replace(record, event=record.event.model_copy(update={"key": keys.next(record, delivery)}))
        if isinstance(record.event, ToolCalled)
        else record
        for record in records
    )


def strange_keys(
    records: Iterable[Record], delivery: DeliveryId, value_of: Callable[[ValueRef], FrozenJson]
) -> tuple[str, ...]:
    """The calls among ``records`` whose effect key is not the one of ``delivery``."""
    keys = _Keys(value_of)
    called = [(record.event, keys.next(record, delivery)) for record in records if isinstance(record.event, ToolCalled)]
    return tuple(event.call for event, key in called if event.key != key)


class _Keys:
    """Effect keys in the order of calls; equal calls of one attempt are counted, a call made again is the same one."""

    def __init__(self, value_of: Callable[[ValueRef], FrozenJson]) -> None:
        self._value_of = value_of
        self._occurrences: Counter[tuple[StepRef, int | None, str, bytes]] = Counter()
        self._known: dict[tuple[StepRef, str], int] = {}

    def next(self, record: Record, delivery: DeliveryId) -> Digest:
        called, step = record.event, record.step
        assert isinstance(called, ToolCalled) and step is not None  # noqa: S101 - a call is of a step
        value = self._value_of(called.input)
        if (step, called.call) not in self._known:
            equal = (step, record.attempt, called.tool, canonical(value))
            self._known[step, called.call] = self._occurrences[equal]
            self._occurrences[equal] += 1
        return effect_key(delivery, step, called.tool, value, self._known[step, called.call])
