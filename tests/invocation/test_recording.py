"""Recordings: the same request has the same digest everywhere, and what is written can be read again or is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract import recording
from runner.contract.canonical import canonical, freeze
from runner.contract.errors import Code, EnvironmentFault, ProviderError
from runner.contract.events import Usage
from runner.contract.ids import SiteId, StepRef
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Failure,
    OutputDelta,
    ToolRequest,
    TurnEnded,
)
from runner.contract.recording import Header, TurnLine
from tests.invocation.conftest import Make
from tests.invocation.fakes import asks, completes, fails

ROOT = "/tmp/w-1"


def request(root: str, first: str, second: str) -> Any:
    return freeze(
        {
            "messages": [
                {"role": "user", "content": f"Look at {root}/a.py (took 1.25s)."},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": first, "name": "read", "arguments": {"id": "mine", "path": f"{root}/a.py"}},
                        {"id": second, "name": "list", "arguments": {}},
                    ],
                },
                {"role": "tool", "tool_call_id": second, "content": "x"},
                {"role": "tool", "tool_call_id": first, "content": "y"},
            ]
        }
    )


def test_the_digest_is_the_same_on_another_machine() -> None:
    """Paths, call ids and volatile parts do not count; everything else does."""
    here = recording.request_digest(request(ROOT, "a", "b"), ROOT, (r"\d+\.\d+s",))
    there = request("/home/u/other", "call_9", "call_7")
    assert recording.request_digest(there, "/home/u/other", (r"\d+\.\d+s",)) == here
    assert recording.request_digest(request(ROOT, "a", "a"), ROOT, (r"\d+\.\d+s",)) != here
    assert recording.request_digest(request(ROOT, "a", "b"), ROOT, ()) != here


def test_the_normalised_form_is_readable() -> None:
    """Placeholders say what stood there; arguments of a tool are the model's own."""
    text = canonical(recording.normalise(request(ROOT, "a", "b"), ROOT, (r"\d+\.\d+s",))).decode()
    assert "Look at $WORKTREE/a.py (took $VOLATILE)." in text
    assert '{"arguments":{"id":"mine","path":"$WORKTREE/a.py"},"id":"call-1","name":"read"}' in text
    assert '"tool_call_id":"call-2"' in text


texts = st.lists(st.sampled_from(["$", ROOT, "WORKTREE", "/", ".", "-", "x", " ", "2"]), max_size=12).map("".join)


@given(texts)
def test_a_path_goes_and_comes_back(text: str) -> None:
    """No text is changed by going through a recording, the placeholder's own name included."""
    assert recording.localise(recording.portable(text, ROOT), ROOT) == text
    assert recording.localise(recording.portable(text, None), None) == text


def test_only_the_worktree_itself_is_replaced() -> None:
    """A longer name that begins with it is another directory."""
    text = f"{ROOT}0 {ROOT}-old {ROOT}.bak {ROOT}. {ROOT}/x a{ROOT}"
    assert recording.portable(text, ROOT) == f"{ROOT}0 {ROOT}-old {ROOT}.bak $WORKTREE. $WORKTREE/x a{ROOT}"


@given(
    st.builds(
        StepRef,
        site=st.sampled_from(["a", "each_2"]).map(SiteId),
        visit=st.integers(1, 99),
        item=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    )
)
def test_file_names_are_safe_and_distinct(step: StepRef) -> None:
    """One file per step, and only characters that every file system and shell takes."""
    name = recording.file_name(step.key)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.")
    parts = name.removesuffix(".jsonl").split(".")
    assert StepRef(site=SiteId(parts[0]), visit=int(parts[1]), item=tuple(map(int, parts[2:]))) == step


def test_a_hostile_step_key_names_no_file() -> None:
    """Never a path."""
    for key in ("../x@1", "a", "a@0", "a/b@1", ""):
        with pytest.raises(ValueError, match="step key"):
            recording.file_name(key)


@pytest.mark.parametrize(
    "pattern", ["(a+)+", "a**", "a+?", r"\1", "[a", "a{1,2", "", "x" * 300, "*a", "^(?:x)", "a{9,1}"]
)
def test_volatile_patterns_outside_the_language_are_refused(pattern: str) -> None:
    """Nothing that could backtrack or be misread."""
    with pytest.raises(ValueError, match="volatile pattern"):
        recording.compile_volatile(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d+\.\d+s", "in 0.25s.", "in $VOLATILE."),
        (r"/tmp/[\w.-]+", "at /tmp/a-b.c/d", "at $VOLATILE/d"),
        (r"0x[0-9a-f]{4,16}", "<X at 0x7f00a0>", "<X at $VOLATILE>"),
        (r"one|two?", "one tw two", "$VOLATILE $VOLATILE $VOLATILE"),
        (r"x*", "axb", "a$VOLATILEb"),
        (r"[]\]]", "a]", "a$VOLATILE"),
    ],
)
def test_volatile_patterns_blank_what_they_match(pattern: str, text: str, expected: str) -> None:
    """A match of nothing blanks nothing."""
    assert recording.blank(text, (pattern,)) == expected


EVENTS = (
    CallIntent(request=freeze({"a": 1})),
    OutputDelta(text="t"),
    CallResult(response=freeze({"c": [None]}), provider="p", model="m", usage=Usage(input_tokens=1)),
    ToolRequest(id="i", name="n", arguments=freeze({"x": 1.5})),
    Completion(value=freeze([1, "2"])),
    Failure(exception="e", http_status=500, error_code="c", retry_after_s=1.5, message="m"),
    TurnEnded(finish="stop"),
)


@pytest.mark.parametrize("event", EVENTS)
def test_events_survive_json(event: Any) -> None:
    """Each kind, through bytes."""
    text = json.dumps(json.loads(canonical(recording.encode_event(event))))
    assert recording.decode_event(freeze(json.loads(text))) == event


