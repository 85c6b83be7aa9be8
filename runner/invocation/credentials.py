"""Secrets leased from the source the config names: an environment variable, or a file only its owner can read.

Owned invariants
- A secret is read when it is leased and never stored; every leased secret is known to the redactor first.
- A message names the source, never the value or a part of it.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from runner.contract.config import CredentialSource
from runner.contract.errors import CallerError, Code
from runner.contract.redaction import SECRET_CHARS_MIN, Redactor

SECRET_BYTES_MAX: Final = 65_536
_MODES: Final = (0o600, 0o400)


class SourceCredentials:
    """Implements ``provider.Credentials`` over one source. ``environment`` is the process's own unless a test says otherwise."""

    __slots__ = ("_environment", "_redactor", "_source")

    def __init__(self, source: CredentialSource, redactor: Redactor, environment: Mapping[str, str]) -> None:
        self._source = source
        self._redactor = redactor
        self._environment = environment

    def __repr__(self) -> str:
        return f"SourceCredentials({self.place})"

    @property
    def place(self) -> str:
        """Where the secret is, for people."""
        return f"environment variable {self._source.env}" if self._source.env else f"file {self._source.file}"

    @contextmanager
    def lease(self) -> Iterator[str]:
        """The secret for the length of the block; ``CallerError(secret-unreadable)`` when its source does not hold one."""
        secret = self._read()
        problem = _problem(secret)
        if problem:
            raise self._unreadable(problem, "store the bare secret, in one line")
        self._redactor.remember(secret)
        yield secret

    def _read(self) -> str:
        if self._source.env is not None:
            value = self._environment.get(self._source.env)
            if value is None:
                raise self._unreadable("is not set", f"export {self._source.env}, or name a file in the config")
            return value.strip()
        try:
            return self._from_file(str(self._source.file)).decode().strip()
        except UnicodeDecodeError:
            raise self._unreadable("is not UTF-8 text", "store the bare secret, in one line") from None

    def _from_file(self, path: str) -> bytes:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "holds a NUL byte"
            fix = "it must be a readable file, not a symbolic link"
            raise self._unreadable(f"cannot be opened ({reason})", fix) from None
        try:
            self._check(os.fstat(fd))
            data = os.read(fd, SECRET_BYTES_MAX + 1)
        finally:
            os.close(fd)
        if len(data) > SECRET_BYTES_MAX:
            raise self._unreadable(f"is larger than {SECRET_BYTES_MAX} bytes", "store the bare secret, in one line")
        return data

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise self._unreadable("is not a regular file", "name a file that holds only the secret")
        if found.st_uid != os.geteuid():
            raise self._unreadable(f"belongs to user {found.st_uid}", "it must belong to the user who runs this")
        mode = stat.S_IMODE(found.st_mode)
        if mode not in _MODES:
            raise self._unreadable(f"has mode {mode:04o}, so others may read or run it", "chmod 600 it")

    def _unreadable(self, problem: str, fix: str) -> CallerError:
        return CallerError(Code.SECRET_UNREADABLE, f"secret from {self.place}: {problem}", remedy=fix)


def _problem(secret: str) -> str | None:
    if not secret:
        return "is empty"
    if len(secret) < SECRET_CHARS_MIN:
        return f"has fewer than {SECRET_CHARS_MIN} characters, too few to be kept out of texts"
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) <= 0xDFFF for c in secret):
        return "holds control characters or line breaks"
    return None
