"""One byte form for every JSON value (RFC 8785), its SHA-256 digest, and deep freezing.

A canonical value has no NaN, no infinity, no integer beyond 2^53 - 1 in size (IEEE 754 doubles hold no more), no lone
surrogate in a string and only string keys; anything else raises ``ValueError`` naming the place.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final

import rfc8785
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from runner.contract.ids import Digest

FrozenJson = None | bool | int | float | str | tuple["FrozenJson", ...] | Mapping[str, "FrozenJson"]
INTEGER_MAX: Final = 2**53 - 1
INTEGER_SPELLING_END: Final = 1e21
"""From here on RFC 8785 writes an exponent. A whole double below it is written as an integer, and must be readable as one."""
DEPTH_MAX: Final = 64
"""Nesting that is accepted; deeper input would exhaust the stack of some reader."""


def freeze(value: object, place: str = "$", depth: int = 0) -> FrozenJson:
    """A deeply immutable copy (tuples and read-only mappings), or ``ValueError`` with the place of what is not JSON."""
    if depth > DEPTH_MAX:
        raise ValueError(f"{place}: nested deeper than {DEPTH_MAX}")
    match value:
        case None | bool():
            return value
        case int():
            if abs(value) > INTEGER_MAX:
                raise ValueError(f"{place}: {value} is beyond 2^53 - 1")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{place}: {value} is not a JSON number")
            if value.is_integer() and INTEGER_MAX < abs(value) < INTEGER_SPELLING_END:
                raise ValueError(f"{place}: {value} is beyond 2^53 - 1")
            return float(value)
        case str():
            return _text(value, place)
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise ValueError(f"{place}: the key {key!r} is not a string")
            return MappingProxyType({_text(k, place): freeze(v, f"{place}.{k}", depth + 1) for k, v in value.items()})
        case list() | tuple():
            return tuple(freeze(v, f"{place}[{i}]", depth + 1) for i, v in enumerate(value))
        case _:
            raise ValueError(f"{place}: {type(value).__name__} is not JSON")


def _text(value: str, place: str) -> str:
    if not value.isascii() and any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise ValueError(f"{place}: a lone surrogate is not text")
    return str(value)


def thaw(value: FrozenJson) -> Any:
    """A plain, mutable copy made of dict and list, for libraries that want exactly those."""
    if isinstance(value, Mapping):
        return {k: thaw(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [thaw(v) for v in value]
    return value


def canonical(value: object) -> bytes:
    """The RFC 8785 form of ``value`` in UTF-8."""
    return rfc8785.dumps(thaw(freeze(value)))


def digest(value: object) -> Digest:
    """``sha256:<hex>`` of the canonical form: equal values have equal digests on every machine."""
    return digest_bytes(canonical(value))


def digest_bytes(data: bytes) -> Digest:
    """``sha256:<hex>`` of raw bytes."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def parse(data: bytes | str) -> FrozenJson:
    """JSON text -> frozen value. Duplicate keys, NaN, over-large integers and bytes that are not UTF-8 are refused with
    ``ValueError``."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in pairs:
            if key in result:
                raise ValueError(f"the key {key!r} stands twice")
            result[key] = item
        return result

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return freeze(json.loads(text, object_pairs_hook=unique, parse_constant=refuse))
    except RecursionError:
        raise ValueError(f"nested deeper than {DEPTH_MAX}") from None


Json = Annotated[Any, BeforeValidator(freeze), PlainSerializer(thaw), WithJsonSchema({})]
"""A field of a model that holds any JSON value, frozen on the way in."""
