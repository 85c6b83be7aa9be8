"""What the process was given to write to, made fit for it: closed streams, readers that leave, full disks, small alphabets.

A Delivery must not end because nobody listens: what is shown while it runs can never fail, and a result that cannot be
printed is said after the work is done. Only for a process of our own; a parent that embeds the Runner keeps its streams.
"""

import io
import os
import sys
from typing import Any, Final, TextIO

ESCAPED: Final = "backslashreplace"
"""How text is written that the terminal's encoding does not have."""


class Output(io.TextIOWrapper):
    """A text stream whose writes never raise: from the first failure on everything goes to the null device."""

    failure: OSError | None = None
    """Why not everything was written; None too when the reader simply left (``| head``)."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.failure = error
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, self.fileno())
        os.close(null)


def prepare() -> Output:
    """Puts such streams in place of the standard ones; returns the one for results."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file to be opened, a ledger say, would take this number and receive what is printed.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115 - stays open as long as the process
    sys.stdout = output = _output(sys.stdout, 1)
    sys.stderr = _output(sys.stderr, 2)
    return output


def _output(given: TextIO | None, number: int) -> Output:
    options: dict[str, Any] = {"errors": ESCAPED, "line_buffering": True}
    if isinstance(given, io.TextIOWrapper):
        encoding = given.encoding
        return Output(given.detach(), encoding=encoding, **options)
    return Output(os.fdopen(number, "wb", closefd=False), encoding="utf-8", **options)
