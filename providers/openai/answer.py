"""Streamed chunks of Chat Completions -> one answer, or why there is none. Pure; every chunk is hostile.

Read from the chunks themselves, because langchain-openai's messages lose what is needed here: ``reasoning_content``, a
refusal, unknown usage (it becomes 0), and the difference between arguments that ended and arguments that were cut off (it
completes them).
"""

from dataclasses import dataclass, field
from typing import Any, Final

from providers.chat import ToolCall, assistant
from runner.contract.canonical import FrozenJson
from runner.contract.provider import Failure

STREAM_ENDED: Final = "stream-ended"
INVALID_STREAM: Final = "invalid-stream"
CHARS_MAX: Final = 8_000_000
"""Of one answer. An endpoint that streams on and on is cut off here."""
CALLS_MAX: Final = 256
"""Tool calls in one answer."""
_FINISHED: Final = frozenset({"stop", "tool_calls", "function_call"})
_CUT: Final = frozenset({"length", "max_tokens"})
_REFUSED: Final = frozenset({"content_filter", "safety", "refusal"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. ``model`` is who the endpoint says answered, empty when it does not say."""

    message: FrozenJson
    model: str
    finish: str
    input_tokens: int | None
    output_tokens: int | None


class BadChunk(ValueError):
    """A chunk that Chat Completions does not know. The message names the place."""


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class AnswerReader:
    """Takes chunks in order; ``finish`` judges when the stream has ended."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._chars = 0
        self._model = ""
        self._finish = ""
        self._input: int | None = None
        self._output: int | None = None

    def add(self, chunk: Any) -> str:
        """Takes one chunk; returns the visible text in it. ``BadChunk`` for what is not one, or is too much."""
        fields = _mapping(chunk, "chunk")
        self._model = _text(fields, "model") or self._model
        self._count(fields.get("usage"))
        shown = ""
        for choice in _list(fields, "choices"):
            parts = _mapping(choice, "choices")
            if parts.get("index") in (None, 0):
                shown += self._delta(_mapping(parts.get("delta") or {}, "delta"))
                self._finish = _text(parts, "finish_reason") or self._finish
        return shown

    def finish(self) -> Answer | Failure:
        """The whole answer, or the failure that its end is."""
        if not self._finish:
            return _failure(STREAM_ENDED, "the stream ended before the answer did")
        if self._finish in _CUT:
            return _failure("length", "the answer ran into the limit of output tokens")
        refusal = "".join(self._refusal)
        if self._finish in _REFUSED or refusal:
            return _failure("refusal", f"the endpoint refused to answer: {refusal or self._finish}")
        if self._finish not in _FINISHED:
            return _failure("unexpected-finish", f"the answer ended for a reason that is not known: {self._finish}")
        calls = tuple(
            ToolCall(id=c.id or f"unnamed-{n}", name=c.name, arguments="".join(c.arguments))
            for n, c in enumerate(self._calls, 1)
        )
        if len({c.id for c in calls}) < len(calls):
            return _failure(INVALID_STREAM, "two tool calls of one answer have the same id")
        return Answer(
            message=assistant(text="".join(self._text), reasoning="".join(self._reasoning), calls=calls),
            model=self._model,
            finish=self._finish,
            input_tokens=self._input,
            output_tokens=self._output,
        )

    def _delta(self, delta: dict[str, Any]) -> str:
        shown = self._keep(self._text, delta, "content")
        self._keep(self._reasoning, delta, "reasoning_content")
        self._keep(self._refusal, delta, "refusal")
        for fragment in _list(delta, "tool_calls"):
            self._fragment(_mapping(fragment, "tool_calls"))
        return shown

    def _fragment(self, fragment: dict[str, Any]) -> None:
        function = _mapping(fragment.get("function") or {}, "function")
        call = self._call_of(fragment.get("index"), _text(fragment, "id"))
        call.name = call.name or _text(function, "name")
        self._keep(call.arguments, function, "arguments")

    def _call_of(self, index: Any, id_: str) -> _Call:
        """The call that a fragment continues. Some endpoints leave the index out, or give every call the same one."""
        known = self._by_index.get(index) if isinstance(index, int) else (self._calls[-1] if self._calls else None)
        if known is None or (id_ and known.id and known.id != id_):
            if len(self._calls) == CALLS_MAX:
                raise BadChunk(f"more than {CALLS_MAX} tool calls in one answer")
            known = _Call()
            self._calls.append(known)
        if isinstance(index, int):
            self._by_index[index] = known
        known.id = known.id or id_
        return known

    def _keep(self, parts: list[str], fields: dict[str, Any], name: str) -> str:
        text = _text(fields, name)
        self._chars += len(text)
        if self._chars > CHARS_MAX:
            raise BadChunk(f"an answer of more than {CHARS_MAX} characters")
        if text:
            parts.append(text)
        return text

    def _count(self, usage: Any) -> None:
        """Tokens as the endpoint reports them, in the last chunk or in each; what it does not say stays unknown."""
        if isinstance(usage, dict):
            self._input = _tokens(usage.get("prompt_tokens"), self._input)
            self._output = _tokens(usage.get("completion_tokens"), self._output)


def _tokens(value: Any, before: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else before


def _failure(code: str, message: str) -> Failure:
    return Failure(exception="", error_code=code, message=message)


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadChunk(f"{place} is not an object")
    return value


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name) or []
    if not isinstance(value, list):
        raise BadChunk(f"{name} is not an array")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadChunk(f"{name} is not text")
    return value
