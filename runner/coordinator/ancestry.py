"""Does what a Delivery took over still hold? Against its own copies, and against the source where that is still there."""

from collections.abc import Callable
from pathlib import Path

from runner.contract.activation import Origin
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Code, IntegrityError, RunnerError
from runner.contract.events import STEP_ENDS, DeliveryForked, InterventionResolved, ValueRef
from runner.contract.ids import DeliveryId
from runner.contract.records import Record
from runner.coordinator.origin import read_source
from runner.coordinator.selection import ALLOWED, rekeyed, select, strange_keys

ValueOf = Callable[[ValueRef], FrozenJson]


def origin_holds(
    origin: Origin, delivery: DeliveryId, records: tuple[Record, ...], value_of: ValueOf, state_root: Path
) -> str:
    """What was looked at, for ``verify``; ``IntegrityError`` when it does not hold. A source that is gone is told and is no
    fault of this record."""
    forked = records[1].event if len(records) > 1 else None
    if not isinstance(forked, DeliveryForked) or forked.origin != origin:
        raise _broken("record 2 does not say that it was started from the origin that the activation names")
    taken = records[2 : 2 + forked.records]
    if len(taken) != forked.records or not all(_is_allowed(record) for record in taken):
        raise _broken(f"what stands behind record 2 are not {forked.records} records that can be taken over")
    strange = strange_keys(taken, delivery, value_of)
    if strange:
        raise _broken(f"effect keys of another Delivery: {', '.join(strange[:5])}")
    steps = sum(record.event.KIND in STEP_ENDS for record in taken)
    told = f"{forked.records} records with {steps} ended steps taken over from {origin.delivery} at {origin.position}"
    return f"{told}; {_compared(origin, delivery, taken, value_of, state_root)}"


def _is_allowed(record: Record) -> bool:
    event = record.event
    return event.KIND in ALLOWED or (isinstance(event, InterventionResolved) and event.call == "")


def _compared(
    origin: Origin, delivery: DeliveryId, taken: tuple[Record, ...], value_of: ValueOf, state_root: Path
) -> str:
    try:
        source = read_source(state_root, origin.delivery)
    except RunnerError:
        return "the source cannot be read any more, its copies hold"
    kept = rekeyed(select(source.records, origin).records, delivery, value_of)
    if [(r.event, r.step, r.attempt) for r in kept] != [(r.event, r.step, r.attempt) for r in taken]:
        raise _broken(f"they are not what {origin.delivery} has there")
    return "they are what the source has there"


def _broken(problem: str) -> IntegrityError:
    return IntegrityError(Code.LEDGER_ORDER, f"origin: {problem}")
