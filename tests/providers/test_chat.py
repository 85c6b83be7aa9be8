"""The transcript: what a model sees, and what its answers ask for."""

import pytest

from providers import chat
from providers.chat import Conversation, Reading, ToolCall
from providers.recorded.factory import RecordedFactory
from runner.contract.canonical import canonical, freeze, thaw
from runner.contract.errors import CallerError
from runner.contract.provider import Completion, Correction, Prompt, ToolRequest, ToolResult, ToolResults, ToolSpec
from tests.providers.sessions import READ, SCHEMA, dispatch, executor

BOUND = executor(RecordedFactory())


def begin(structured: str = "tool", schema: object = SCHEMA) -> Conversation:
    tools = (READ,) if structured == "tool" else ()
    native: chat.Native = "text" if structured == "text" else "json_schema"
    return chat.begin(dispatch(BOUND, tools=tools, schema=schema, system="S"), native)


def calling(*calls: tuple[str, str, str], text: str = "") -> object:
    return chat.assistant(
        text=text, reasoning="", calls=tuple(ToolCall(id=i, name=n, arguments=a) for i, n, a in calls)
    )


def after(conversation: Conversation, message: object) -> Conversation:
    return chat.answered(chat.hear(conversation, Prompt(text="go")), freeze(message))


def test_the_canonical_bytes_of_a_request_never_change_by_accident() -> None:
    """Recordings are compared by these bytes: a change of form orphans every recording."""
    conversation = after(begin(), calling(("call_1", "read", '{"path": "a"}')))
    conversation = chat.hear(conversation, ToolResults(results=(ToolResult(id="call_1", ok=True, text="text"),)))
    request = thaw(chat.request(conversation))
    assert request["messages"] == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "name": "read", "arguments": {"path": "a"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "text"},
    ]
    assert [tool["name"] for tool in request["tools"]] == ["read", "complete"]
    assert request["tools"][1]["parameters"] == request["result_schema"] == thaw(SCHEMA)
    assert (request["structured"], sorted(request)) == ("tool", ["messages", "result_schema", "structured", "tools"])
    assert b"http" not in canonical(request)


@pytest.mark.parametrize(("structured", "tools"), [("json_schema", 0), ("text", 0)])
def test_a_session_without_tools_has_no_completion_tool(structured: str, tools: int) -> None:
    """Without tools the whole answer is the result, so there is nothing to call."""
    request = thaw(chat.request(chat.hear(begin(structured), Prompt(text="go"))))
    assert (request["structured"], len(request["tools"])) == (structured, tools)


def test_only_text_mode_tells_the_schema_in_words() -> None:
    """An endpoint that constrains the answer needs no words; one that does not gets the exact schema."""
    in_words = thaw(chat.request(begin("text")))["messages"][0]["content"]
    assert in_words.startswith("S\n\n") and in_words.endswith(canonical(SCHEMA).decode())
    assert thaw(chat.request(begin("json_schema")))["messages"] == [{"role": "system", "content": "S"}]


def test_the_name_of_the_completion_tool_is_reserved() -> None:
    """A tool named `complete` would make completion ambiguous."""
    own = ToolSpec(name="complete", description="", parameters=freeze({"type": "object"}), effect="read")
    with pytest.raises(CallerError, match="reserved"):
        chat.begin(dispatch(BOUND, tools=(own,)), "json_schema")


@pytest.mark.parametrize(
    ("structured", "message", "expected"),
    [
        ("tool", calling(("c", "complete", '{"answer": "x"}')), {"answer": "x"}),
        ("json_schema", calling(text=' {"answer": "x"}\n'), {"answer": "x"}),
        ("text", calling(text='Done.\n\n```json\n{"answer": "x"}\n```\n'), {"answer": "x"}),
        (
            "text",
            calling(text='```json\n{"answer": "a"}\n```\nno:\n```json\n{"answer": "```"}\n```'),
            {"answer": "```"},
        ),
    ],
)
def test_a_result_is_read_in_the_way_it_was_asked_for(structured: str, message: object, expected: object) -> None:
    """Each structured mode has one place where a result may stand."""
    reading = chat.read(begin(structured), freeze(message))
    assert reading == Reading(completion=Completion(value=freeze(expected)))


