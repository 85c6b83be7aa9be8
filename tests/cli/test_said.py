"""What a person says as words becomes values; a slip is refused, nothing is guessed."""

from collections.abc import Mapping
from typing import Any

import pytest

from runner.cli.attention import answer_text, choices
from runner.cli.person import DIFF_LINES_MAX, question_lines
from runner.cli.said import value_of, with_comment
from runner.contract.canonical import thaw
from runner.contract.errors import CallerError, Code
from runner.contract.outcomes import OpenWait
from tests.cli.records import text_of

DECISION = {"type": "string", "enum": ["approve", "reject"]}


def wait(schema: Any, outcome: str | None = None) -> OpenWait:
    fields = {"wait": "a@1", "kind": "approval", "step": "a@1", "prompt": "?", "since": "then", "outcome": outcome}
    return OpenWait.model_validate({**fields, "answer_schema": schema})


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("approve", "approve"),
        ("0", 0),
        ("-1", -1),
        ("true", True),
        ("null", None),
        ('"0"', "0"),
        ('{"exit": 0}', {"exit": 0}),
        ("two words", "two words"),
        ("", ""),
    ],
)
def test_words(word: str, value: Any) -> None:
    """JSON is JSON, any other text is itself."""
    assert thaw(value_of(word)) == value


@pytest.mark.parametrize("word", ['{"exit": 0', "[1,", '"open', '{"a": 1, "a": 2}'])
def test_slips(word: str) -> None:
    """What was meant as JSON and is none is not taken for text."""
    with pytest.raises(CallerError) as caught:
        value_of(word)
    assert caught.value.code is Code.ANSWER_INVALID


def test_comments() -> None:
    """A comment goes into the answer object, and is never lost or put over another."""
    asked = wait({"type": "object", "properties": {"decision": DECISION}}, "decision")
    assert with_comment(asked, "approve", None) == "approve"
    assert thaw(with_comment(asked, "approve", "fine")) == {"decision": "approve", "comment": "fine"}
    assert thaw(with_comment(asked, value_of('{"n": 1}'), "fine")) == {"n": 1, "comment": "fine"}
    for value in (value_of('{"comment": "x"}'), 3):
        with pytest.raises(CallerError):
            with_comment(asked, value, "fine")
    with pytest.raises(CallerError):
        with_comment(wait({"type": "string"}), "blue", "fine")


@pytest.mark.parametrize(
    ("schema", "outcome", "text", "words"),
    [
        (True, None, "any JSON", ()),
        ({"type": "string"}, None, "text", ()),
        ({"type": ["integer", "null"]}, None, "integer or null", ()),
        ({"enum": ["a", 1]}, None, "a | 1", ("a",)),
        (
            {"type": "object", "properties": {"d": DECISION, "n": {"type": "integer"}}, "required": ["d"]},
            "d",
            "d = approve | reject, n (optional integer)",
            ("approve", "reject"),
        ),
        ({"anyOf": [DECISION, {"type": "object"}]}, None, "approve | reject", ("approve", "reject")),
        ({"type": "object"}, "d", "object", ()),
    ],
)
def test_schemas_in_few_words(schema: Any, outcome: str | None, text: str, words: tuple[str, ...]) -> None:
    """What an answer may be, for people; whatever the schema, no error."""
    asked = wait(schema, outcome)
    assert (answer_text(asked), choices(asked)) == (text, words)


def test_a_question_is_bounded() -> None:
    """However long diff, lines and prompt are; the question itself comes last, where it is seen."""
    schema: Mapping[str, Any] = {"type": "string"}
    asked = wait(schema).model_copy(update={"prompt": "why?\n" * 1000})
    lines = text_of(question_lines(asked, "+" + "x" * 10_000 + "\n+y" * 1000)).splitlines()
    assert len(lines) < DIFF_LINES_MAX + 60 and max(map(len, lines)) < 500
    assert "  ... and 801 more lines" in lines and lines[-1] == "  answer: text"
