"""One Delivery per worktree, from acceptance to settlement, suspended or not: a file per worktree that names its Delivery.

The file is called ``<device>-<inode>``, so that two paths of one directory are one worktree. A lease is stale, and taken
over, when its Delivery has settled, is gone, or was never accepted and has no driver. All changes happen under one lock
beside the leases, held for milliseconds; which Delivery has which worktree survives a power cut.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from runner.contract.errors import CallerError, Code, EnvironmentFault
from runner.contract.events import DeliveryAccepted, DeliverySettled
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.layout import delivery_layout, leases_dir
from runner.contract.text import excerpt
from runner.coordinator import fence
from runner.ledger import has_ledger, open_reader
from runner.ledger.files import make_private, read_small, sweep, sync_directory, write_atomically, written_at

LOCK: Final = ".lock"
LEASE_BYTES_MAX: Final = 1_000
"""A Delivery's id has 63 at most."""


def check(state_root: Path, delivery: DeliveryId, worktree: Path) -> None:
    """``EnvironmentFault`` if ``worktree`` is no directory or leased by another open Delivery. Changes nothing."""
    _refuse_foreign(state_root, delivery, worktree, _path(state_root, worktree))


def take(state_root: Path, delivery: DeliveryId, worktree: Path) -> None:
    """Leases ``worktree`` to ``delivery``, durably. Idempotent. ``worktree-missing``, ``worktree-leased``."""
    path = _path(state_root, worktree)
    with _locked(state_root):
        _refuse_foreign(state_root, delivery, worktree, path)
        if _holder(path) != delivery:
            write_atomically(path, delivery.encode())


def release(state_root: Path, delivery: DeliveryId) -> None:
    """Frees whatever ``delivery`` has leased; nothing, if it has not. Found by content: the worktree may be gone."""
    directory = leases_dir(state_root)
    with _locked(state_root), written_at(directory):
        held = [path for path in directory.iterdir() if path.name != LOCK and _holder(path) == delivery]
        for path in held:
            path.unlink()
        if held:
            sync_directory(directory)


@contextmanager
def _locked(state_root: Path) -> Iterator[None]:
    make_private(leases_dir(state_root))
    path = leases_dir(state_root) / LOCK
    with written_at(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with written_at(path):
            fcntl.flock(handle, fcntl.LOCK_EX)
            sweep(path.parent)
        yield
    finally:
        os.close(handle)


def _path(state_root: Path, worktree: Path) -> Path:
    try:
        found = worktree.stat()
    except OSError as error:
        raise _missing(worktree, error.strerror or "it cannot be read") from None
    if not worktree.is_dir():
        raise _missing(worktree, "it is not a directory")
    return leases_dir(state_root) / f"{found.st_dev}-{found.st_ino}"


def _missing(worktree: Path, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        Code.WORKTREE_MISSING,
        f"{worktree}: the worktree of this Delivery: {why}",
        remedy="put the worktree back where it was, then execute again",
    )


def _refuse_foreign(state_root: Path, delivery: DeliveryId, worktree: Path, path: Path) -> None:
    holder = _holder(path)
    if holder is None or holder == delivery or _is_stale(state_root, holder):
        return
    raise EnvironmentFault(
        Code.WORKTREE_LEASED,
        f"{worktree}: Delivery {holder} works in this worktree and has not settled",
        remedy=f"execute or cancel {holder} first, or use a worktree of its own",
    )


def _holder(path: Path) -> DeliveryId | None:
    """Who has the lease; None for none. What cannot be a Delivery's name is nobody's lease."""
    try:
        return delivery_id(read_small(path, LEASE_BYTES_MAX).decode("utf-8").strip())
    except (FileNotFoundError, CallerError, UnicodeDecodeError):
        return None
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE, f"{path}: {excerpt(str(error), 200)}", remedy="make the state directory readable"
        ) from None


def _is_stale(state_root: Path, holder: DeliveryId) -> bool:
    layout = delivery_layout(state_root, holder)
    if has_ledger(layout):
        with open_reader(layout) as reader:
            if reader.last(frozenset({DeliverySettled.KIND})) is not None:
                return True
            if reader.last(frozenset({DeliveryAccepted.KIND})) is not None:
                return False
    return fence.is_free(layout)
