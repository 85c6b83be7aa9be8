"""Recordings: what a model was asked and what it answered, one JSONL file per session, readable and editable by people.

The first line is the header, every further line one turn::

    {"format": "runner.recording/1", "step": "review@1", "provider": "openai", "version": "1", "model": "m", ...}
    {"turn": 1, "request": {...}, "digest": "sha256:...", "events": [{"type": "response", ...}, ...], "duration_s": 1.2}

A recording is keyed by step key (the file) and turn. ``request`` is what the model saw, in portable form: the worktree's
path is ``$WORKTREE`` (the literal text ``$WORKTREE`` is ``$$WORKTREE``) and call ids are ``call-1``, ``call-2``, ... in order
of appearance. ``digest`` is the SHA-256 of that form with the header's ``volatile`` patterns blanked, so a recording replays
on another machine. Events hold the same path placeholder and the call ids of the endpoint; ``localise`` puts a path back.

The neutral request. Everything is compared, nothing is interpreted, except where call ids stand: ``id`` in the objects of a
``tool_calls`` array and ``tool_call_id`` in any object, never below ``arguments`` or ``parameters``.

Volatile patterns are a small, linear-time part of regular expressions, because a recording may come from anywhere: text,
escapes, ``.``, classes, ``|`` and the quantifiers ``? * + {m} {m,n}``; no groups. A quantifier takes what it can (at most
256) and gives nothing back.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from runner.contract import canonical
from runner.contract.activation import DigestText
from runner.contract.canonical import FrozenJson, Json
from runner.contract.errors import Code, ProviderError
from runner.contract.events import Usage
from runner.contract.ids import Digest, StepRef
from runner.contract.model import Frozen, M, read_model
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Failure,
    OutputDelta,
    ToolRequest,
    TurnEnded,
    TurnEvent,
)

FORMAT: Final = "runner.recording/1"
WORKTREE: Final = "$WORKTREE"
VOLATILE: Final = "$VOLATILE"
SUFFIX: Final = ".jsonl"
REPEAT_MAX: Final = 256
PATTERN_CHARS_MAX: Final = 200
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a reader accepts as one recording."""

# --- the lines -------------------------------------------------------------------------------------------------------


class Header(Frozen):
    """Whose session it was. ``descriptor`` is the digest of the executor descriptor the session started with."""

    format: Literal["runner.recording/1"] = FORMAT
    step: str
    """``StepRef.key``."""
    provider: str
    version: str = ""
    model: str
    descriptor: DigestText | None = None
    worktree: Literal["$WORKTREE"] = WORKTREE
    volatile: Annotated[tuple[str, ...], Field(max_length=64)] = ()


