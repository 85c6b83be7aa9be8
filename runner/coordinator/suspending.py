"""How an execute that ends with its Delivery open says why, and when the next one has nothing to do yet."""

import datetime as dt

from runner.contract.events import DeliverySuspended
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.outcomes import Suspended
from runner.contract.ports import HostSuspended, LedgerReader
from runner.contract.records import Record


def suspended_at(boundary: HostSuspended, delivery: DeliveryId, now: dt.datetime) -> Suspended:
    """The boundary as a result, with the moment from which another execute is worth it."""
    not_before = None
    if boundary.resume_in_s is not None:
        moment = now + dt.timedelta(seconds=boundary.resume_in_s)
        not_before = moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Suspended(
        delivery=delivery,
        reason=boundary.reason,
        detail=boundary.detail,
        step=boundary.step,
        not_before=not_before,
        waits=boundary.waits,
    )


def as_event(found: Suspended) -> DeliverySuspended:
    """``found`` as it is recorded; its questions stand in the ledger already."""
    step = found.step.key if found.step else None
    return DeliverySuspended(reason=found.reason, detail=found.detail, step=step, not_before=found.not_before)


def says_something_new(event: DeliverySuspended, ledger: LedgerReader) -> bool:
    """Not for the same reason again when nothing was recorded since: however often somebody looks, the ledger stays as it is."""
    newest = _newest(ledger)
    if newest is None or not isinstance(newest.event, DeliverySuspended):
        return True
    return event.model_copy(update={"not_before": None}) != newest.event.model_copy(update={"not_before": None})


def still_suspended(delivery: DeliveryId, ledger: LedgerReader, now: dt.datetime) -> Suspended | None:
    """The suspension that ends the ledger, while its time has not come. None also when the clock was set back behind it: then
    nobody knows how long it lasts."""
    newest = _newest(ledger)
    if newest is None or not isinstance(newest.event, DeliverySuspended) or newest.event.not_before is None:
        return None
    event, until = newest.event, dt.datetime.fromisoformat(newest.event.not_before)
    if not dt.datetime.fromisoformat(newest.at) <= now < until:
        return None
    step = StepRef.parse(event.step) if event.step else None
    return Suspended(
        delivery=delivery, reason=event.reason, detail=event.detail, step=step, not_before=event.not_before
    )


def _newest(ledger: LedgerReader) -> Record | None:
    """The suspension, if nothing was recorded after it."""
    record = ledger.last(frozenset({DeliverySuspended.KIND}))
    return record if record is not None and record.seq == ledger.head() else None