@pytest.mark.parametrize("value", [{}, {"type": "x"}, {"type": "ended", "more": 1}, {"type": "tool-request"}, 1, None])
def test_what_is_no_event_is_refused(value: Any) -> None:
    """With a reason."""
    with pytest.raises(ValueError, match="event"):
        recording.decode_event(freeze(value))


def file(*lines: Header | TurnLine) -> bytes:
    return b"".join(map(recording.line_bytes, lines))


HEADER = Header(step="a@1", provider="p", model="m", volatile=(r"\d+s",))


def turn(number: int = 1, **changes: Any) -> TurnLine:
    line = recording.turn_line(
        turn=number,
        request=freeze({"n": "3s"}),
        events=EVENTS[2:],
        worktree=ROOT,
        volatile=HEADER.volatile,
        duration_s=0.5,
    )
    return line.model_copy(update=changes)


def test_a_file_is_read_as_it_was_written() -> None:
    """Blank lines do not count, but line numbers do; intents and deltas are not kept."""
    data = file(HEADER) + b"\n" + file(turn(1), turn(2))
    read = recording.read(data, "f")
    assert read.header == HEADER
    assert read.step == StepRef(site=SiteId("a"))
    assert [(t.number, t.line.turn, t.events) for t in read.turns.values()] == [(3, 1, EVENTS[2:]), (4, 2, EVENTS[2:])]


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        (b"", 1, "empty"),
        (b"{", 1, "not JSON"),
        (file(turn()), 1, "step: is missing"),
        (file(HEADER.model_copy(update={"format": "runner.recording/2"})), 1, "format"),
        (file(HEADER.model_copy(update={"step": "../a"})), 1, "step key"),
        (file(HEADER.model_copy(update={"volatile": ("(a+)+",)})), 1, "volatile"),
        (file(HEADER, turn(), turn()), 3, "twice"),
        (file(HEADER, turn(request=freeze({"n": "x"}))), 2, "write sha256:"),
        (file(HEADER, turn(events=(freeze({"type": "nope"}),))), 2, "event"),
        (file(HEADER, turn(events=(freeze({"type": "delta", "text": "x"}),))), 2, "not kept"),
        (file(HEADER) + b'{"turn": 1, "turn": 2}\n', 2, "twice"),
        (file(HEADER) + b"\xff\xfe\n", 2, "not JSON"),
        (file(HEADER) + b"[" * 100_000 + b"\n", 2, "nested"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(data: bytes, line: int, problem: str) -> None:
    """Hostile or hand-edited: place, problem and what to do."""
    with pytest.raises(ProviderError) as caught:
        recording.read(data, "dir/f")
    assert caught.value.code is Code.RECORDING_INVALID
    assert caught.value.message.startswith(f"dir/f:{line}: ")
    assert problem in caught.value.message
    assert caught.value.remedy


async def test_a_session_is_recorded_turn_by_turn(make: Make) -> None:
    """Header first, only turns that succeeded, nothing of this machine; private to its owner."""
    delivery = make(record=True)
    delivery.script.turns = [asks(("list", {})), fails(http_status=500), completes()]
    root = str(delivery.worktree)
    await delivery.invocation.invoke(delivery.dispatch(prompt=f"Work in {root}."))
    assert delivery.recordings is not None
    path = delivery.recordings / "code.1.jsonl"
    data = path.read_bytes()
    read = recording.read(data, str(path))
    assert (read.header.step, read.header.provider, read.header.model) == ("code@1", "fake", "asked-1")
    assert list(read.turns) == [1, 2]
    assert root.encode() not in data
    assert b"Work in $WORKTREE." in data
    assert read.turns[1].line.digest == recording.request_digest(delivery.script.sent[0], root, ())
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_session_that_starts_again_replaces_its_recording(make: Make, tmp_path: Path) -> None:
    """And writes through no link that was put in its place."""
    delivery = make(record=True)
    assert delivery.recordings is not None
    delivery.recordings.mkdir(parents=True)
    (tmp_path / "victim").write_text("mine")
    (delivery.recordings / "code.1.jsonl").symlink_to(tmp_path / "victim")
    for _ in range(2):
        delivery.script.turns = [completes()]
        await delivery.invocation.invoke(delivery.dispatch())
    path = delivery.recordings / "code.1.jsonl"
    assert not path.is_symlink()
    assert list(recording.read(path.read_bytes(), "f").turns) == [1]
    assert (tmp_path / "victim").read_text() == "mine"


async def test_the_recordings_of_another_delivery_stay(make: Make, tmp_path: Path) -> None:
    """Two Deliveries with the same steps, recorded to one place: each has a directory of its own."""
    others = [tmp_path / "recordings" / "code.1.jsonl", tmp_path / "recordings" / "d2" / "code.1.jsonl"]
    others[1].parent.mkdir(parents=True)
    for other in others:
        other.write_text("theirs")
    delivery = make(record=True)
    delivery.script.turns = [completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    assert [other.read_text() for other in others] == ["theirs", "theirs"]
    assert delivery.recordings is not None
    assert (delivery.recordings / "code.1.jsonl").is_file()


async def test_a_recording_that_cannot_be_written_is_no_secret(make: Make, tmp_path: Path) -> None:
    """It was asked for: the Delivery stays open, with a coded error."""
    (tmp_path / "recordings").write_text("a file")
    delivery = make(record=True)
    delivery.script.turns = [completes()]
    with pytest.raises(EnvironmentFault) as caught:
        await delivery.invocation.invoke(delivery.dispatch())
    assert caught.value.code is Code.STATE_UNWRITABLE
    assert delivery.script.closed == 1
