"""Chunks -> answer, signals, wire form and settings of the ``openai`` provider: its pure parts."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.openai.answer import CALLS_MAX, CHARS_MAX, Answer, AnswerReader, BadChunk
from providers.openai.redaction import Redacting, redacted_json
from providers.openai.settings import Options, Settings, read_settings, sampling
from providers.openai.signals import retry_after_s
from providers.openai.wire import is_strict
from runner.contract.canonical import freeze, thaw
from runner.contract.provider import Failure
from tests.providers.sessions import SCHEMA, SECRET


def read(*deltas: dict[str, Any], finish: str | None = "stop", **fields: Any) -> Answer | Failure:
    reader = AnswerReader()
    for delta in deltas:
        reader.add({"choices": [{"index": 0, "delta": delta}]})
    reader.add({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **fields})
    return reader.finish()


def fragment(arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": fields.pop("name")} if "name" in fields else {})}
    return {"tool_calls": [{"function": function, **fields}]}


def calls_of(answer: Answer | Failure) -> list[Any]:
    assert isinstance(answer, Answer)
    return [(c["id"], c["name"], c["arguments"]) for c in thaw(answer.message)["tool_calls"]]


def test_fragments_of_calls_come_together_in_every_dialect() -> None:
    """By index; by id where all calls have index 0; by order where there is no index; without an id, a name of our own."""
    whole = [("a", "read", {"p": 1}), ("b", "read", {"p": 2})]
    indexed = [fragment("", index=0, id="a", name="read"), fragment("", index=1, id="b", name="read")]
    interleaved = [
        fragment('{"p":', index=1),
        fragment('{"p":', index=0),
        fragment("1}", index=0),
        fragment("2}", index=1),
    ]
    assert calls_of(read(*indexed, *interleaved)) == whole
    assert (
        calls_of(
            read(fragment('{"p":1}', index=0, id="a", name="read"), fragment('{"p":2}', index=0, id="b", name="read"))
        )
        == whole
    )
    assert (
        calls_of(read(fragment('{"p"', id="a", name="read"), fragment(":1}"), fragment('{"p":2}', id="b", name="read")))
        == whole
    )
    assert calls_of(read(fragment("{}", name="read")))[0][0] == "unnamed-1"


@pytest.mark.parametrize(
    ("finish", "code"),
    [
        (None, "stream-ended"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("insufficient_system_resource", "unexpected-finish"),
    ],
)
def test_an_answer_that_did_not_end_well_is_a_failure(finish: str | None, code: str) -> None:
    """Never a short answer."""
    failed = read({"content": "some text"}, finish=finish)
    assert isinstance(failed, Failure) and failed.error_code == code


def test_a_refusal_is_a_failure_with_its_words() -> None:
    """Whatever the finish reason says."""
    failed = read({"refusal": "I will "}, {"refusal": "not."})
    assert isinstance(failed, Failure) and failed.error_code == "refusal" and "I will not." in failed.message


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, (None, None)),
        ({}, (None, None)),
        ({"prompt_tokens": 3}, (3, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (0, 0)),
        ({"prompt_tokens": "3", "completion_tokens": True}, (None, None)),
        ("many", (None, None)),
    ],
)
def test_tokens_that_were_not_reported_are_unknown(usage: Any, tokens: tuple[int | None, int | None]) -> None:
    """Unknown is not zero, and zero is not unknown."""
    answer = read({"content": "x"}, usage=usage)
    assert isinstance(answer, Answer) and (answer.input_tokens, answer.output_tokens) == tokens


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        [],
        {"choices": "x"},
        {"choices": ["x"]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"content": 3}}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": "f"}]}}]},
        {"model": 3},
    ],
)
def test_a_chunk_of_another_shape_is_named(chunk: Any) -> None:
    """Hostile shapes end in one error type, whatever they are."""
    with pytest.raises(BadChunk):
        AnswerReader().add(chunk)


def test_an_answer_without_an_end_is_cut_off() -> None:
    """Memory is bounded against an endpoint that streams for ever."""
    reader = AnswerReader()
    big = {"choices": [{"delta": {"content": "x" * (CHARS_MAX // 2)}}]}
    reader.add(big)
    reader.add(big)
    with pytest.raises(BadChunk, match="more than"):
        reader.add({"choices": [{"delta": {"content": "x"}}]})
    many = AnswerReader()
    with pytest.raises(BadChunk, match="tool calls"):
        for n in range(CALLS_MAX + 1):
            many.add({"choices": [{"delta": fragment("", index=n, id=str(n))}]})


def test_two_calls_with_one_id_are_refused() -> None:
    """A result could not be given to the right one."""
    twice = {"tool_calls": [{"index": i, "id": "a", "function": {"name": "read", "arguments": "{}"}} for i in (0, 1)]}
    failed = read(twice)
    assert isinstance(failed, Failure) and failed.error_code == "invalid-stream"


NOW = dt.datetime(2026, 11, 30, 12, 0, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT"}, 9.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT", "date": "Mon, 30 Nov 2026 12:00:05 GMT"}, 4.0),
    ],
)
def test_retry_after_is_understood_in_both_forms(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, or a date as the endpoint's own clock sees it; what cannot be understood is no wait."""
    assert retry_after_s(headers, NOW) == seconds


