"""Ending the driver of a Delivery from outside: its verified process, then everything below it, then its recorded children.

The driver is asked first (TERM, and CONT in case it was stopped) and killed after the grace; what it started is ended by its
supervisors, and killed here if it is not. Nothing is signalled whose identity is not the one that was recorded or seen.
"""

import signal
import socket
from typing import Final

from runner.contract import limits
from runner.contract.errors import CallerError, Code
from runner.contract.events import ProcessStarted
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Takeover
from runner.coordinator import fence, processes
from runner.coordinator.children import WAIT_S, end_left_over
from runner.coordinator.journal import remaining_in
from runner.coordinator.processes import Process
from runner.ledger import has_ledger, open_reader
from runner.ledger.inbox import unknown_delivery

KILL_S: Final = 5.0
"""How long a killed process may take to disappear: uninterruptible I/O."""


def take_over(layout: DeliveryLayout, grace_s: float = limits.TERM_GRACE_S, wait_s: float = WAIT_S) -> Takeover:
    """Ends whoever drives the Delivery; when it returns, its fence is free. Nothing is taken for oneself: ``execute`` goes
    on. ``CallerError``: ``delivery-unknown``; ``takeover-refused`` when the driver is not known for certain, is on another
    machine, is this very process, or does not end. Killed midway, the same call goes on."""
    if not layout.root.is_dir():
        raise unknown_delivery(layout)
    if fence.is_free(layout):
        return Takeover(delivery=layout.root.name, ended=(), detail="nobody drives it")
    driver = _driver(layout)
    below = processes.descendants(driver.pid)
    _end(driver, grace_s)
    if not processes.gone(below, wait_s):
        for process in below:
            processes.send(process, signal.SIGKILL)
        processes.gone(below, KILL_S)
    killed = end_left_over(_recorded(layout))
    if not fence.is_free(layout):
        raise _refused(layout, "its fence is held by another process by now", "try again, or let that one go on")
    ended = dict.fromkeys(process.pid for process in (driver, *below, *killed))
    return Takeover(delivery=layout.root.name, ended=tuple(ended), detail=f"process {driver.pid} was ended")


def _driver(layout: DeliveryLayout) -> Process:
    """The very process that holds the fence."""
    holder = fence.read_holder(layout)
    if holder is None:
        raise _refused(
            layout, "it is driven, and the owner file does not say by whom", f"see who has {layout.fence} open"
        )
    if holder.host != socket.gethostname():
        raise _refused(layout, f"process {holder.pid} on {holder.host} drives it", f"take it over on {holder.host}")
    found = fence.process_of(holder)
    if found is None:
        raise _refused(
            layout,
            f"it is driven, but process {holder.pid} of the owner file is not the one that began at {holder.since}",
            f"see who has {layout.fence} open",
        )
    return found


def _end(driver: Process, grace_s: float) -> None:
    if not processes.send(driver, signal.SIGTERM):
        if processes.lives(driver):
            raise CallerError(
                Code.TAKEOVER_REFUSED,
                f"process {driver.pid} cannot be ended from here",
                remedy="nobody takes over from himself, nor from another user",
            )
        return
    processes.send(driver, signal.SIGCONT)
    if not processes.gone((driver,), grace_s):
        processes.send(driver, signal.SIGKILL)
        processes.gone((driver,), KILL_S)


def _recorded(layout: DeliveryLayout) -> tuple[ProcessStarted, ...]:
    if not has_ledger(layout):
        return ()
    with open_reader(layout) as reader:
        return remaining_in(reader).processes


def _refused(layout: DeliveryLayout, problem: str, remedy: str) -> CallerError:
    return CallerError(Code.TAKEOVER_REFUSED, f"{layout.root.name}: {problem}", remedy=remedy)
