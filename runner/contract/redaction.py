"""Secrets out of everything that is shown, stored or sent to a model.

Applied at the tool and response boundary, so that model, journal, recording and replay see the same bytes. Known are the
values that ``remember`` was given, in the forms a program tends to print them: as they are, JSON-escaped, percent-encoded,
hex, and base64 at every alignment. Not covered: a secret that something else transformed (encrypted, reversed), and a part of
one (cut at a bound, or taken apart on purpose): redaction keeps accidents harmless, it does not contain a hostile agent.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from runner.contract.canonical import FrozenJson, freeze

REDACTED: Final = "[redacted]"
SECRET_CHARS_MIN: Final = 8
"""A shorter value cannot be told from ordinary text; credentials refuse it."""


class Redactor:
    """Holds the secrets of one Runner in memory. Shared by everything that shows or stores text; only ever grows."""

    __slots__ = ("_chars_max", "_forms", "_pattern")

    def __init__(self, forms: Iterable[str] = ()) -> None:
        """``forms``: texts to be redacted exactly as they are, such as another's ``forms``."""
        self._forms: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._chars_max = 0
        self._add(frozenset(form for form in forms if form))

    def __repr__(self) -> str:
        return "Redactor(…)"

    def remember(self, secret: str) -> None:
        """From now on ``secret`` is redacted. ``ValueError`` when it is too short to be told from text."""
        if len(secret) < SECRET_CHARS_MIN:
            raise ValueError(f"a secret needs at least {SECRET_CHARS_MIN} characters")
        if secret in self._forms:
            return
        self._add(forms_of(secret))

    def _add(self, forms: frozenset[str]) -> None:
        self._forms |= forms
        if not self._forms:
            return
        longest_first = sorted(self._forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._chars_max = len(longest_first[0])

    @property
    def forms(self) -> tuple[str, ...]:
        """Every text that is redacted."""
        return tuple(self._forms)

    def text(self, text: str) -> str:
        """``text`` without any known secret."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def json(self, value: FrozenJson) -> FrozenJson:
        """``value`` with every string and key redacted. Keys that become equal are told apart by a number."""
        return value if self._pattern is None else freeze(self._walk(value))

    def _walk(self, value: FrozenJson) -> FrozenJson:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            result: dict[str, FrozenJson] = {}
            for key, item in value.items():
                name = shown = self.text(key)
                number = 2
                while name in result:
                    name, number = f"{shown} {number}", number + 1
                result[name] = self._walk(item)
            return result
        if isinstance(value, tuple):
            return tuple(self._walk(item) for item in value)
        return value

    def stream(self) -> "StreamRedactor":
        """For text that arrives in pieces."""
        return StreamRedactor(self)

    def safe_cut(self, text: str) -> int:
        """How much of the front of ``text`` can be shown before its continuation is known."""
        if self._pattern is None:
            return len(text)
        cut = max(0, len(text) - self._chars_max + 1)
        for match in self._pattern.finditer(text):
            if match.start() < cut < match.end():
                return match.start()
        return cut


class StreamRedactor:
    """Keeps back as much as could be the beginning of a secret."""

    __slots__ = ("_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        self._held += text
        cut = self._redactor.safe_cut(self._held)
        shown, self._held = self._held[:cut], self._held[cut:]
        return self._redactor.text(shown)

    def rest(self) -> str:
        """What was kept back; the stream has ended."""
        shown, self._held = self._held, ""
        return self._redactor.text(shown)


def forms_of(secret: str) -> frozenset[str]:
    """``secret`` as programs print it."""
    raw = secret.encode()
    forms = {secret, quote(secret, safe=""), quote(secret), raw.hex(), raw.hex().upper()}
    forms |= {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        forms |= {_inner_base64(encode(b"\0" * shift + raw).decode(), shift) for shift in range(3)}
    return frozenset(form for form in forms if len(form) >= SECRET_CHARS_MIN)


def _inner_base64(encoded: str, shift: int) -> str:
    """The characters of ``encoded`` that depend on the secret alone, whatever stands around it."""
    end = len(encoded.rstrip("="))
    if encoded.endswith("="):
        end -= 1
    return encoded[(0, 2, 3)[shift] : end]