class TurnLine(Frozen):
    """One turn that succeeded. ``events`` are encoded by ``encode_event``: no intent (``request`` is it), no deltas."""

    turn: Annotated[int, Field(ge=1)]
    request: Json
    digest: DigestText
    events: tuple[Json, ...]
    duration_s: Annotated[float, Field(ge=0, strict=False)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """A turn as read: ``line`` as it stands in the file (``number``, from 1), its events decoded, still portable."""

    number: int
    line: TurnLine
    events: tuple[TurnEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One file: ``turns`` by turn number."""

    header: Header
    turns: Mapping[int, RecordedTurn]

    @property
    def step(self) -> StepRef:
        return StepRef.parse(self.header.step)


def file_name(step_key: str) -> str:
    """The file of a step's session: ``tests@2#0`` is ``tests.2.0.jsonl``. ``ValueError`` for what is no step key."""
    step = StepRef.parse(step_key)
    return ".".join([step.site, str(step.visit), *map(str, step.item)]) + SUFFIX


def line_bytes(line: Header | TurnLine) -> bytes:
    """One line with its newline; the same bytes for the same value."""
    return canonical.canonical(line.to_json()) + b"\n"


def turn_line(
    *,
    turn: int,
    request: FrozenJson,
    events: tuple[TurnEvent, ...],
    worktree: str | None,
    volatile: tuple[str, ...],
    duration_s: float,
) -> TurnLine:
    """A turn for the file, made portable. ``request`` and ``events`` are as they were live, secrets already redacted."""
    kept = [e for e in events if not isinstance(e, CallIntent | OutputDelta)]
    return TurnLine(
        turn=turn,
        request=normalise(request, worktree, ()),
        digest=request_digest(request, worktree, volatile),
        events=tuple(portable(encode_event(e), worktree) for e in kept),
        duration_s=duration_s,
    )


def read(data: bytes, place: str) -> Recording:
    """The recording in ``data``; ``ProviderError(recording-invalid)`` naming ``place:line`` for the first thing wrong."""
    if len(data) > FILE_BYTES_MAX:
        raise _invalid(place, 1, f"is larger than {FILE_BYTES_MAX} bytes")
    lines = [(n, text) for n, text in enumerate(data.split(b"\n"), 1) if text.strip()]
    if not lines:
        raise _invalid(place, 1, "is empty; the first line must be the header")
    header = _model(Header, lines[0][1], place, lines[0][0])
    _check_header(header, place, lines[0][0])
    turns: dict[int, RecordedTurn] = {}
    for number, text in lines[1:]:
        turn = _turn(header, text, place, number)
        if turn.line.turn in turns:
            raise _invalid(place, number, f"turn {turn.line.turn} stands twice")
        turns[turn.line.turn] = turn
    return Recording(header=header, turns=turns)


def _turn(header: Header, text: bytes, place: str, number: int) -> RecordedTurn:
    line = _model(TurnLine, text, place, number)
    expected = canonical.digest(blank(line.request, header.volatile))
    if line.digest != expected:
        raise _invalid(
            place,
            number,
            f"the digest does not fit the request; if the request was edited on purpose, write {expected}",
        )
    try:
        events = tuple(decode_event(e) for e in line.events)
    except ValueError as error:
        raise _invalid(place, number, str(error)) from None
    if any(isinstance(e, CallIntent | OutputDelta) for e in events):
        raise _invalid(place, number, "an intent or a delta is not kept in a recording")
    return RecordedTurn(number=number, line=line, events=events)


def _check_header(header: Header, place: str, number: int) -> None:
    try:
        StepRef.parse(header.step)
        for pattern in header.volatile:
            compile_volatile(pattern)
    except ValueError as error:
        raise _invalid(place, number, str(error)) from None


def _model(model: type[M], text: bytes, place: str, number: int) -> M:
    try:
        read_value = read_model(model, canonical.parse(text))
    except ValueError as error:
        raise _invalid(place, number, f"is not JSON: {error}") from None
    if isinstance(read_value, tuple):
        raise _invalid(place, number, "; ".join(map(str, read_value)))
    return read_value


def _invalid(place: str, number: int, problem: str) -> ProviderError:
    return ProviderError(
        Code.RECORDING_INVALID,
        f"{place}:{number}: {problem}",
        remedy="record the session again, or mend that line (the format is described in runner/contract/recording.py)",
    )


# --- normalisation ---------------------------------------------------------------------------------------------------


def normalise(request: FrozenJson, worktree: str | None, volatile: tuple[str, ...]) -> FrozenJson:
    """The form whose digest counts: worktree as ``$WORKTREE``, call ids renumbered, ``volatile`` matches blanked."""
    return blank(portable(renumber(request), worktree), volatile)


def request_digest(request: FrozenJson, worktree: str | None, volatile: tuple[str, ...]) -> Digest:
    """SHA-256 of the normalised request."""
    return canonical.digest(normalise(request, worktree, volatile))


def portable(value: FrozenJson, worktree: str | None) -> FrozenJson:
    """``value`` with the worktree's path as ``$WORKTREE`` in every string; ``localise`` is its inverse.

    A path counts where no longer name contains it. ``$`` signs in front double, so that the literal text survives."""
    path = r"(?!)" if worktree is None else rf"(?<![\w.\-]){re.escape(worktree.rstrip('/'))}"
    pattern = re.compile(rf"(\$*)(?:(WORKTREE)|{path}){_END}")

    def encode(match: re.Match[str]) -> str:
        dollars = len(match[1]) * 2 + (0 if match[2] else 1)
        return "$" * dollars + "WORKTREE"

    return _map_text(value, lambda text: pattern.sub(encode, text))


def localise(value: FrozenJson, worktree: str | None) -> FrozenJson:
    """``value`` with ``$WORKTREE`` as this machine's path (left standing where there is no worktree)."""

    def decode(match: re.Match[str]) -> str:
        dollars, rest = divmod(len(match[1]), 2)
        if not rest:
            return "$" * dollars + "WORKTREE"
        return "$" * dollars + (WORKTREE if worktree is None else worktree.rstrip("/"))

    return _map_text(value, lambda text: _PLACEHOLDER.sub(decode, text))


_END: Final = r"(?![\w\-]|\.\w)"
_PLACEHOLDER: Final = re.compile(rf"(\$+)WORKTREE{_END}")


def localise_event(event: TurnEvent, worktree: str | None) -> TurnEvent:
    """A recorded event for this machine."""
    return decode_event(localise(encode_event(event), worktree))


def renumber(request: FrozenJson) -> FrozenJson:
    """Call ids as ``call-1``, ``call-2``, ... in order of appearance (messages first to last, fields by name)."""
    names: dict[str, str] = {}

    def name(value: FrozenJson) -> FrozenJson:
        return names.setdefault(value, f"call-{len(names) + 1}") if isinstance(value, str) else value

    def walk(value: FrozenJson, in_calls: bool) -> FrozenJson:
        if isinstance(value, Mapping):
            return {k: field(k, value[k], in_calls) for k in sorted(value)}
        if isinstance(value, tuple):
            return tuple(walk(v, in_calls) for v in value)
        return value

    def field(key: str, value: FrozenJson, in_calls: bool) -> FrozenJson:
        if key in ("arguments", "parameters"):
            return value
        if key == "tool_call_id" or (in_calls and key == "id"):
            return name(value)
        return walk(value, key == "tool_calls")

    return canonical.freeze(walk(request, False))


def blank(value: FrozenJson, volatile: tuple[str, ...]) -> FrozenJson:
    """Every match of a ``volatile`` pattern in every string as ``$VOLATILE``; ``ValueError`` for a bad pattern."""
    patterns = [compile_volatile(p) for p in volatile]

    def apply(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub(lambda m: VOLATILE if m[0] else "", text)
        return text

    return _map_text(value, apply) if patterns else value


def _map_text(value: FrozenJson, change: Callable[[str], str]) -> FrozenJson:
    """``value`` with every string (not keys) changed."""

    def walk(part: FrozenJson) -> FrozenJson:
        if isinstance(part, str):
            return change(part)
        if isinstance(part, Mapping):
            return {k: walk(v) for k, v in part.items()}
        if isinstance(part, tuple):
            return tuple(walk(v) for v in part)
        return part

    return canonical.freeze(walk(value))


_TOKEN: Final = re.compile(
    r"""(?P<atom>\\[^0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}*+?|])
        |(?P<repeat>[*+?]|\{\d{1,3}(?:,\d{1,3})?\})
        |(?P<bar>\|)""",
    re.VERBOSE | re.DOTALL,
)
_BOUNDS: Final = {"*": f"{{0,{REPEAT_MAX}}}", "+": f"{{1,{REPEAT_MAX}}}", "?": "{0,1}"}


@lru_cache(maxsize=256)
def compile_volatile(pattern: str) -> re.Pattern[str]:
    """The pattern with bounded, possessive quantifiers, which cannot backtrack; ``ValueError`` saying what it may not hold."""
    if not pattern or len(pattern) > PATTERN_CHARS_MAX:
        raise ValueError(f"a volatile pattern has 1 to {PATTERN_CHARS_MAX} characters")
    out, at, repeatable = "", 0, False
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None or (token["repeat"] and not repeatable):
            raise ValueError(f"volatile pattern {pattern!r}: {pattern[at]!r} at {at} is not allowed here (no groups)")
        if token["repeat"]:
            out += _BOUNDS.get(token[0], token[0]) + "+"
        else:
            out += token[0]
        repeatable = token["atom"] is not None
        at = token.end()
    try:
        return re.compile(out)
    except re.error as error:
        raise ValueError(f"volatile pattern {pattern!r}: {error}") from None


# --- events ----------------------------------------------------------------------------------------------------------


class _Intent(Frozen):
    type: Literal["intent"] = "intent"
    request: Json


class _Delta(Frozen):
    type: Literal["delta"] = "delta"
    text: str


class _Response(Frozen):
    type: Literal["response"] = "response"
    response: Json
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()


class _ToolRequest(Frozen):
    type: Literal["tool-request"] = "tool-request"
    id: str
    name: str
    arguments: Json


class _Completion(Frozen):
    type: Literal["completion"] = "completion"
    value: Json


class _Failure(Frozen):
    type: Literal["failure"] = "failure"
    exception: str = ""
    http_status: int | None = None
    error_code: str | None = None
    retry_after_s: Annotated[float, Field(strict=False)] | None = None
    message: str = ""


class _Ended(Frozen):
    type: Literal["ended"] = "ended"
    finish: str = ""


_EventLine = Annotated[
    _Intent | _Delta | _Response | _ToolRequest | _Completion | _Failure | _Ended, Field(discriminator="type")
]
_EVENT: Final[TypeAdapter[Any]] = TypeAdapter(_EventLine)
_TYPES: Final[tuple[tuple[type[Any], type[Frozen]], ...]] = (
    (CallIntent, _Intent),
    (OutputDelta, _Delta),
    (CallResult, _Response),
    (ToolRequest, _ToolRequest),
    (Completion, _Completion),
    (Failure, _Failure),
    (TurnEnded, _Ended),
)


def encode_event(event: TurnEvent) -> FrozenJson:
    """One event as JSON, told apart by ``type``: intent, delta, response, tool-request, completion, failure, ended."""
    line = next(line for kind, line in _TYPES if isinstance(event, kind))
    fields = {name: getattr(event, name) for name in type(event).__slots__}
    return line(**fields).to_json()


def decode_event(value: FrozenJson) -> TurnEvent:
    """The inverse of ``encode_event``; ``ValueError`` saying what is wrong."""
    try:
        line = _EVENT.validate_python(canonical.thaw(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"event: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    kind = next(kind for kind, model in _TYPES if isinstance(line, model))
    event: TurnEvent = kind(**{name: getattr(line, name) for name in kind.__slots__})
    return event
