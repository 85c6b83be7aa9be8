"""Expressions: types kept, nothing silently empty, data never evaluated, everything bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract.canonical import FrozenJson, freeze
from runner.interpreter.expressions import ExpressionError, Reference, Template, TemplateError, evaluate_json

ROOTS = freeze(
    {
        "input": {
            "n": 1,
            "f": 1.5,
            "list": [1, 2, 3],
            "map": {"b": 1, "a": [], "c": None},
            "code": "{{ input.n }}",
            "s": "é",
        },
        "steps": {"plan": {"output": {"x": "y"}, "outcome": "success", "visit": 2}},
        "delivery": {"id": "d1"},
    }
)


def value(text: str, roots: FrozenJson = ROOTS) -> FrozenJson:
    assert hasattr(roots, "items")
    return Template.parse(text).evaluate(roots)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain } }} text", "plain } }} text"),
        ("{{ input.n }}", 1),
        ("{{ input.f }}", 1.5),
        ("{{ input.map.c }}", None),
        ("{{ input.list }}", (1, 2, 3)),
        (" {{ input.list }}", " [1,2,3]"),
        ("{{ input.s }}{{ input.n }}", "é1"),
        ("a {{ input.map }}", 'a {"a":[],"b":1,"c":null}'),
        ("{{ {'a': {'b': 1}}}}", freeze({"a": {"b": 1}})),
        ("{{ '}}' + \"{{\" }}", "}}{{"),
        ("{{ r'\\' + '''it's''' }}", "\\it's"),
        ("{{ has(steps.later) }}", False),
        ("{{ has(steps.plan) && steps.plan.visit == 2 }}", True),
        ("{{ has(steps.plan.output.x) }}", True),
        ("{{ input.list.filter(i, i > 1).map(i, i * 2) }}", (4, 6)),
        ("{{ [1].all(steps, steps == 1) }}", True),
        ("{{ delivery.id }}", "d1"),
    ],
)
def test_one_expression_keeps_its_type_and_anything_else_is_text(text: str, expected: FrozenJson) -> None:
    """A string that is exactly one expression has its value's type; in other text each part is its canonical text."""
    assert value(text) == expected


def test_text_that_comes_out_of_an_expression_is_not_evaluated_again() -> None:
    """Data that looks like an expression stays data."""
    assert value("{{ input.code }} {{ input.code }}") == "{{ input.n }} {{ input.n }}"
    assert evaluate_json(freeze({"a": ["{{ input.code }}"]}), ROOTS) == freeze({"a": ["{{ input.n }}"]})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ input.gone }}", "'gone' is missing"),
        ("x{{ steps.plan.output.gone }}", "'gone' is missing"),
        ("{{ steps.other.output }}", "'other' is missing"),
        ("{{ input.list[9] }}", "out of bounds"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'a' + 1 }}", "string + int"),
        ("{{ timestamp('2026-01-01T00:00:00Z') }}", "not JSON"),
        ("{{ b'x' }}", "not JSON"),
        ("{{ 0.0 / 0.0 }}", "not a JSON number"),
        ("{{ 9223372036854775807 }}", "beyond 2^53"),
        ("{{ {1: 2} }}", "not a string"),
    ],
)
def test_what_has_no_value_is_an_error_with_the_expression_and_the_reason(text: str, reason: str) -> None:
    """Nothing missing, wrong or outside JSON ever becomes an empty string."""
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert reason in caught.value.reason
    assert caught.value.expression.strip() in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ name }}", "'name' is not known"),
        ("{{ input.a", "never closed"),
        ("{{ }}", "is empty"),
        ("{{ 1 + }}", "Syntax error"),
        ("{{ $x }}", "'$' has no meaning"),
        ("{{ steps }}", "only be used as steps.<id>"),
        ("{{ steps['plan'] }}", "only be used as steps.<id>"),
        ("{{ (steps).plan }}", "only be used as steps.<id>"),
        ("{{ steps.map(s, s) }}", "only be used as steps.<id>"),
        ("{{ steps.plan.result }}", "no 'result'"),
        ("{{ delivery.path }}", "only 'id'"),
        ("{{ .input.a }}", "cannot begin with '.'"),
        ("{{ input{a: 1} }}", "messages"),
        ("{{ now() }}", "calls now()"),
        ("{{ optional.none() }}", "calls none()"),
        ("{{ runner_build_(input.list) }}", "calls runner_build_()"),
        ("{{ [1].map(a, [a].map(b, [b].map(c, c))) }}", "nests more than 2"),
        ("{{ " + "1+" * 1000 + "1 }}", "longer than"),
        ("{{ " + "(" * 900 + "1" + ")" * 900 + " }}", ""),
        ("{{ [1].map(x, x) + [x] }}", "'x' is not known"),
    ],
)
def test_what_is_not_part_of_the_language_is_found_before_anything_runs(text: str, reason: str) -> None:
    """Unknown roots, functions and syntax, and expressions too long or too deep, are refused when parsed."""
    with pytest.raises(TemplateError) as caught:
        Template.parse(text)
    assert reason in caught.value.reason
    assert "\n" not in caught.value.reason


def test_references_name_roots_steps_and_fields_but_not_bound_names() -> None:
    """What a template reads is known statically; names that a comprehension binds, and text in strings, are not reads."""
    text = "{{ steps.plan.output.x }} {{ [1].map(i, i + input.n) }} {{ 'steps.no' }} {{ has(steps.late) }}"
    assert Template.parse(text).references == {
        Reference("steps", "plan", "output"),
        Reference("input", None, "n"),
        Reference("steps", "late", None),
    }


def test_a_map_is_walked_in_the_order_of_its_keys() -> None:
    """Comprehensions over maps give the same list on every machine and in every process."""
    keys = [f"k{n}" for n in range(50)]
    roots = freeze({"input": dict.fromkeys(reversed(keys), 1)})
    assert value("{{ input.map(k, k) }}", roots) == tuple(sorted(keys))


@pytest.mark.parametrize(
    "text", ["{{ input.l.map(x, x).size() }}", "{{ input.s.all(x, input.l.map(y, y).size() > 0) }}"]
)
def test_work_is_bounded_by_what_is_walked_not_by_the_clock(text: str) -> None:
    """A list that an agent made long cannot stall the Runner: the evaluation is refused."""
    roots = freeze({"input": {"l": list(range(20_000)), "s": list(range(1000))}})
    with pytest.raises(ExpressionError, match="too many elements"):
        value(text, roots)


@given(st.text(alphabet="{}'\"ab.()[]in, rmap\\\n", max_size=60))
def test_any_text_parses_or_is_refused_with_a_reason(text: str) -> None:
    """No text crashes the scanner or the library; whatever parses evaluates to JSON or to an ExpressionError."""
    try:
        Template.parse(text).evaluate({"input": freeze({"a": 1})})
    except (TemplateError, ExpressionError) as error:
        assert error.reason


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-99, 99) | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    )
)
def test_values_pass_through_expressions_unchanged(data: object) -> None:
    """What goes in comes out, with its type."""
    assert value("{{ input }}", freeze({"input": data})) == freeze(data)
