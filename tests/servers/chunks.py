"""Scripted answers as the server-sent events of Chat Completions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FRAGMENT = 7
"""Characters per streamed piece: small, so that words, escapes and numbers are cut in the middle."""


@dataclass(frozen=True)
class Call:
    """One tool call; ``arguments`` is JSON, or text to be sent as it is. Without ``id`` it is ``call_<n>`` of the session."""

    name: str
    arguments: Any
    id: str | None = None


@dataclass(frozen=True)
class Text:
    """An answer in words."""

    text: str
    finish: str = "stop"
    reasoning: str = ""
    refusal: str = ""
    usage: tuple[int, int] | None = (11, 7)
    model: str | None = None
    done: bool = True


@dataclass(frozen=True)
class Calls:
    """An answer that asks for tools."""

    calls: tuple[Call, ...]
    text: str = ""
    finish: str = "tool_calls"
    reasoning: str = ""
    usage: tuple[int, int] | None = (11, 7)
    model: str | None = None


@dataclass(frozen=True)
class Result:
    """A structured result, offered in the way that the request asks for: the ``complete`` tool, the whole answer, or a
    final fenced block."""

    value: Any
    reasoning: str = ""
    usage: tuple[int, int] | None = (11, 7)
    model: str | None = None


@dataclass(frozen=True)
class Garbage:
    """The beginning of an answer, then a line that is no JSON."""

    line: str = '{"choices": [{"delta": {"content": "hal'


@dataclass(frozen=True)
class Raw:
    """Chunks as given (JSON values)."""

    chunks: tuple[Any, ...]
    done: bool = True


def chunks_of(reply: Any, body: Mapping[str, Any]) -> list[bytes]:
    """The events of ``reply`` to the request ``body``."""
    match reply:
        case Result():
            return chunks_of(_offered(reply, body), body)
        case Text():
            return _text(reply, body)
        case Calls():
            return _calls(reply, body)
        case Garbage(line=line):
            return [_event(_chunk(body, None, {"role": "assistant", "content": "so"})), f"data: {line}\n\n".encode()]
        case Raw(chunks=chunks, done=done):
            return [_event(c) for c in chunks] + ([b"data: [DONE]\n\n"] if done else [])
    raise AssertionError(f"not a streamed reply: {reply}")


def _offered(reply: Result, body: Mapping[str, Any]) -> Text | Calls:
    names = {tool["function"]["name"] for tool in body.get("tools", ())}
    more: dict[str, Any] = {"reasoning": reply.reasoning, "usage": reply.usage, "model": reply.model}
    if "complete" in names:
        return Calls(calls=(Call("complete", reply.value),), **more)
    text = json.dumps(reply.value, ensure_ascii=False)
    return Text(text if "response_format" in body else f"Here it is.\n\n```json\n{text}\n```", **more)


def _text(reply: Text, body: Mapping[str, Any]) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": part} for part in _parts(reply.reasoning)]
    deltas += [{"content": part} for part in _parts(reply.text)]
    deltas += [{"refusal": part} for part in _parts(reply.refusal)]
    events = [_event(_chunk(body, reply.model, delta)) for delta in deltas]
    return events + _end(reply, body, reply.finish, reply.done)


def _calls(reply: Calls, body: Mapping[str, Any]) -> list[bytes]:
    before = sum(len(m.get("tool_calls") or ()) for m in body["messages"])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": part} for part in _parts(reply.reasoning)]
    deltas += [{"content": part} for part in _parts(reply.text)]
    for index, call in enumerate(reply.calls):
        raw = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        id_ = f"call_{before + index + 1}" if call.id is None else call.id
        head = {"index": index, "id": id_, "type": "function", "function": {"name": call.name, "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in _parts(raw)]
    events = [_event(_chunk(body, reply.model, delta)) for delta in deltas]
    return events + _end(reply, body, reply.finish, True)


def _end(reply: Text | Calls, body: Mapping[str, Any], finish: str, done: bool) -> list[bytes]:
    events = [_event(_chunk(body, reply.model, {}, finish))] if finish else []
    if reply.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        prompt, completion = reply.usage
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        events.append(_event({**_chunk(body, reply.model, {}), "choices": [], "usage": usage}))
    return events + ([b"data: [DONE]\n\n"] if done else [])


def _chunk(
    body: Mapping[str, Any], model: str | None, delta: Mapping[str, Any], finish: str | None = None
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model or f"{body.get('model')}-2026",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _parts(text: str) -> list[str]:
    return [text[i : i + FRAGMENT] for i in range(0, len(text), FRAGMENT)]


def _event(value: Any) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
