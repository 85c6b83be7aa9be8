"""Runs one Delivery in the foreground: live view, and what Ctrl-C means.

The first SIGINT, SIGTERM or SIGHUP asks for a stop at the next step boundary; the second cancels the task, which ends what
runs and leaves the Delivery open. Only ``runner cancel`` cancels a Delivery. While a person is asked something, SIGINT means:
not now.
"""

import asyncio
import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from runner.admission.history import diff
from runner.cli.live import LiveView
from runner.cli.person import Person
from runner.contract.events import SavepointTaken
from runner.contract.ids import DeliveryId
from runner.contract.layout import delivery_layout
from runner.contract.outcomes import ExecuteResult, Interrupted

if TYPE_CHECKING:
    from runner.factory import RunnerFactory
    from runner.records import Records

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """How it ended, and what the view saw on the way."""

    result: ExecuteResult
    changed: tuple[str, ...]
    spent: str


def drive(
    factory: "RunnerFactory",
    document: bytes,
    delivery: DeliveryId,
    *,
    isolation: str,
    ask: bool = False,
    early: bool = False,
) -> Driven:
    """``execute`` to its result. Raises what ``execute`` raises; a stop is a result. With ``ask``, the person at the terminal
    is asked for what it waits for; with ``early``, it is tried also before the time that its suspension names."""
    with LiveView(isolation) as view:
        person = Person(view, partial(changed_so_far, factory.open_records())) if ask else None
        result = asyncio.run(_execute(factory, document, delivery, view, person, early=early))
    return Driven(result=result, changed=tuple(sorted(view.changed)), spent=str(view.view.total))


def changed_so_far(records: "Records", delivery: DeliveryId) -> str:
    """The difference between a Delivery's baseline and its newest savepoint, from its own store."""
    taken = [r.event for r in records.events(delivery) if isinstance(r.event, SavepointTaken)]
    kept = [event for event in taken if event.role in ("baseline", "step")]
    return diff(delivery_layout(records.state_root, delivery).store, kept[0].tree, kept[-1].tree) if kept else ""


async def _execute(
    factory: "RunnerFactory",
    document: bytes,
    delivery: DeliveryId,
    view: LiveView,
    person: Person | None,
    *,
    early: bool,
) -> ExecuteResult:
    from runner.factory import Dependencies

    stop = asyncio.Event()
    async with factory.open(Dependencies(observer=view, stop=stop, waits=person, interactions=person)) as runner:
        task = asyncio.create_task(runner.execute(document, early=early))

        def on_signal(number: signal.Signals) -> None:
            if number is signal.SIGINT and person is not None and person.leave():
                return
            if not stop.is_set():
                stop.set()
                view.note("stopping at the next step boundary; once more to stop now", "yellow")
            else:
                task.cancel()
                view.note("stopping now", "yellow")

        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal, number)
        try:
            return await task
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
            return Interrupted(
                delivery=delivery, detail="stopped now; the running step starts again from its savepoint"
            )
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
