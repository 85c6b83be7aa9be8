"""What a model sees of one session: turns and answers as one canonical request. Pure, and the same for every chat provider.

``openai`` sends this request and ``recorded`` compares it, so both build byte-identical requests for the same conversation.
The request holds what the model sees and nothing else: no URL, key, model name, sampling setting or SDK detail::

    {"messages": [...], "tools": [{"name", "description", "parameters"}], "result_schema": ..., "structured": ...}

Messages: ``{"role": "system" | "user", "content"}``, ``{"role": "assistant", "content", "reasoning"?, "tool_calls"?: [{"id",
"name", "arguments"}]}``, ``{"role": "tool", "tool_call_id", "content"}``. ``arguments`` is the JSON object that the model
wrote, or its raw text where that is no JSON object; ids stand as the endpoint gave them.

How a result is offered (``structured``):

- ``tool``: the session has tools, so the model calls ``complete``, whose parameters are the result schema; alone, because
  the results of tools called beside it are not yet known to it.
- ``json_schema``: no tools, and the endpoint constrains the whole answer to the schema.
- ``text``: no tools and no such endpoint: the answer ends with one fenced ``json`` block.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from runner.contract.canonical import FrozenJson, canonical, freeze, parse
from runner.contract.errors import CallerError, Code, ProviderError
from runner.contract.provider import (
    CallIntent,
    Completion,
    Correction,
    Prompt,
    SessionDispatch,
    ToolRequest,
    ToolResults,
    ToolSpec,
    Turn,
    TurnEnded,
    TurnEvent,
    tool_json,
)

Native = Literal["json_schema", "text"]
"""How a session without tools offers its result; a fact of the endpoint."""
Structured = Literal["tool", "json_schema", "text"]

COMPLETE: Final = "complete"
"""The tool that hands over the result. Its name is reserved."""
WRAPPED: Final = "result"
"""The property that holds a result whose schema is not that of an object, which tools and endpoints insist on."""
NESTING_RESERVE: Final = 16
"""Nesting kept free around a model's JSON, so that it still fits when it stands inside requests and records."""

