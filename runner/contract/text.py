"""Text from outside made safe to show: nothing in it can steer a terminal, hide or reorder what is read, or grow without bound."""

import re
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
