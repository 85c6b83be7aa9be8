"""The one base for values that are read from or written to bytes."""

import json
from typing import Any, TypeVar

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
            return Finding(place=place, problem=str(error["msg"]), fix="")
