"""The canonical request in the words of Chat Completions. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from providers.chat import as_object
from runner.contract.canonical import FrozenJson, canonical, thaw

SCHEMA_NAME: Final = "result"


def wire_messages(request: FrozenJson) -> list[dict[str, Any]]:
    """The request's messages, in order. ``reasoning`` goes back as ``reasoning_content``, which thinking modes demand
    across tool turns and which langchain-openai would drop."""
    return [_message(message) for message in thaw(request)["messages"]]


def wire_tools(request: FrozenJson) -> list[dict[str, Any]]:
    """The tools as functions."""
    return [{"type": "function", "function": tool} for tool in thaw(request)["tools"]]


def response_format(request: FrozenJson) -> dict[str, Any] | None:
    """The schema that the endpoint holds the answer to, or None where it is not asked to."""
    if not isinstance(request, Mapping) or request["structured"] != "json_schema":
        return None
    schema = as_object(request["result_schema"])
    constraint = {"name": SCHEMA_NAME, "schema": thaw(schema), "strict": is_strict(schema)}
    return {"type": "json_schema", "json_schema": constraint}


def is_strict(schema: FrozenJson) -> bool:
    """Whether every object in ``schema`` is closed and requires all its properties, which strict mode demands."""
    if isinstance(schema, tuple):
        return all(is_strict(part) for part in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        required = schema.get("required", ())
        names = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False or not isinstance(required, tuple) or set(required) != names:
            return False
    return all(is_strict(part) for part in schema.values())


def _message(message: dict[str, Any]) -> dict[str, Any]:
    wire = {k: v for k, v in message.items() if k not in ("reasoning", "tool_calls")}
    if "reasoning" in message:
        wire["reasoning_content"] = message["reasoning"]
    if "tool_calls" in message:
        wire["tool_calls"] = [_call(call) for call in message["tool_calls"]]
        wire["content"] = message["content"] or None
    return wire


def _call(call: dict[str, Any]) -> dict[str, Any]:
    raw = call["arguments"]
    arguments = raw if isinstance(raw, str) else canonical(raw).decode()
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}
