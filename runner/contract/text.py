"""Text from outside made safe to show: nothing in it can steer a terminal, hide or reorder what is read, or grow without bound."""

import re
from collections.abc import Callable
from typing import Final

_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 controls but tab and line feed, DEL, bidirectional controls, lone surrogates."""


def visible(text: str) -> str:
    """``text`` with control characters written as ``\\x1b`` or ``\\u202e``; tabs and line feeds stay."""
    return _UNSAFE.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 0x100 else f"\\u{ord(m[0]):04x}", text)


def excerpt(text: str, chars_max: int) -> str:
    """``visible`` text of at most ``chars_max`` characters and a marker that says how much was cut."""
    shown = visible(text)
    if len(shown) <= chars_max:
        return shown
    return f"{shown[:chars_max]} [... {len(shown) - chars_max} more characters]"


def screened(text: str, redact: Callable[[str], str], bytes_max: int) -> str:
    """What a tool gave, as it may be journaled, shown and told to a model: secrets are out before anything is escaped, then it
    is made ``visible``, and at last cut to head and tail."""
    kept = HeadTail(bytes_max)
    kept.feed(visible(redact(text)).encode())
    return kept.text()


class HeadTail:
    """Keeps the first and the last half of ``bytes_max`` bytes of text and counts what is between."""

    def __init__(self, bytes_max: int) -> None:
        self._half = bytes_max // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0

    def feed(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - self._half
        if excess > 0:
            self._cut += excess
            del self._tail[:excess]

    @property
    def truncated(self) -> bool:
        return self._cut > 0

    def text(self) -> str:
        """Head and tail, with a visible line between them when something was cut. Characters are never halved."""
        if not self._cut:
            return (self._head + self._tail).decode()
        head, tail = (bytes(part).decode(errors="ignore") for part in (self._head, self._tail))
        return f"{head}\n[... {self._cut} bytes cut here ...]\n{tail}"
