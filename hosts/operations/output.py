"""A process's output as text that is bounded, redacted and harmless to show. Pure; fed chunk by chunk.

As ``contract.text.screened``, for text that comes in pieces: secrets are out (also those across chunks) before anything that a
terminal would act on is escaped, and only then is the middle cut. What is kept never grows beyond the bound.
"""

import codecs

from runner.contract.redaction import Redactor
from runner.contract.text import HeadTail, visible


class OutputText:
    """One stream of one process."""

    def __init__(self, bytes_max: int, secrets: tuple[str, ...]) -> None:
        self._redactor = Redactor(secrets).stream()
        # Bytes that are not UTF-8 stay visible as \xNN.
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._kept = HeadTail(bytes_max)

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        """Takes the next bytes; answers with their text, for progress. ``final`` exactly once, at the end."""
        text = self._redactor.feed(self._decoder.decode(chunk, final)) + (self._redactor.rest() if final else "")
        text = visible(text)
        self._kept.feed(text.encode())
        return text

    @property
    def truncated(self) -> bool:
        return self._kept.truncated

    def text(self) -> str:
        return self._kept.text()


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """``text`` without the secrets, escaped."""
    return visible(Redactor(secrets).text(text))
