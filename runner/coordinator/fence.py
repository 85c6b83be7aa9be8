"""One live driver per Delivery: a kernel ``flock`` that ends with its holder, and a file that tells people who it is.

``flock``, not ``lockf``: a record lock is lost when anything in the process closes the file. The handle is close-on-exec, so
no child keeps it. A second driver in this process opens the file anew and is refused like one in another process. A live
holder, stopped or not, is never overtaken; the owner file is for messages and decides nothing.
"""

import fcntl
import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runner.contract.ids import DeliveryId
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Busy
from runner.contract.ports import Clock
from runner.contract.text import excerpt
from runner.coordinator.processes import Process, boot_id, look
from runner.ledger.codec import timestamp
from runner.ledger.files import make_private, read_small, sweep, write_new, written_at

OWNER_BYTES_MAX: Final = 10_000
"""Its texts are 200 characters each at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a fence. ``boot`` and ``started`` tell a process from a later one with the same id."""

    host: str
    boot: str
    pid: int
    started: str
    since: str


class Fence:
    """A held fence. ``release`` it, or die."""

    def __init__(self, handle: int, layout: DeliveryLayout) -> None:
        self._handle = handle
        self._layout = layout

    def release(self) -> None:
        """Lets the next driver in. Idempotent."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with suppress(OSError):  # For messages only; a left-over file names a process that does not hold the fence.
                self._layout.owner.unlink()
            os.close(handle)


def acquire(layout: DeliveryLayout, clock: Clock) -> Fence | Busy:
    """The fence of the Delivery, or who holds it; never waits. Makes the Delivery's directory when there is none."""
    make_private(layout.root)
    with written_at(layout.fence):
        handle = _locked(layout.fence)
    if handle is None:
        holder = read_holder(layout)
        return Busy(
            delivery=DeliveryId(layout.root.name),
            host=holder.host if holder else "unknown",
            pid=holder.pid if holder else 0,
            since=holder.since if holder else "unknown",
        )
    fence = Fence(handle, layout)
    try:
        with written_at(layout.owner):
            sweep(layout.root)
            _write_holder(layout.owner, timestamp(clock.now()))
    except BaseException:
        fence.release()
        raise
    return fence


def read_holder(layout: DeliveryLayout) -> Holder | None:
    """What the owner file says, or None if there is none that can be understood."""
    try:
        raw = json.loads(read_small(layout.owner, OWNER_BYTES_MAX))
        texts = {key: excerpt(str(raw[key]), 200) for key in ("host", "boot", "started", "since")}
        return Holder(pid=int(raw["pid"]), **texts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def live_driver(layout: DeliveryLayout) -> str | None:
    """``host:pid`` if the owner file names a process that lives on this machine since then. Takes no lock, so that looking
    can never make a driver find the Delivery busy."""
    holder = read_holder(layout)
    if holder is None or (process_of(holder) is None and not _seems_to_live(holder)):
        return None
    return f"{holder.host}:{holder.pid}"


def is_free(layout: DeliveryLayout) -> bool:
    """Whether nobody drives the Delivery; takes and frees its fence. Not for looking: a driver that starts at this very
    moment would find it busy."""
    if not layout.fence.exists():
        return True
    with written_at(layout.fence):
        handle = _locked(layout.fence)
    if handle is None:
        return False
    os.close(handle)
    return True


def _locked(path: Path) -> int | None:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        # A lock on a file that was replaced meanwhile keeps nobody out.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def _write_holder(path: Path, since: str) -> None:
    ours = look(os.getpid())
    holder = Holder(
        host=socket.gethostname(),
        boot=boot_id(),
        pid=os.getpid(),
        started=ours.started if ours else "",
        since=since,
    )
    write_new(path.parent, json.dumps(asdict(holder)).encode()).replace(path)


def process_of(holder: Holder) -> Process | None:
    """The process that holds the fence, if it is the very one that the owner file names and lives on this machine."""
    if holder.host != socket.gethostname() or holder.boot != boot_id():
        return None
    found = look(holder.pid)
    return found if found is not None and found.started == holder.started else None


def _seems_to_live(holder: Holder) -> bool:
    """Where the machine does not tell when a process started: whether there is one of that number. For messages only."""
    if holder.started or holder.host != socket.gethostname() or holder.pid <= 0:
        return False
    try:
        os.kill(holder.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
