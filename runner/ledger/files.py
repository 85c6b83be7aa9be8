"""Files that survive a crash whole or not at all, private to their owner; the machine's refusals in our words."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from runner.contract.errors import Code, EnvironmentFault

TEMPORARY_PREFIX: Final = ".new-"
"""How a file is called that is not finished yet; whoever holds the Delivery's fence may remove it."""


@contextmanager
def written_at(path: Path) -> Iterator[None]:
    """Turns an ``OSError`` of the block into an ``EnvironmentFault`` (``disk-full`` or ``state-unwritable``)."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise EnvironmentFault(
            Code.DISK_FULL if full else Code.STATE_UNWRITABLE,
            f"{path}: {error.strerror or error}",
            remedy="free some space, then execute again" if full else "make the state directory writable for this user",
        ) from error


def sync_directory(path: Path) -> None:
    """Makes creations, renames and removals in ``path`` survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_private(path: Path) -> None:
    """``path`` as a directory of mode 0700, durable; missing parents likewise. An existing directory stays as it is."""
    with written_at(path):
        if path.is_dir():
            return
    make_private(path.parent)
    with written_at(path):
        path.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent)


def read_small(path: Path, bytes_max: int) -> bytes:
    """The first ``bytes_max`` bytes of a regular file; ``OSError`` for anything else, which could hang who reads it."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read(bytes_max)


def write_new(directory: Path, data: bytes) -> Path:
    """A temporary file (0600) in ``directory`` with ``data`` fsynced, for the caller to rename or link into place."""
    handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=directory)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def sweep(directory: Path) -> None:
    """Removes what writers that were killed left unfinished in ``directory``. Only for whoever keeps all others out of it."""
    for left in directory.glob(f"{TEMPORARY_PREFIX}*"):
        left.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """``path`` holds ``data`` durably, or what it held before: temp, fsync, rename, fsync of the directory."""
    with written_at(path):
        new = write_new(path.parent, data)
        try:
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
