"""Regular expressions of schemas, evaluated by the engine of the expressions: in time linear in the text.

Python's own engine tries again and again: ``^(a+)+$`` against forty characters of a model's answer would hang the Runner. What
cannot be done without trying again (lookaround, references to groups) is refused when the schema is read. As in ECMAScript,
a pattern may match anywhere, and ``$`` is the very end.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import cel
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

_MATCHES: Final = cel.compile("text.matches(pattern)")


@lru_cache(maxsize=1024)
def pattern_problem(pattern: str) -> str | None:
    """Why ``pattern`` cannot be used, or None."""
    try:
        matches(pattern, "")
    except ValueError as error:
        return str(error)
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether ``pattern`` matches somewhere in ``text``; ``ValueError`` saying why it cannot be used."""
    try:
        return bool(_MATCHES.execute({"text": text, "pattern": pattern}))
    except (RuntimeError, ValueError) as error:
        lines = [line.strip() for line in str(error).split("\n")]
        said = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1])
        raise ValueError(said.partition(". Check function arguments")[0]) from None


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, schema in patterns.items():
        for name, value in instance.items():
            if matches(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, extra: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    names = [name for name in instance if _is_additional(name, schema)]
    if validator.is_type(extra, "object"):
        for name in names:
            yield from validator.descend(instance[name], extra, path=name)
    elif extra is False and names:
        shown = ", ".join(map(repr, names))
        yield ValidationError(
            f"Additional properties are not allowed ({shown} {'was' if len(names) == 1 else 'were'} unexpected)"
        )


def _is_additional(name: str, schema: Mapping[str, Any]) -> bool:
    return name not in schema.get("properties", {}) and not any(
        matches(pattern, name) for pattern in schema.get("patternProperties", {})
    )


SchemaValidator: Final[Any] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
)
"""JSON Schema 2020-12 with these patterns. ``unevaluatedProperties`` beside ``patternProperties`` would still use Python's
engine; ``schemas`` refuses that."""
