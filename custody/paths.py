"""Worktree paths are bytes. How they are shown, matched against a scope, written into JSON, and reached without links.

Three texts of one path, because they serve different readers: ``scope_text`` is what patterns match (UTF-8, other bytes as
``%XX``), ``show`` is that with control characters escaped as well (safe in a message), ``encode`` escapes ``%`` too and is
reversible (manifests).
"""

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSAFE: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})


def scope_text(path: bytes) -> str:
    """``path`` as scope patterns see it."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text
    return "".join(f"%{ord(c) - 0xDC00:02X}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


def show(path: bytes) -> str:
    """``path`` for people: also control and formatting characters as ``%XX``."""
    text = scope_text(path)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_percent(c) if unicodedata.category(c) in _UNSAFE else c for c in text)


def _percent(text: str) -> str:
    return "".join(f"%{b:02X}" for b in text.encode("utf-8"))


def encode(path: bytes) -> str:
    """``path`` as JSON text; ``decode`` is its inverse."""
    return scope_text(path.replace(b"%", b"%25"))


def decode(text: str) -> bytes:
    return unquote_to_bytes(text)


def parents(path: bytes) -> Iterator[bytes]:
    """Every directory above ``path``, nearest first, without the root."""
    cut = path.rfind(b"/")
    while cut > 0:
        path = path[:cut]
        yield path
        cut = path.rfind(b"/")


def split(path: bytes) -> tuple[bytes, bytes]:
    """Directory (empty for the root) and name."""
    head, _, name = path.rpartition(b"/")
    return head, name


class Root:
    """The worktree by its handle. A path below it is opened component by component, so a symlink on the way is an error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, DIRECTORY)

    def close(self) -> None:
        os.close(self.fd)

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        found = os.fstat(self.fd)
        return found.st_dev, found.st_ino

    @contextmanager
    def directory(self, path: bytes) -> Iterator[int]:
        """A handle of the directory ``path`` (empty: the root itself). ``OSError`` when it is none or lies behind a link."""
        fd = os.dup(self.fd)
        try:
            for name in path.split(b"/") if path else ():
                below = os.open(name, DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def lstat(self, path: bytes) -> os.stat_result | None:
        """What is at ``path`` itself; None when nothing is, or when a component above it is no directory."""
        head, name = split(path)
        try:
            with self.directory(head) as fd:
                return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise


def permission(found: os.stat_result) -> int:
    """The mode bits that a savepoint keeps."""
    return stat.S_IMODE(found.st_mode)
