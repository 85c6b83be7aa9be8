"""JSON Schema 2020-12 as this language takes it: known keywords only, references inside the same schema only.

A misspelt keyword would silently allow everything, and a remote reference would make a Delivery depend on the network, so both
are refused. The shape of a schema is itself checked by the ``jsonschema`` library against one flat meta-schema.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError

from runner.contract.canonical import FrozenJson, canonical, parse, thaw
from runner.contract.errors import Finding
from runner.contract.schema_patterns import SchemaValidator, pattern_problem
from runner.interpreter.topology import components, is_loop

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MESSAGE_CHARS_MAX: Final = 300
PROBLEMS_MAX: Final = 20

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_NUMBER: Final = {"type": "number"}
_FLAG: Final = {"type": "boolean"}
_SCHEMA: Final = {"$ref": "#"}
_SCHEMAS: Final = {"type": "array", "minItems": 1, "items": _SCHEMA}
_NAMED: Final = {"type": "object", "additionalProperties": _SCHEMA}
_TEXTS: Final = {"type": "array", "items": _TEXT, "uniqueItems": True}
_TYPE: Final = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}

_ONE: Final = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
_ONE_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_BY_NAME: Final = ("$defs", "dependentSchemas", "patternProperties", "properties")
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not")
"""Keywords that judge the same value again; a reference cycle through these alone would never end."""

_KEYWORDS: Final[dict[str, Any]] = {
    "$schema": {"const": DIALECT},
    "$id": _TEXT,
    "$ref": _TEXT,
    "$anchor": _TEXT,
    "$comment": _TEXT,
    "title": _TEXT,
    "description": _TEXT,
    "default": True,
    "examples": {"type": "array"},
    "deprecated": _FLAG,
    "readOnly": _FLAG,
    "writeOnly": _FLAG,
    "type": {"anyOf": [_TYPE, {"type": "array", "items": _TYPE, "minItems": 1, "uniqueItems": True}]},
    "enum": {"type": "array", "minItems": 1},
    "const": True,
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _NUMBER),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _COUNT),
    **dict.fromkeys(("maxContains", "minContains"), _COUNT),
    "pattern": _TEXT,
    "format": _TEXT,
    "contentEncoding": _TEXT,
    "contentMediaType": _TEXT,
    "uniqueItems": _FLAG,
    "required": _TEXTS,
    "dependentRequired": {"type": "object", "additionalProperties": _TEXTS},
    **dict.fromkeys((*_ONE, *_ONE_UNEVALUATED), _SCHEMA),
    **dict.fromkeys(_MANY, _SCHEMAS),
    **dict.fromkeys(_BY_NAME, _NAMED),
}
_META: Final = Draft202012Validator(
    {"type": ["object", "boolean"], "properties": _KEYWORDS, "additionalProperties": False}
)


def schema_findings(schema: FrozenJson, place: str) -> tuple[Finding, ...]:
    """Everything that is wrong with ``schema`` itself, each at its dotted place below ``place``."""
    return tuple(
        Finding(place=".".join((place, *path)), problem=problem, fix=fix)
        for path, problem, fix in _problems(canonical(schema))
    )


def foreign_schema_findings(schema: FrozenJson, place: str) -> tuple[Finding, ...]:
    """As ``schema_findings``, for a schema that a tool server wrote: a keyword that JSON Schema does not have says nothing."""
    try:
        Draft202012Validator.check_schema(thaw(schema))
    except SchemaError as error:
        return (Finding(place=place, problem=f"is no JSON Schema: {error.message:.200}", fix=""),)
    return tuple(Finding(place=".".join((place, *p)), problem=what, fix=fix) for p, what, fix in _meaning(thaw(schema)))


def value_findings(schema: FrozenJson, value: FrozenJson, place: str) -> tuple[Finding, ...]:
    """What in ``value`` does not fit ``schema`` (which has no findings itself), at most ``PROBLEMS_MAX`` of it."""
    found = []
    for error in _validator(canonical(schema)).iter_errors(thaw(value)):
        found.append(Finding(place=".".join((place, *map(str, error.absolute_path))), problem=_message(error), fix=""))
        if len(found) == PROBLEMS_MAX:
            break
    return tuple(found)


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    return SchemaValidator(thaw(parse(schema)))


def _message(error: ValidationError) -> str:
    message = error.message
    return message if len(message) <= MESSAGE_CHARS_MAX else message[:MESSAGE_CHARS_MAX] + "…"


Problem = tuple[tuple[str, ...], str, str]


@lru_cache(maxsize=1024)
def _problems(schema: bytes) -> tuple[Problem, ...]:
    """Cached by content: workflows use the same few schemas again and again."""
    value = thaw(parse(schema))
    shape = tuple(_shape(value))
    return shape or tuple(_meaning(value))


def _shape(value: Any) -> Iterator[Problem]:
    for error in _META.iter_errors(value):
        path = tuple(map(str, error.absolute_path))
        if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
            for key in sorted(set(error.instance) - set(_KEYWORDS)):
                yield (
                    (*path, key),
                    f"{key!r:.100} is not a keyword of JSON Schema 2020-12",
                    "correct its spelling or remove it",
                )
        elif error.validator == "anyOf":
            yield path, f"{error.instance!r:.100} is not a type", f"use {', '.join(_TYPE['enum'])}"
        else:
            yield path, _message(error), "see json-schema.org/draft/2020-12"


def _meaning(root: Any) -> Iterator[Problem]:
    """What only shows once the shape is right: patterns that do not compile, references to nothing or to themselves."""
    schemas = dict(_walk(root, ()))
    anchors = {s["$anchor"]: path for path, s in schemas.items() if isinstance(s, dict) and "$anchor" in s}
    jumps: dict[Path, list[Path]] = {}
    for path, schema in schemas.items():
        if not isinstance(schema, dict):
            continue
        if path and "$id" in schema:
            yield (*path, "$id"), "only the outermost schema may have an '$id'", "remove it"
        yield from _patterns(path, schema)
        jumps[path] = list(_same_value(path, schema))
        if "$ref" in schema:
            target = _target(schema["$ref"], anchors)
            if target in schemas:
                jumps[path].append(target)
            else:
                problem = f"{schema['$ref'][:100]!r} leads nowhere inside this schema"
                yield (*path, "$ref"), problem, "use '#/$defs/NAME'; other documents are never read"
    parts = [schema for schema in schemas.values() if isinstance(schema, dict)]
    if all(any(word in schema for schema in parts) for word in ("patternProperties", "unevaluatedProperties")):
        yield (
            (),
            "'unevaluatedProperties' and 'patternProperties' cannot stand in one schema",
            "use 'additionalProperties'",
        )
    for path in _endless(jumps):
        yield (
            path,
            "this schema refers to itself without ever reaching a part of the value",
            "put the reference below a property",
        )


Path = tuple[str, ...]


def _walk(schema: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every schema inside ``schema`` with where it stands, itself first."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in _ONE or keyword in _ONE_UNEVALUATED:
            yield from _walk(value, (*path, keyword))
        elif keyword in _MANY:
            for index, item in enumerate(value):
                yield from _walk(item, (*path, keyword, str(index)))
        elif keyword in _BY_NAME:
            for name, item in value.items():
                yield from _walk(item, (*path, keyword, name))


def _patterns(path: Path, schema: dict[str, Any]) -> Iterator[Problem]:
    for pattern in (*([schema["pattern"]] if "pattern" in schema else ()), *schema.get("patternProperties", ())):
        problem = pattern_problem(pattern)
        if problem is not None:
            yield (
                (*path, "pattern"),
                f"{pattern[:100]!r} is not a regular expression that is taken here: {problem:.200}",
                "correct it; lookaround and references to groups are not part of the language",
            )


def _same_value(path: Path, schema: dict[str, Any]) -> Iterator[Path]:
    for keyword in _IN_PLACE:
        if keyword in _MANY:
            yield from ((*path, keyword, str(index)) for index in range(len(schema.get(keyword, ()))))
        elif keyword in schema:
            yield (*path, keyword)
    yield from ((*path, "dependentSchemas", name) for name in schema.get("dependentSchemas", ()))


def _target(reference: str, anchors: Mapping[str, Path]) -> Path | None:
    """Where a local reference points: ``#``, a JSON pointer ``#/a/b`` or an ``#anchor``."""
    if reference == "#":
        return ()
    if reference.startswith("#/"):
        parts = reference[2:].split("/")
        return tuple(unquote(part).replace("~1", "/").replace("~0", "~") for part in parts)
    return anchors.get(reference[1:]) if reference.startswith("#") else None


def _endless(jumps: Mapping[Path, list[Path]]) -> Iterator[Path]:
    """One schema of every cycle that stays at the same value."""
    places = {path: number for number, path in enumerate(jumps)}
    edges = [[places[t] for t in targets if t in places] for targets in jumps.values()]
    paths = list(jumps)
    yield from (paths[part[0]] for part in components(edges) if is_loop(part, edges))
