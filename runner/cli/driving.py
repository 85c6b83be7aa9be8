"""Runs one Delivery in the foreground: live view, and what Ctrl-C means.

The first SIGINT, SIGTERM or SIGHUP asks for a stop at the next step boundary; the second cancels the task, which ends what
runs and leaves the Delivery open. Only ``runner cancel`` cancels a Delivery.
"""

import asyncio
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runner.cli.live import LiveView
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import ExecuteResult, Interrupted

if TYPE_CHECKING:
    from runner.factory import RunnerFactory

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """How it ended, and what the view saw on the way."""

    result: ExecuteResult
    changed: tuple[str, ...]
    spent: str


def drive(factory: "RunnerFactory", document: bytes, delivery: DeliveryId, *, isolation: str) -> Driven:
    """``execute`` to its result. Raises what ``execute`` raises; a stop is a result."""
    with LiveView(isolation) as view:
        result = asyncio.run(_execute(factory, document, delivery, view))
    return Driven(result=result, changed=tuple(sorted(view.changed)), spent=str(view.view.total))


async def _execute(factory: "RunnerFactory", document: bytes, delivery: DeliveryId, view: LiveView) -> ExecuteResult:
    from runner.factory import Dependencies

    stop = asyncio.Event()
    async with factory.open(Dependencies(observer=view, stop=stop)) as runner:
        task = asyncio.create_task(runner.execute(document))

        def on_signal() -> None:
            if not stop.is_set():
                stop.set()
                view.note("stopping at the next step boundary; once more to stop now", "yellow")
            else:
                task.cancel()
                view.note("stopping now", "yellow")

        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal)
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
