"""The leased secret out of what an endpoint sends back, so that no event and no later request holds it. Pure."""

import json
from collections.abc import Mapping
from typing import Final

from runner.contract.canonical import FrozenJson, freeze

REDACTED: Final = "[redacted]"


def redacted(text: str, secret: str | None) -> str:
    """``text`` without ``secret``, plain or JSON-escaped."""
    if not secret:
        return text
    return text.replace(secret, REDACTED).replace(json.dumps(secret)[1:-1], REDACTED)


def redacted_json(value: FrozenJson, secret: str | None) -> FrozenJson:
    """``value`` with every text and key redacted."""

    def walk(part: FrozenJson) -> FrozenJson:
        if isinstance(part, str):
            return redacted(part, secret)
        if isinstance(part, Mapping):
            return {redacted(k, secret): walk(v) for k, v in part.items()}
        if isinstance(part, tuple):
            return tuple(walk(v) for v in part)
        return part

    return freeze(walk(value)) if secret else value


class Redacting:
    """For streamed text: keeps back what could be the beginning of the secret until its continuation is known."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if not self._secret:
            return text
        self._held = redacted(self._held + text, self._secret)
        keep = next((n for n in range(len(self._secret) - 1, 0, -1) if self._held.endswith(self._secret[:n])), 0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def rest(self) -> str:
        """What was kept back; the stream has ended."""
        shown, self._held = self._held, ""
        return shown