_COMPLETE_DESCRIPTION: Final = (
    "Hands over the result and ends the task; nothing else does. Call it alone, when everything is done."
)
_TEXT_INSTRUCTION: Final = (
    "When everything is done, end your answer with one fenced block that starts with ```json and holds one JSON value "
    "that fits this JSON Schema:\n"
)
_AGAIN: Final[dict[Structured, str]] = {
    "tool": f"Call `{COMPLETE}` again, alone, with a result that fits its parameters.",
    "json_schema": "Answer again, with the JSON value only.",
    "text": "Answer again, and end with one fenced ```json block that fits the schema.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session so far. ``messages`` holds everything after the system message."""

    system: str
    tools: tuple[ToolSpec, ...]
    result_schema: FrozenJson
    structured: Structured
    messages: tuple[FrozenJson, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call as the endpoint wrote it: ``arguments`` is raw text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an answer asks for: tools to run, or a result, or neither; ``problem`` then says what was wrong with it."""

    requests: tuple[ToolRequest, ...] = ()
    completion: Completion | None = None
    problem: str = ""


def begin(dispatch: SessionDispatch, native: Native) -> Conversation:
    """The conversation that ``dispatch`` opens. ``CallerError(binding-invalid)`` for a tool named ``complete``."""
    if any(spec.name == COMPLETE for spec in dispatch.tools):
        raise CallerError(
            Code.BINDING_INVALID,
            f"step {dispatch.step}: the tool name {COMPLETE!r} is reserved for the result",
            remedy="give the tool another name",
        )
    return Conversation(
        system=dispatch.system,
        tools=dispatch.tools,
        result_schema=dispatch.result_schema,
        structured="tool" if dispatch.tools else native,
    )


def request(conversation: Conversation) -> FrozenJson:
    """The canonical request: everything the model would see now."""
    system = conversation.system
    if conversation.structured == "text":
        schema = canonical(conversation.result_schema).decode()
        system = f"{system}\n\n{_TEXT_INSTRUCTION}{schema}".lstrip("\n")
    head = [{"role": "system", "content": system}] if system else []
    tools = tool_json(conversation.tools)
    if conversation.structured == "tool":
        parameters = as_object(conversation.result_schema)
        tools.append({"name": COMPLETE, "description": _COMPLETE_DESCRIPTION, "parameters": parameters})
    return freeze(
        {
            "messages": [*head, *conversation.messages],
            "tools": tools,
            "result_schema": conversation.result_schema,
            "structured": conversation.structured,
        }
    )


def hear(conversation: Conversation, turn: Turn) -> Conversation:
    """``conversation`` with what the Runner says next. Every open tool call gets an answer, as endpoints demand.

    ``ValueError`` for results that do not answer the open calls one by one: a fault of the caller, or of a recording.
    """
    open_calls = _open_calls(conversation)
    match turn:
        case Prompt(text=text):
            said = [_tool_message(call, _after_prompt(call)) for call in open_calls] + [_user(text)]
        case ToolResults():
            said = _results(open_calls, turn)
        case Correction(findings=findings):
            text = _correction(conversation, findings)
            said = [_tool_message(call, text) for call in open_calls] or [_user(text)]
    return replace(conversation, messages=(*conversation.messages, *said))


def answered(conversation: Conversation, message: FrozenJson) -> Conversation:
    """``conversation`` with the model's answer (made by ``assistant``)."""
    return replace(conversation, messages=(*conversation.messages, message))


def assistant(*, text: str, reasoning: str, calls: tuple[ToolCall, ...]) -> FrozenJson:
    """An answer in neutral form. Lone surrogates, which no JSON text may hold, become U+FFFD."""
    message: dict[str, object] = {"role": "assistant", "content": whole(text)}
    if reasoning:
        message["reasoning"] = whole(reasoning)
    if calls:
        message["tool_calls"] = [
            {"id": whole(c.id), "name": whole(c.name), "arguments": _arguments(c.arguments)} for c in calls
        ]
    return freeze(message)


def read(conversation: Conversation, message: FrozenJson) -> Reading:
    """What the answer ``message`` asks for. Arguments that are no JSON object stay raw text in the ``ToolRequest``, for
    its schema to refuse; a ``complete`` that cannot be read is no completion, and the next correction says why."""
    calls = _calls(message)
    own = [c for c in calls if conversation.structured == "tool" and c["name"] == COMPLETE]
    others = [c for c in calls if c not in own]
    if others:
        return Reading(requests=tuple(_tool_request(c) for c in others))
    if len(own) > 1:
        return Reading(problem=f"`{COMPLETE}` was called {len(own)} times in one answer; call it once")
    if own:
        return _completion_of(conversation, own[0]["arguments"])
    if conversation.structured == "tool":
        return Reading(problem=f"the answer called no tool; only `{COMPLETE}` ends the task")
    text = str(message.get("content", "")) if isinstance(message, Mapping) else ""
    return _completion_in(conversation, text)


def asked_in(conversation: Conversation, message: FrozenJson) -> tuple[ToolRequest | Completion, ...]:
    """What the answer ``message`` asks for, as the events of its turn."""
    reading = read(conversation, message)
    return (*reading.requests, *([] if reading.completion is None else [reading.completion]))


def replayed(conversation: Conversation, turn: Turn, message: FrozenJson) -> tuple[Conversation, tuple[TurnEvent, ...]]:
    """The conversation after ``turn`` was answered with ``message``, and the turn's events without deltas and result. How
    the endpoint named the end is not known any more. ``ProviderError(binding-drift)`` for what does not fit together."""
    try:
        heard = hear(conversation, turn)
    except ValueError as error:
        raise ProviderError(
            Code.BINDING_DRIFT,
            f"the recorded session does not fit together: {error}",
            remedy="continue with the Runner that began this session",
        ) from None
    finish = "tool_calls" if _calls(message) else "stop"
    events = (CallIntent(request=request(heard)), *asked_in(heard, message), TurnEnded(finish=finish))
    return answered(heard, message), events


def as_object(schema: FrozenJson) -> FrozenJson:
    """``schema``, or, where it is not an object's, one of an object with the result under ``result``."""
    if not _wraps(schema):
        return schema
    hoisted = {k: schema[k] for k in ("$defs", "definitions") if isinstance(schema, Mapping) and k in schema}
    wrapper = {"type": "object", "properties": {WRAPPED: schema}, "required": [WRAPPED], "additionalProperties": False}
    return freeze({**wrapper, **hoisted})


def whole(text: str) -> str:
    """``text`` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# --- turns -----------------------------------------------------------------------------------------------------------


def _user(text: str) -> FrozenJson:
    return freeze({"role": "user", "content": text})


def _tool_message(call: Mapping[str, FrozenJson], text: str) -> FrozenJson:
    return freeze({"role": "tool", "tool_call_id": call["id"], "content": text})


def _after_prompt(call: Mapping[str, FrozenJson]) -> str:
    return "Accepted." if call["name"] == COMPLETE else "Not run."


def _results(open_calls: tuple[Mapping[str, FrozenJson], ...], turn: ToolResults) -> list[FrozenJson]:
    """One tool message for each open call, in the order of the calls; a premature ``complete`` is told so."""
    left = list(turn.results)
    said = []
    for call in open_calls:
        if left and left[0].id == call["id"]:
            said.append(_tool_message(call, left.pop(0).text))
        elif call["name"] == COMPLETE:
            text = f"Not accepted: call `{COMPLETE}` alone, after the results of the other tools."
            said.append(_tool_message(call, text))
        else:
            raise ValueError(f"the tool call {call['id']!r} has no result in its place")
    if left:
        raise ValueError(f"the result {left[0].id!r} answers no open tool call")
    return said


def _correction(conversation: Conversation, findings: tuple[str, ...]) -> str:
    problem = read(conversation, conversation.messages[-1]).problem if conversation.messages else ""
    lines = [f"- {line}" for line in (problem, *findings) if line]
    return "\n".join(["The result was not accepted:", *lines, _AGAIN[conversation.structured]])


def _open_calls(conversation: Conversation) -> tuple[Mapping[str, FrozenJson], ...]:
    return _calls(conversation.messages[-1]) if conversation.messages else ()


def _calls(message: FrozenJson) -> tuple[Mapping[str, FrozenJson], ...]:
    calls = message.get("tool_calls", ()) if isinstance(message, Mapping) else ()
    return tuple(c for c in calls if isinstance(c, Mapping)) if isinstance(calls, tuple) else ()


# --- answers ---------------------------------------------------------------------------------------------------------


def _arguments(raw: str) -> FrozenJson:
    """The JSON object in ``raw``, or ``raw`` itself. Endpoints write nothing at all for a call without arguments."""
    if not raw.strip():
        return freeze({})
    try:
        value = freeze(parse(raw), depth=NESTING_RESERVE)
    except ValueError:
        return whole(raw)
    return value if isinstance(value, Mapping) else whole(raw)


def _tool_request(call: Mapping[str, FrozenJson]) -> ToolRequest:
    return ToolRequest(id=str(call["id"]), name=str(call["name"]), arguments=call["arguments"])


def _completion_of(conversation: Conversation, arguments: FrozenJson) -> Reading:
    """The result in the arguments of ``complete``."""
    if not isinstance(arguments, Mapping):
        return Reading(problem=f"the arguments of `{COMPLETE}` are not one JSON object")
    return _unwrapped(conversation, arguments)


def _completion_in(conversation: Conversation, text: str) -> Reading:
    """The result in a whole answer (``json_schema``) or in its final fenced block (``text``)."""
    if conversation.structured == "text":
        block = _final_block(text)
        if block is None:
            return Reading(problem="the answer does not end with a fenced ```json block")
        text = block
    try:
        value = freeze(parse(text), depth=NESTING_RESERVE)
    except ValueError as error:
        return Reading(problem=f"the answer is not JSON: {error}")
    if conversation.structured == "json_schema":
        return _unwrapped(conversation, value)
    return Reading(completion=Completion(value=value))


def _final_block(text: str) -> str | None:
    """What stands between the last ``json`` fence and the closing fence that ends ``text``. A fence has a line of its own,
    which no text inside JSON strings can have: there a newline is escaped."""
    lines = text.rstrip().split("\n")
    opening = max((i for i, line in enumerate(lines) if line.strip() == "```json"), default=None)
    if opening is None or lines[-1].strip() != "```":
        return None
    return "\n".join(lines[opening + 1 : -1])


def _unwrapped(conversation: Conversation, value: FrozenJson) -> Reading:
    if not _wraps(conversation.result_schema):
        return Reading(completion=Completion(value=value))
    if not isinstance(value, Mapping) or WRAPPED not in value:
        return Reading(problem=f"the result must stand in an object, under {WRAPPED!r}")
    return Reading(completion=Completion(value=value[WRAPPED]))


def _wraps(schema: FrozenJson) -> bool:
    return not (isinstance(schema, Mapping) and schema.get("type") == "object")
