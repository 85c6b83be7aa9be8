"""What a dead driver's commands left running: given time to end, then ended, and only if it is the very same process.

The supervisor of a command ends it by itself, within milliseconds of its driver's death. Until then the command may still
write into the worktree although the fence is free already; so nothing is restored and nothing is driven before this is over.
"""

import signal
from collections.abc import Iterable
from typing import Final

from runner.contract.events import ProcessStarted
from runner.coordinator import processes
from runner.coordinator.processes import Process

WAIT_S: Final = 3.0
"""How long a child may outlive its driver (durability.md)."""


def end_left_over(recorded: Iterable[ProcessStarted]) -> tuple[Process, ...]:
    """Returns once none of the ``recorded`` children lives, or KILL did not end it within ``WAIT_S``. Those it killed."""
    known = tuple(recorded)
    left = tuple(found for process in known if (found := identified(process)) is not None)
    # A guard goes last: after daemons that left the child's group, too. It is only waited for.
    guards = tuple(found for process in known if (found := _same(process.guard, process.guard_start_time)) is not None)
    if processes.gone((*left, *guards), WAIT_S):
        return ()
    killed = tuple(process for process in left if processes.send(process, signal.SIGKILL, group=True))
    processes.gone((*left, *guards), WAIT_S)
    return killed


def identified(recorded: ProcessStarted) -> Process | None:
    """The child as it lives now, if process id, boot, start time and group are all those that were recorded."""
    now = _same(recorded.pid, recorded.start_time)
    return now if now is not None and now.group == recorded.group else None


def _same(pid: int, start_time: str) -> Process | None:
    """The process ``pid`` if it is the one that began then."""
    boot, _, ticks = start_time.partition(":")
    now = processes.look(pid)
    return now if now is not None and boot and (boot, ticks) == (processes.boot_id(), now.started) else None
