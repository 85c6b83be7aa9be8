"""A process's output as text that is bounded, redacted and harmless to show. Pure; fed chunk by chunk.

Order matters: secrets are found in the raw bytes (also across chunks), then bytes become text with everything that a
terminal would act on escaped, and only then is the middle cut. What is kept never grows beyond the bound.
"""

import codecs
import re
from typing import Final

from runner.contract.text import HeadTail, visible

REDACTED: Final = "[redacted]"


class Redactor:
    """Replaces secrets in a byte stream. Holds back as many bytes as the beginning of a secret could still be."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        found = sorted({s.encode() for s in secrets if s}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, found))) if found else None
        self._held_max = len(found[0]) - 1 if found else 0
        self._held = b""

    def feed(self, chunk: bytes, *, final: bool = False) -> bytes:
        """The next redacted bytes; with ``final`` everything that was held back."""
        if self._pattern is None:
            return chunk
        data = self._held + chunk
        certain = len(data) if final else max(0, len(data) - self._held_max)
        out, at = [], 0
        for match in self._pattern.finditer(data):
            if match.start() >= certain:
                break
            out += [data[at : match.start()], REDACTED.encode()]
            at = match.end()
        upto = max(at, certain)
        self._held = data[upto:]
        return b"".join([*out, data[at:upto]])


class OutputText:
    """One stream of one process."""

    def __init__(self, bytes_max: int, secrets: tuple[str, ...]) -> None:
        self._redactor = Redactor(secrets)
        # Bytes that are not UTF-8 stay visible as \xNN.
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._kept = HeadTail(bytes_max)

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        """Takes the next bytes; answers with their text, for progress. ``final`` exactly once, at the end."""
        text = visible(self._decoder.decode(self._redactor.feed(chunk, final=final), final))
        self._kept.feed(text.encode())
        return text

    @property
    def truncated(self) -> bool:
        return self._kept.truncated

    def text(self) -> str:
        return self._kept.text()


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """``text`` without the secrets, escaped."""
    return visible(Redactor(secrets).feed(text.encode(errors="backslashreplace"), final=True).decode())
