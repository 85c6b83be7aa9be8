"""Whether a structured completion fits the action's JSON Schema, the only contract there is for a result."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry as NoReferences
from referencing.exceptions import Unresolvable

from runner.contract.canonical import FrozenJson, canonical, freeze, thaw
from runner.contract.errors import CallerError, Code
from runner.contract.schema_patterns import SchemaValidator
from runner.contract.text import excerpt

CORRECTIONS_MAX: Final = 1
"""Corrective turns in a row; a turn that used tools starts the count again."""
FINDINGS_MAX: Final = 20
FINDING_CHARS_MAX: Final = 500

NO_RESULT: Final = "no structured result was given; ordinary text does not count as the result"
SEVERAL_RESULTS: Final = "more than one structured result was given; give exactly one"
NO_TOOLS: Final = "there are no tools in this step; answer with the structured result itself"


class JsonContract:
    """One JSON Schema (2020-12). References stay inside the schema; nothing is fetched."""

    def __init__(self, schema: FrozenJson) -> None:
        """``CallerError(activation-invalid)`` for what is no JSON Schema."""
        self.schema: Final = schema
        try:
            Draft202012Validator.check_schema(thaw(schema))
        except SchemaError as error:
            raise CallerError(Code.ACTIVATION_INVALID, f"not a JSON Schema: {excerpt(error.message, 300)}") from None

    @cached_property
    def _validator(self) -> Any:
        return SchemaValidator(thaw(self.schema), registry=NoReferences())

    def findings(self, value: object) -> tuple[str, ...]:
        """Every way in which ``value`` does not fit, as ``place: problem`` in a fixed order, bounded; empty when it fits."""
        try:
            frozen = freeze(value)
        except ValueError as error:
            return (excerpt(str(error), FINDING_CHARS_MAX),)
        try:
            return _texts(self._validator.iter_errors(thaw(frozen)))
        except Unresolvable as error:
            return (f"$: the schema refers to {excerpt(str(error.ref), 200)}, which it does not hold",)
        except RecursionError:
            return ("$: the schema refers to itself without an end",)


def _texts(errors: Iterable[ValidationError]) -> tuple[str, ...]:
    found = sorted({f"{_place(e.absolute_path)}: {excerpt(e.message, FINDING_CHARS_MAX)}" for e in errors})
    more = len(found) - FINDINGS_MAX
    return (*found[:FINDINGS_MAX], *([f"... and {more} more"] if more > 0 else []))


def _place(path: Iterable[Any]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{excerpt(str(part), 80)}" for part in path)


def contract_text(schema: FrozenJson) -> str:
    """How a provider without structured output of its own is told the contract. The same text for the same schema."""
    return (
        "The result of this task is one JSON value that satisfies this JSON Schema:\n"
        f"{canonical(schema).decode()}\n"
        "When the work is done, end with exactly one fenced block marked json that holds this value and nothing else."
    )
