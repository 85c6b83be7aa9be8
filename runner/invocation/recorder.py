"""Writes one session's recording while it runs. The format is the contract's; replay is a provider's."""

import os
from pathlib import Path

from runner.contract.canonical import FrozenJson
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.provider import TurnEvent
from runner.contract.recording import Header, decode_event, encode_event, file_name, line_bytes, turn_line
from runner.contract.redaction import Redactor


class SessionRecorder:
    """One file, a line per turn that succeeded, each written in one piece; not flushed to the disk. A session that goes on
    in a new process writes its file anew, from the ledger as far as that goes: nothing of a file that a kill cut short, or of
    another Delivery's, is left in it. ``EnvironmentFault(state-unwritable)`` when it cannot be written: a recording that was asked
    for is not silently missing."""

    def __init__(self, directory: Path, header: Header, worktree: str, redactor: Redactor) -> None:
        self._path = directory / file_name(header.step)
        self._worktree = worktree
        self._volatile = header.volatile
        self._redactor = redactor
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write(line_bytes(header))

    def turn(self, number: int, request: FrozenJson, events: tuple[TurnEvent, ...], duration_s: float) -> None:
        """Adds one turn, redacted."""
        line = turn_line(
            turn=number,
            request=self._redactor.json(request),
            events=tuple(decode_event(self._redactor.json(encode_event(e))) for e in events),
            worktree=self._worktree,
            volatile=self._volatile,
            duration_s=round(duration_s, 3),
        )
        self._write(line_bytes(line))

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: bytes) -> None:
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            self.close()
            raise self._unwritable(error) from None
        if written != len(line):
            self.close()
            raise self._unwritable(OSError(0, "the line was cut short"))

    def _unwritable(self, error: OSError) -> EnvironmentFault:
        return EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"recording {self._path}: {error.strerror}",
            remedy="make the directory writable, or execute without recording",
        )
