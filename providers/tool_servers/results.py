"""What a server says -> values of ours. Pure."""

import json
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types

from providers.tool_servers.live import DESCRIPTION_CHARS_MAX, PARAMETERS_BYTES_MAX, Unreachable
from runner.contract.canonical import canonical, freeze
from runner.contract.ports import OfferedTool
from runner.contract.provider import ToolOutcome
from runner.contract.text import excerpt

NAME_CHARS_MAX: Final = 200
_RESERVED: Final = range(-32768, -31999)
"""Codes of JSON-RPC itself, its libraries and transports."""


def offered(name: str, description: str, parameters: object, redact: Callable[[str], str]) -> OfferedTool:
    """A description made safe to show, always in the same way; ``Unreachable`` for one that cannot be used."""
    shown = excerpt(name, NAME_CHARS_MAX)
    if not name or shown != name:
        raise Unreachable(f"it offers a tool with the unusable name {shown!r}")
    try:
        frozen = freeze(parameters)
        size = len(canonical(frozen))
    except ValueError as error:
        raise Unreachable(f"the parameters of its tool {shown} are no JSON: {error}") from None
    if size > PARAMETERS_BYTES_MAX:
        raise Unreachable(f"the parameters of its tool {shown} are larger than {PARAMETERS_BYTES_MAX} bytes")
    return OfferedTool(remote=name, description=excerpt(redact(description), DESCRIPTION_CHARS_MAX), parameters=frozen)


def outcome_of(result: types.CallToolResult) -> ToolOutcome:
    """Texts in order, one below the other, and the structured content as JSON unless a text says it already."""
    parts = [_shown(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(json.dumps(structured, ensure_ascii=False, sort_keys=True))
    return ToolOutcome(ok=not result.is_error, text="\n".join(parts))


def is_refusal(code: int) -> bool:
    """Whether an error answer with ``code`` is a result: the tool refused, or it does not exist, or the arguments do not fit.
    Any other code that JSON-RPC reserves says nothing of what was done."""
    return code in (types.METHOD_NOT_FOUND, types.INVALID_PARAMS) or code not in _RESERVED


def _says(part: str, structured: Any) -> bool:
    try:
        return bool(json.loads(part) == structured)
    except (ValueError, RecursionError):
        return False


def _shown(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent(text=text):
            return text
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case types.ResourceLink(uri=uri):
            return f"[resource {uri}]"
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type} {block.mime_type}, {len(block.data)} characters of base64, not shown]"
        case _:
            return f"[{block.type}, not shown]"
