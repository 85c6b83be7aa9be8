"""The one base for values that are read from or written to bytes."""

import json
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from runner.contract.canonical import FrozenJson, freeze, thaw
from runner.contract.errors import Finding


class Frozen(BaseModel):
    """Immutable, strict (no coercion), closed (an unknown field is an error)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def to_json(self) -> FrozenJson:
        """The plain JSON value, every field present."""
        return freeze(self.model_dump(mode="json"))


M = TypeVar("M", bound=BaseModel)


def read_model(model: type[M], value: FrozenJson) -> M | tuple[Finding, ...]:
    """``value`` as ``model``, or every problem in it with its dotted field path."""
    try:
        return model.model_validate_json(json.dumps(thaw(value)))
    except ValidationError as error:
        return tuple(_finding(e) for e in error.errors(include_url=False))


def _finding(error: Any) -> Finding:
    place = ".".join(str(part) for part in error["loc"]) or "$"
    match error["type"]:
        case "extra_forbidden":
            return Finding(place=place, problem="is not a known key", fix="remove it or correct its spelling")
        case "missing":
            return Finding(place=place, problem="is missing", fix="add it")
        case _:
            problem = str(error["msg"]).removeprefix("Value error, ")
            return Finding(place=place, problem=problem, fix=how_to_mend(error))


_WANTED: Final = {
    "string_type": "write text, in quotes where it looks like something else",
    "int_type": "write a whole number",
    "float_type": "write a number",
    "bool_type": "write true or false",
    "tuple_type": "write a list",
    "list_type": "write a list",
    "dict_type": "write a map of keys",
    "model_type": "write a map of keys",
    "model_attributes_type": "write a map of keys",
}


def how_to_mend(error: Any) -> str:
    """What to write instead, for one of pydantic's errors; empty where its message says it already."""
    if error["type"] in ("literal_error", "enum"):
        return f"write {error['ctx']['expected']}"
    return _WANTED.get(error["type"], "")
