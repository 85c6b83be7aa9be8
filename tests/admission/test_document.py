"""YAML 1.2 as JSON with lines: no surprises in scalars, nothing that grows or runs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.admission.document import read_document
from runner.contract import limits


def test_plain_scalars_follow_yaml_1_2() -> None:
    """What YAML 1.1 turned into booleans, sexagesimal numbers and dates is text; keys are always text as written."""
    text = b"on: yes\noff: no\ntime: 12:30\nday: 2026-11-30\n1: 0o17\ntrue: ~\nx: 0x1F\nf: 1e3\ns: '1'\nn: null\nb: true\nu: 1_000\n"
    document, found = read_document(text, "p.yaml")
    assert found == ()
    assert document is not None
    assert document.value == {
        "on": "yes",
        "off": "no",
        "time": "12:30",
        "day": "2026-11-30",
        "1": 15,
        "true": None,
        "x": 31,
        "f": 1000.0,
        "s": "1",
        "n": None,
        "b": True,
        "u": "1_000",
    }
    assert document.place(("s",)) == "p.yaml:9"
    assert document.place(("s", "nothing", "here")) == "p.yaml:9"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (b"a: 1\nb: &x 2\n", 2, "anchors"),
        (b"a: 1\nb: *x\n", 2, "aliases"),
        (b"a: !!str 1\n", 1, "tags"),
        (b"a: !!python/object:os.system {}\n", 1, "tags"),
        (b"a: 1\n<<: {b: 1}\n", 2, "merging"),
        (b"a: 1\n---\nb: 2\n", 2, "second document"),
        (b"%YAML 1.1\n---\na: 1\n", 2, "YAML 1.2"),
        (b"? [a]\n: 1\n", 1, "key must be text"),
        (b"a:\n\tb: 1\n", 2, "not YAML"),
        (b"a: 'x\n", 2, "not YAML"),
        (b"a: \x01\n", 1, "not YAML"),
        (b"a: 1\nb: \xff\n", 2, "UTF-8"),
        (b"", 1, "empty"),
        ("a: 1\n".encode("utf-16"), 1, "UTF-8"),
        (b'a: 1\nb: "\\ud800"\n', 2, "half a character"),
        (b'a: 1\n"\\udc00": 2\n', 2, "half a character"),
        (b"a: 1\na: 2\n", 2, "stands twice"),
        (b"a: .nan\n", 1, "not a JSON number"),
        (b"a: 1e999\n", 1, "not a JSON number"),
        (b"a: 9007199254740993\n", 1, "beyond 2^53"),
        (b"a: " + b"9" * 6000 + b"\n", 1, "beyond 2^53"),
        (b"[" * 3000, 1, "nested deeper"),
        (b"- " * 200 + b"a", 1, "nested deeper"),
        (b"#" * (limits.PACKAGE_BYTES_MAX + 1), 1, "larger than"),
    ],
)
def test_what_is_not_plain_data_is_refused_at_its_line(text: bytes, line: int, problem: str) -> None:
    """Bombs, tags, duplicates and broken text give one clear finding each."""
    _, found = read_document(text, "p.yaml")
    assert [f.place for f in found] == [f"p.yaml:{line}"]
    assert problem in found[0].problem


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))),
        lambda c: st.lists(c, max_size=4) | st.dictionaries(st.text("abc<é", min_size=1), c, max_size=4),
        max_leaves=12,
    )
)
def test_json_is_read_as_what_it_is(value: object) -> None:
    """Any JSON document, however indented, has the same value here as for a JSON reader."""
    if "<<" in json.dumps(value):
        return
    for indent in (None, 2, "\t"):
        document, found = read_document(json.dumps(value, indent=indent, ensure_ascii=False).encode(), "p.json")
        assert found == ()
        assert document is not None
        assert document.value == value
