"""Processes of this machine by an identity that no later process can have: number, boot and start time.

A signal goes only to the very process that was meant: it is held open (``pidfd``) first, identified second, signalled third.
Where the machine has no ``/proc`` nothing is ever identified, and so nothing is signalled.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEAD: Final = frozenset("ZX")
"""States in ``/proc/PID/stat`` of what has ended and was not reaped yet: it holds no lock and runs nothing."""
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """``started`` are the clock ticks from boot to its start."""

    pid: int
    started: str
    group: int
    parent: int


def boot_id() -> str:
    """Empty where the machine does not tell."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return ""


def look(pid: int) -> Process | None:
    """The process that lives under ``pid`` now; None for none, or where the machine does not tell."""
    if pid <= 0:
        return None
    with suppress(OSError, IndexError, ValueError):
        # The second field is the program's name in parentheses and may hold anything, spaces and parentheses included.
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
        state, parent, group, *rest = text.rpartition(")")[2].split()
        if state not in DEAD:
            return Process(pid=pid, started=rest[16], group=int(group), parent=int(parent))
    return None


def lives(process: Process) -> bool:
    """Whether the very ``process`` still lives."""
    now = look(process.pid)
    return now is not None and now.started == process.started


def gone(wanted: Iterable[Process], seconds: float) -> bool:
    """Whether all of ``wanted`` end within ``seconds`` of the machine's time, which is the time that processes live in."""
    until = time.monotonic() + seconds
    left = [process for process in wanted if lives(process)]
    while left and time.monotonic() < until:
        time.sleep(POLL_S)
        left = [process for process in left if lives(process)]
    return not left


def send(process: Process, number: signal.Signals, *, group: bool = False) -> bool:
    """Signals the very ``process``, or with ``group`` the group it is still in; False if there is nothing to signal. Never
    this process, nor its group."""
    if process.pid == os.getpid() or (group and process.group in (0, 1, os.getpgrp())):
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = look(process.pid)
        if now is None or now.started != process.started:
            return False
        # PermissionError: it has become somebody else's, by set-uid. ProcessLookupError: it ended this moment.
        with suppress(ProcessLookupError, PermissionError):
            if group and now.group == process.group:
                os.killpg(process.group, number)
            else:
                signal.pidfd_send_signal(handle, number)
            return True
        return False
    finally:
        os.close(handle)


def descendants(pid: int) -> tuple[Process, ...]:
    """Every living process below ``pid``, found by walking up from each process there is; parents before children."""
    by_parent: dict[int, list[Process]] = {}
    for process in _all():
        by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    level = [pid]
    while level:
        below = [child for parent in level for child in by_parent.pop(parent, ())]
        found += below
        level = [child.pid for child in below]
    return tuple(found)


def _all() -> Iterable[Process]:
    with suppress(OSError):
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and (process := look(int(entry.name))) is not None:
                yield process
