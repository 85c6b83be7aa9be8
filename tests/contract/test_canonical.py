"""Canonical JSON, digests and freezing."""

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract.canonical import DEPTH_MAX, INTEGER_MAX, canonical, digest, digest_bytes, freeze, parse, thaw

# RFC 8785, appendix B: the double and its only spelling.
NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (5e-324, "5e-324"),
    (-5e-324, "-5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (-1.7976931348623157e308, "-1.7976931348623157e+308"),
    (9.999999999999997e22, "9.999999999999997e+22"),
    (1e23, "1e+23"),
    (1.0000000000000001e23, "1.0000000000000001e+23"),
    (1e21, "1e+21"),
    (9.999999999999997e-7, "9.999999999999997e-7"),
    (1e-6, "0.000001"),
    (333333333.33333319, "333333333.3333332"),
    (333333333.33333325, "333333333.33333325"),
    (-0.0000033333333333333333, "-0.0000033333333333333333"),
    (1424953923781206.2, "1424953923781206.2"),
    (4.50, "4.5"),
    (2e-3, "0.002"),
    (1e30, "1e+30"),
    (1e-27, "1e-27"),
    (float(INTEGER_MAX), str(INTEGER_MAX)),
]


@pytest.mark.parametrize(("number", "spelling"), NUMBERS)
def test_a_number_has_the_one_spelling_of_the_standard(number: float, spelling: str) -> None:
    """Doubles are written as RFC 8785 writes them."""
    assert canonical(number) == spelling.encode()


def test_the_example_of_the_standard() -> None:
    """RFC 8785, 3.2.2 and 3.2.4: literals, numbers, escapes and member order."""
    text = (
        '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'
    )
    assert canonical(parse(text)).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_only_utf8_is_read(encoding: str) -> None:
    """One document has one form: other encodings of the same text are refused."""
    with pytest.raises(ValueError, match=r"utf-8|BOM|Expecting"):
        parse('{"a": "ö"}'.encode(encoding))


def test_members_are_ordered_by_utf16_units() -> None:
    """RFC 8785, 3.2.3: an emoji (a surrogate pair) stands before U+FB33 though its code point is larger."""
    keys = ["€", "\r", "\ufb33", "1", "\U0001f600", "\x80", "ö"]
    written = json.loads(canonical(dict.fromkeys(keys, 0)), object_pairs_hook=lambda pairs: [k for k, _ in pairs])
    assert written == ["\r", "1", "\x80", "ö", "€", "\U0001f600", "\ufb33"]


class Thing:
    """Not JSON."""


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "$"),
        ([math.inf], "$[0]"),
        ({"a": -math.inf}, "$.a"),
        (INTEGER_MAX + 1, "$"),
        (-INTEGER_MAX - 1, "$"),
        ({"big": [0, 2.0**53]}, "$.big[1]"),
        (1e20, "$"),
        ("\ud800", "$"),
        ({"\udfff": 1}, "$"),
        ({1: 2}, "$"),
        ({"a": {"b": [Thing()]}}, "$.a.b[0]"),
        (b"bytes", "$"),
        ({1, 2}, "$"),
        (datetime(2026, 1, 1), "$"),  # noqa: DTZ001 - what a caller may hand over by mistake
        (lambda: None, "$"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value: object, place: str) -> None:
    """No NaN, infinity, integer that a double cannot hold, lone surrogate, foreign key or foreign object."""
    with pytest.raises(ValueError) as caught:
        canonical(value)
    assert str(caught.value).startswith(f"{place}: ")


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "9007199254740992",
        "100000000000000000000",
        '"\\ud800"',
        "[" * 100_000,
        "[" * 100 + "]" * 100,
        "",
        "{} {}",
        "{'a': 1}",
        b"\xff\xfe\xff",
    ],
)
def test_text_that_is_not_this_json_is_refused(text: str | bytes) -> None:
    """Duplicate keys, numbers beyond doubles, deep nesting and broken text end in a ``ValueError``, whatever their size."""
    with pytest.raises(ValueError):
        parse(text)


def test_the_deepest_admitted_value_is_admitted() -> None:
    """The bound on nesting refuses only what is beyond it."""
    assert parse("[" * DEPTH_MAX + "]" * DEPTH_MAX) is not None


numbers = st.integers(-INTEGER_MAX, INTEGER_MAX) | st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda x: not (x.is_integer() and INTEGER_MAX < abs(x) < 1e21)
)
texts = st.text(st.characters(exclude_categories=("Cs",)))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_canonical_bytes_read_back_as_the_same_value(value: Any) -> None:
    """Whatever may be stored can be read back: equal value, equal bytes, equal digest."""
    frozen = freeze(value)
    written = canonical(frozen)
    assert parse(written) == frozen
    assert canonical(parse(written)) == written
    assert digest(thaw(frozen)) == digest_bytes(written)


@given(st.dictionaries(texts, values, min_size=2, max_size=6))
def test_member_order_does_not_matter(value: dict[str, Any]) -> None:
    """Two spellings of one object have one digest."""
    assert digest(dict(reversed(value.items()))) == digest(value)


def _containers(value: object) -> list[object]:
    """``value`` and every container below it."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [value, *(found for item in inner for found in _containers(item))]


@given(values)
def test_freezing_is_deep(value: Any) -> None:
    """No list and no dict is left anywhere in a frozen value."""
    assert not [found for found in _containers(freeze(value)) if isinstance(found, list | dict)]


def test_a_frozen_value_does_not_follow_its_source() -> None:
    """Freezing copies: later changes of what was frozen are not seen, and the copy refuses changes."""
    source: dict[str, Any] = {"list": [1, {"x": 1}]}
    frozen: Any = freeze(source)
    source["list"][1]["x"] = 2
    source["new"] = True
    assert thaw(frozen) == {"list": [1, {"x": 1}]}
    with pytest.raises(TypeError):
        frozen["new"] = 1
    with pytest.raises(TypeError):
        frozen["list"][1]["x"] = 3


def test_a_thawed_value_is_the_callers_own() -> None:
    """Changing a thawed copy changes nothing frozen."""
    frozen = freeze({"a": [1]})
    copy = thaw(frozen)
    copy["a"].append(2)
    assert thaw(frozen) == {"a": [1]}


def test_a_number_subclass_becomes_plain() -> None:
    """What is frozen holds only plain values: a subclass could change its spelling."""

    class Loud(int):
        def __repr__(self) -> str:
            return "loud"

    class Text(str):
        __slots__ = ()

    assert canonical([Loud(3), Text("t")]) == b'[3,"t"]'


def test_a_dataclass_is_not_json() -> None:
    """Values of the house are turned into JSON on purpose, never by accident."""

    @dataclasses.dataclass(frozen=True)
    class Value:
        x: int = 1

    with pytest.raises(ValueError, match=r"\$: Value is not JSON"):
        freeze(Value())
