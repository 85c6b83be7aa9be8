"""How one path's content is read: by handle, without following links, whole, between two ``fstat`` that must agree.

What was read is trusted as long as inode, size, mode, mtime and ctime are what they were and the ctime is older than the start
of that reading: no rewrite, not even one with its mtime put back, can look like that.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from custody.paths import show
from custody.state import EXECUTABLE, FIFO, REGULAR, SYMLINK, File
from runner.contract.errors import Code, EnvironmentFault

CLOCK_MARGIN_NS: Final = 100_000_000
"""A kernel stamps files with a clock that ticks every 1 to 10 ms; a stamp this much older than a scan was before it."""
READ_TRIES: Final = 3

Keep = Callable[[str, bytes], None]
"""Takes the id and the content of each blob that was read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when its content was read."""

    signature: tuple[int, ...]
    file: File
    settled: bool
    """Whether its ctime is surely older than the reading, so that no later write can have left it as it is."""

    @staticmethod
    def of(status: os.stat_result, oid: str, start_ns: int) -> "Seen":
        perm = stat.S_IMODE(status.st_mode)
        file = File(EXECUTABLE if perm & 0o100 else REGULAR, oid, perm)
        return Seen(signature(status), file, status.st_ctime_ns < start_ns - CLOCK_MARGIN_NS)

    def is_still(self, status: os.stat_result) -> bool:
        """Whether ``status`` is of the file that was read, not written to since. Its ctime also moves when another name of it
        goes, so it does not count here."""
        return self.signature[:-1] == signature(status)[:-1]

    def proves(self, status: os.stat_result) -> bool:
        """Whether a file that looks like ``status`` has surely the content that was read."""
        return self.settled and self.signature == signature(status)


MACHINE: Final = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors that are not about the path."""


class Unreadable(Exception):
    """A path whose content cannot be had. ``gone``: nothing of that kind is there any more."""

    def __init__(self, why: str, *, gone: bool = False) -> None:
        super().__init__(why)
        self.why: Final = why
        self.gone: Final = gone

    @staticmethod
    def of(error: OSError) -> "Unreadable":
        """What ``error`` says of the path. One that says something of the machine travels as it is: a file that could be read
        at another moment must not be missing in a savepoint."""
        if error.errno in MACHINE:
            raise error
        gone = error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
        return Unreadable(f"cannot be read ({os.strerror(error.errno or 0)})", gone=gone)


def lost(path: bytes, why: str) -> EnvironmentFault:
    """A path that was captured before must be captured now, or there is no savepoint."""
    return EnvironmentFault(
        Code.CAPTURE_FAILED,
        f"{show(path)} was captured before and cannot be now: {why}",
        remedy="make it readable again or put it back, then run the same command again",
    )


def too_large(status: os.stat_result) -> str:
    return f"too large ({status.st_size} bytes)"


def special_kind(status: os.stat_result) -> str:
    """The kind of what is neither file, link nor directory."""
    kinds = {stat.S_IFIFO: FIFO, stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return kinds.get(stat.S_IFMT(status.st_mode), "special")


def blob_id(object_format: str, data: bytes) -> str:
    """The git object id of a blob."""
    return hashlib.new(object_format, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def signature(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one path in an open directory; ``Unreadable`` when that cannot be done."""

    object_format: str
    bytes_max: int

    def link(self, fd: int, name: bytes, keep: Keep) -> File:
        try:
            target = os.fsencode(os.readlink(name, dir_fd=fd))
        except OSError as error:
            raise Unreadable.of(error) from None
        oid = blob_id(self.object_format, target)
        keep(oid, target)
        return File(SYMLINK, oid, 0)

    def regular(self, fd: int, name: bytes, start_ns: int, keep: Keep) -> Seen:
        """``start_ns``: the machine's time before the file was looked at."""
        for _ in range(READ_TRIES):
            try:
                handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
            except OSError as error:
                raise Unreadable.of(error) from None
            try:
                before = os.fstat(handle)
                if not stat.S_ISREG(before.st_mode) or before.st_size > self.bytes_max:
                    continue
                data = _exactly(handle, before.st_size)
                whole = data is not None and signature(os.fstat(handle)) == signature(before)
            except OSError as error:
                raise Unreadable.of(error) from None
            finally:
                os.close(handle)
            if data is not None and whole:
                oid = blob_id(self.object_format, data)
                keep(oid, data)
                return Seen.of(before, oid, start_ns)
        raise Unreadable("changed while being read")


def _exactly(handle: int, size: int) -> bytes | None:
    """``size`` bytes and then the end; None when there are fewer or more."""
    parts, left = [], size
    while left > 0:
        part = os.read(handle, left)
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return None if os.read(handle, 1) else b"".join(parts)
