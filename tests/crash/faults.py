"""What happens at a boundary: nothing, the end of the process, or one operation that fails."""

import errno
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

FaultName = Literal["kill", "kill-soon", "torn", "full", "io", "error", "ask", "ask-kill"]

TORN_BYTES: Final = (1, 60, 3000)
"""How much of a write still reaches the file, in turn."""

SOON_S: Final = (0.0005, 0.002, 0.006)
"""How long after the boundary the delayed kill comes, in turn: inside git, or between two of our own writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``kill``: SIGKILL. ``kill-soon``: SIGKILL from outside a moment later. ``full``: the disk is full; for a COMMIT no file
    may grow any more. ``torn``: the next writes, ours or git's, end in the middle, and their process with them. ``io``: an
    I/O error. ``error``: an exception that nobody expects. ``ask``: somebody outside acts; ``ask-kill``: and then SIGKILL."""

    name: FaultName
    at: int
    """The number of the boundary, from 1; of those of ``kind`` when that is given."""
    kind: str | None = None


class Surprise(Exception):
    """An exception that no code knows."""


@dataclass(slots=True)
class Plan:
    """Counts the boundaries of one run and does what its fault says. ``tell`` reports across the process's own death."""

    fault: Fault | None
    tell: Callable[[dict[str, Any]], None]
    ask: Callable[[], None]
    written: Callable[[str], int]
    """How many bytes the file that is written at a boundary of that kind has already."""
    commits: bool = True
    """Whether COMMITs are counted (a boundary at which no other process can write the same database), or appends."""
    reached: list[str] = field(default_factory=list)
    _struck: bool = False

    def strike(self, kind: str, catchable: bool) -> None:
        if kind.startswith("commit" if not self.commits else "append"):
            return
        self.reached.append(kind)
        fault = self.fault
        if fault is None or self._struck or (fault.kind is not None and fault.kind != kind):
            return
        number = len(self.reached) if fault.kind is None else self.reached.count(kind)
        if number == fault.at:
            self._struck = True
            self.tell({"struck": kind})
            self._do(fault, catchable)

    def _do(self, fault: Fault, catchable: bool) -> None:
        match fault.name:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill-soon":
                kill_after(SOON_S[fault.at % len(SOON_S)])
            case "torn":
                limit = self.written(fault.kind or "") + TORN_BYTES[fault.at % len(TORN_BYTES)]
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            case "ask":
                self.ask()
            case "ask-kill":
                self.ask()
                os.kill(os.getpid(), signal.SIGKILL)
            case "full" if not catchable:
                # SQLite's own writes: nothing may grow beyond the smallest file there is.
                resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            case "full" if catchable:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "io" if catchable:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            case "error" if catchable:
                raise Surprise("nobody expects this")


def kill_after(seconds: float) -> None:
    """SIGKILL to this process from a child, a moment from now. The child is the harness's, not the driver's."""
    victim = os.getpid()
    if os.fork() == 0:
        signal.sigtimedwait([], seconds)
        os.kill(victim, signal.SIGKILL)
        os._exit(0)


def writes_end_processes() -> None:
    """Whoever writes beyond the limit of ``torn`` ends at once, without a core. Before there are threads."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
