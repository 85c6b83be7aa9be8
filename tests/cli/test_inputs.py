"""Words of the command line as values, or one clear refusal."""

from pathlib import Path

import pytest

from runner.cli.inputs import parse_inputs
from runner.contract.errors import CallerError, Code


def test_forms(tmp_path: Path) -> None:
    """Text, a file's text, JSON, and a whole object."""
    (tmp_path / "t.txt").write_text("line\n")
    (tmp_path / "all.json").write_text('{"x": true, "y": null}')
    given = parse_inputs(["task=a=b: c", f"text=@{tmp_path}/t.txt", 'n:={"a": [1]}', f"@{tmp_path}/all.json", "e="])
    assert given.texts == {"task": "a=b: c", "text": "line\n", "e": ""}
    assert given.values == {"n": {"a": (1,)}, "x": True, "y": None}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("novalue", "not of the form"),
        ("=x", "not of the form"),
        (":=1", "not of the form"),
        ("n:=one", "not JSON"),
        ('n:={"a":1,"a":2}', "stands twice"),
        ("t=@/no/such/file", "cannot be read"),
        ("@/no/such/file", "cannot be read"),
        ("t=@/dev/null", "not a regular file"),
        ("t=@", "cannot be read"),
        ("n:=99999999999999999999", "beyond 2^53"),
    ],
)
def test_refused(word: str, says: str) -> None:
    """Each mistake is named; it is the caller's."""
    with pytest.raises(CallerError, match=says.replace("^", r"\^")) as caught:
        parse_inputs([word])
    assert caught.value.code is Code.INPUT_INVALID and caught.value.remedy


def test_given_twice() -> None:
    """Two values for one name are not resolved by order."""
    with pytest.raises(CallerError, match="given twice"):
        parse_inputs(["a=1", "a=2"])