@pytest.mark.parametrize(
    "pieces", [[SECRET], list(SECRET), [SECRET[:5], SECRET[5:] + " tail"], ["a" + SECRET[:3], "b"]]
)
def test_streamed_text_never_shows_the_secret(pieces: list[str]) -> None:
    """However the chunks cut it; and text that only begins like it is not lost."""
    stream = Redacting(SECRET)
    shown = [stream.feed(piece) for piece in pieces] + [stream.rest()]
    assert "".join(shown) == "".join(pieces).replace(SECRET, "[redacted]")
    assert thaw(redacted_json(freeze({SECRET: [f"x{SECRET}"]}), SECRET)) == {"[redacted]": ["x[redacted]"]}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        (thaw(SCHEMA), False),
        ({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"type": "string"}, True),
    ],
)
def test_strict_mode_is_asked_only_for_schemas_that_it_takes(schema: Any, strict: bool) -> None:
    """Endpoints answer 400 to a strict schema with an open object or an optional property."""
    assert is_strict(freeze(schema)) is strict


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, "base_url"),
        ({"base_url": "api.example.com/v1"}, "base_url"),
        ({"base_url": "ftp://h/v1"}, "base_url"),
        ({"base_url": "http:///v1"}, "base_url"),
        ({"base_url": "http://h:99999/v1"}, "base_url"),
        ({"base_url": "https://user:pw@h/v1"}, "base_url"),
        ({"base_url": "https://h/v1?key=1"}, "base_url"),
        ({"base_url": "https://h/v1 x"}, "base_url"),
        ({"base_url": "http://h", "api_key": "k"}, "api_key"),
        ({"base_url": "http://h", "structured_output": "tool"}, "structured_output"),
        ({"base_url": "http://h", "request_timeout_s": 0}, "request_timeout_s"),
        ({"base_url": "http://h", "temperature": 3}, "temperature"),
        ({"base_url": "http://h", "prices": {"input_per_mtok": 1}}, "prices.output_per_mtok"),
        ({"base_url": "http://h", "headers": {"Authorization": "x"}}, "headers"),
        ({"base_url": "http://h", "headers": {"X-Api-Key": "x"}}, "headers"),
        ({"base_url": "http://h", "headers": {"Host": "x"}}, "headers"),
        ({"base_url": "http://h", "headers": {"X-A": "a\nb"}}, "headers"),
        ({"base_url": "http://h", "headers": [1]}, "headers"),
        ({"base_url": "http://h", "body": {"messages": []}}, "body"),
        ({"base_url": "http://h", "body": 3}, "body"),
        (None, "$"),
    ],
)
def test_settings_that_cannot_be_are_found_with_their_place(settings: Any, place: str) -> None:
    """One finding each, naming the field."""
    found = read_settings(freeze(settings))
    assert isinstance(found, tuple) and [f.place for f in found] == [place]


def test_what_nobody_chose_is_left_to_the_endpoint() -> None:
    """A binding wins over the settings; zero is a choice."""
    settings = Settings(base_url="http://h", temperature=0.5, seed=7)
    assert sampling(settings, Options(temperature=0.0)) == {"temperature": 0.0, "seed": 7}
    assert sampling(Settings(base_url="http://h"), Options()) == {}


NAMES = st.sampled_from(
    [
        "choices",
        "delta",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "id",
        "index",
        "usage",
        "model",
        "refusal",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(chunks=st.lists(JSON, max_size=4), finish=st.sampled_from(["stop", "tool_calls", "length", ""]))
def test_no_chunk_raises_anything_but_a_bad_chunk(chunks: list[Any], finish: str) -> None:
    """Any JSON may come: it is read, or refused with one error type; what was read is an answer or a failure."""
    reader = AnswerReader()
    try:
        for chunk in chunks:
            reader.add(chunk)
        reader.add({"choices": [{"delta": {}, "finish_reason": finish}]})
    except BadChunk:
        return
    assert isinstance(reader.finish(), Answer | Failure)