@pytest.mark.parametrize(
    ("structured", "message", "problem"),
    [
        ("tool", calling(text='{"answer": "x"}'), "called no tool"),
        ("tool", calling(("c", "complete", '{"answer": ')), "not one JSON object"),
        ("tool", calling(("c", "complete", "[1]")), "not one JSON object"),
        ("tool", calling(("c", "complete", '{"a": 1, "a": 2}')), "not one JSON object"),
        ("tool", calling(("c", "complete", "{}"), ("d", "complete", "{}")), "called 2 times"),
        ("json_schema", calling(text="Here: {}"), "not JSON"),
        ("json_schema", calling(text='{"a": NaN}'), "not JSON"),
        ("json_schema", calling(text="[" * 60 + "]" * 60), "not JSON"),
        ("text", calling(text='{"answer": "x"}'), "does not end with"),
        ("text", calling(text='```json\n{"answer": "x"}\n```\nmore'), "does not end with"),
        ("text", calling(text="```\n{}\n```"), "does not end with"),
    ],
)
def test_what_is_no_result_is_no_completion_and_says_why(structured: str, message: object, problem: str) -> None:
    """Text and half a result never complete a step; the next correction tells the model what was wrong."""
    conversation = begin(structured)
    reading = chat.read(conversation, freeze(message))
    assert reading.completion is None and reading.requests == () and problem in reading.problem
    corrected = chat.hear(after(conversation, message), Correction(findings=("nothing was given",)))
    said = str(thaw(corrected.messages[-1])["content"])
    assert problem in said and "- nothing was given" in said


@pytest.mark.parametrize("structured", ["tool", "json_schema"])
def test_a_result_that_is_no_object_travels_in_one(structured: str) -> None:
    """Tools and endpoints insist on an object; definitions move along, so that references still hold."""
    schema = {"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}}
    conversation = begin(structured, schema)
    wrapper = thaw(chat.as_object(freeze(schema)))
    assert wrapper["properties"]["result"] == schema and wrapper["$defs"] == schema["$defs"]
    assert chat.as_object(SCHEMA) is SCHEMA
    raw = '{"result": [1]}'
    message = calling(("c", "complete", raw)) if structured == "tool" else calling(text=raw)
    assert chat.read(conversation, freeze(message)).completion == Completion(value=(1,))
    bare = calling(("c", "complete", "{}")) if structured == "tool" else calling(text="[1]")
    assert "under 'result'" in chat.read(conversation, freeze(bare)).problem


def test_arguments_that_are_no_object_reach_the_tool_as_text() -> None:
    """Their schema refuses them, and the model is told; nothing is completed or guessed."""
    message = calling(("a", "read", '{"path": "x'), ("b", "read", ""), ("c", "read", "3"))
    assert chat.read(begin(), freeze(message)).requests == (
        ToolRequest(id="a", name="read", arguments='{"path": "x'),
        ToolRequest(id="b", name="read", arguments=freeze({})),
        ToolRequest(id="c", name="read", arguments="3"),
    )


def test_a_completion_beside_other_tools_is_not_taken() -> None:
    """It was given without knowing their results, and its call is answered so, in the order of the calls."""
    message = calling(("a", "read", "{}"), ("b", "complete", '{"answer": "x"}'), ("c", "read", "{}"))
    reading = chat.read(begin(), freeze(message))
    assert reading.completion is None and [r.id for r in reading.requests] == ["a", "c"]
    results = tuple(ToolResult(id=i, ok=True, text=i.upper()) for i in ("a", "c"))
    said = [thaw(m) for m in chat.hear(after(begin(), message), ToolResults(results=results)).messages[-3:]]
    assert [m["tool_call_id"] for m in said] == ["a", "b", "c"]
    assert said[0]["content"] == "A" and said[1]["content"].startswith("Not accepted") and said[2]["content"] == "C"


@pytest.mark.parametrize("ids", [(), ("b",), ("a", "b"), ("b", "a")])
def test_results_answer_the_open_calls_one_by_one(ids: tuple[str, ...]) -> None:
    """A result too few, too many or out of place would be taken for the answer to another call."""
    conversation = after(begin(), calling(("a", "read", "{}")))
    results = tuple(ToolResult(id=i, ok=True, text="") for i in ids)
    with pytest.raises(ValueError, match="result"):
        chat.hear(conversation, ToolResults(results=results))


def test_every_open_call_gets_an_answer_before_anything_else_is_said() -> None:
    """Endpoints refuse a conversation with an open call, so a correction answers the call itself, and a prompt closes it."""
    conversation = after(begin(), calling(("a", "complete", "{}")))
    corrected = chat.hear(conversation, Correction(findings=("$: 'answer' is missing",)))
    last = thaw(corrected.messages[-1])
    assert last["role"] == "tool" and last["tool_call_id"] == "a" and "'answer' is missing" in last["content"]
    prompted = [thaw(m) for m in chat.hear(conversation, Prompt(text="next")).messages[-2:]]
    assert [(m["role"], m["content"]) for m in prompted] == [("tool", "Accepted."), ("user", "next")]


def test_text_that_no_json_can_hold_is_mended() -> None:
    """Halves of a surrogate pair from two chunks are one character; a lone half is U+FFFD."""
    message = thaw(chat.assistant(text="\ud83d\ude00 \ud83d", reasoning="", calls=()))
    assert message["content"] == "\U0001f600 �"
