"""Schemas: known keywords, local references, and the same verdict as the library on what both judge."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator, SchemaError

from runner.contract.canonical import FrozenJson, freeze
from runner.interpreter.schemas import schema_findings, value_findings


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "null"], "minLength": 1, "pattern": "^a", "format": "date"},
        {"$defs": {"n": {"$anchor": "x", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#x"},
        {"properties": {"minLenght": {"type": "string"}}, "required": ["minLenght"], "dependentRequired": {"a": ["b"]}},
        {"prefixItems": [True, {"const": {"any": 1}}], "unevaluatedItems": False, "contains": {}, "maxContains": 2},
    ],
)
def test_ordinary_schemas_have_no_findings(schema: Any) -> None:
    """Property names are not mistaken for keywords; local references of every form resolve."""
    assert schema_findings(freeze(schema), "s") == ()
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "place", "problem"),
    [
        ({"properties": {"a": {"minLenght": 1}}}, "s.properties.a.minLenght", "not a keyword"),
        ({"type": "strin"}, "s.type", "not a type"),
        ({"required": "a"}, "s.required", "not of type 'array'"),
        ({"minLength": -1}, "s.minLength", "minimum"),
        (5, "s", "not of type"),
        ({"pattern": "("}, "s.pattern", "regular expression"),
        ({"pattern": "(?=a)"}, "s.pattern", "look-around"),
        ({"patternProperties": {r"(a)\1": {}}}, "s.pattern", "backreferences"),
        ({"properties": {"a": {"patternProperties": {"a": {}}}}, "unevaluatedProperties": False}, "s", "cannot stand"),
        ({"$ref": "http://example.invalid/x"}, "s.$ref", "leads nowhere"),
        ({"items": {"$ref": "#/$defs/gone"}}, "s.items.$ref", "leads nowhere"),
        ({"$ref": "#"}, "s", "refers to itself"),
        (
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
            "s.$defs.a",
            "refers to itself",
        ),
        ({"items": {"$id": "x"}}, "s.items.$id", "outermost"),
        ({"$dynamicRef": "#a"}, "s.$dynamicRef", "not a keyword"),
    ],
)
def test_what_would_silently_allow_everything_is_found(schema: FrozenJson, place: str, problem: str) -> None:
    """Each mistake is named at its place."""
    found = schema_findings(freeze(schema), "s")
    assert any(f.place.startswith(place) and problem in f.problem for f in found), found


def test_every_schema_the_library_refuses_is_refused() -> None:
    """The flat meta-schema is no laxer than the official one."""
    wrongs: tuple[dict[str, Any], ...] = (
        {"type": "x"},
        {"enum": 1},
        {"allOf": []},
        {"properties": {"a": 1}},
        {"multipleOf": 0},
        {"items": []},
    )
    for wrong in wrongs:
        with pytest.raises(SchemaError):
            Draft202012Validator.check_schema(wrong)
        assert schema_findings(freeze(wrong), "s")


def test_values_are_judged_with_places() -> None:
    """A value's problems carry the path into the value."""
    schema = freeze({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})
    found = value_findings(schema, freeze({"a": [1, "x"]}), "input")
    assert [f.place for f in found] == ["input.a.1"]


JUDGED: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"pattern": "b"}, "abc"),
    ({"pattern": "^b"}, "abc"),
    ({"pattern": "^[a-z]+$"}, "abc"),
    ({"pattern": "^[a-z]+$"}, 7),
    ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": 1, "y": "z"}),
    ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": "one", "ax": "two"}),
    ({"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False}, {"a": 1, "x": 2}),
    ({"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False}, {"a": 1, "b": 2}),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, {"a": "1", "b": "2", "c": 3}),
    ({"additionalProperties": False}, [1]),
    ({"additionalProperties": True}, {"a": 1}),
)


@pytest.mark.parametrize(("schema", "value"), JUDGED)
def test_patterns_judge_as_the_library_does(schema: dict[str, Any], value: Any) -> None:
    """Another engine, the same verdict at the same places."""
    library = [".".join(("v", *map(str, e.absolute_path))) for e in Draft202012Validator(schema).iter_errors(value)]
    assert [f.place for f in value_findings(freeze(schema), freeze(value), "v")] == library


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
        ({"patternProperties": {"^(a|a)*$": False}}, {"a" * 100_000 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 100_000 + "!": 1}),
    ],
)
def test_no_answer_can_make_a_pattern_hang(schema: dict[str, Any], value: Any) -> None:
    """What an agent says is hostile: text on which Python's engine would try until the end of days is judged at once."""
    assert schema_findings(freeze(schema), "s") == ()
    value_findings(freeze(schema), freeze(value), "v")
