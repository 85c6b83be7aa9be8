"""Replay: what ``openai`` was answered, ``recorded`` answers again, to exactly the same requests."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from providers import chat
from providers.openai.factory import OpenAiFactory
from providers.recorded.factory import RecordedFactory
from providers.recorded.fixture import read_fixture
from runner.contract.activation import Executor
from runner.contract.canonical import freeze
from runner.contract.errors import Code, ProviderError
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Correction,
    NativeSession,
    OutputDelta,
    Prompt,
    ToolResult,
    ToolResults,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.recording import Header, line_bytes, request_digest
from tests.providers.fixtures import record
from tests.providers.sessions import READ, dispatch, events_of, executor
from tests.servers.chunks import Call, Calls, Result, Text
from tests.servers.scripted_openai import Reply, ScriptedOpenAi, in_order

FACTORY = RecordedFactory()
GO = Prompt(text="go")


def results_of(text: str) -> ToolResults:
    return ToolResults(results=(ToolResult(id="call_a", ok=True, text=text),))


RESULTS = results_of("content of /here/tree/x")
LOOP: tuple[tuple[Turn, Reply], ...] = (
    (GO, Calls((Call("read", {"path": "/here/tree/x"}, id="call_a"),), text="Let me look.", reasoning="because")),
    (RESULTS, Calls((Call("complete", '{"answer": 3}', id="call_b"),))),
    (Correction(findings=("$.answer: 3 is not of type 'string'",)), Result({"answer": "yes"})),
)


async def recorded_loop(
    directory: Path, *, results: str = "content of /here/tree/x", volatile: tuple[str, ...] = ()
) -> list[list[TurnEvent]]:
    """Three turns of step plan@1 against a scripted endpoint, in the worktree /here/tree."""
    factory = OpenAiFactory()
    with ScriptedOpenAi(in_order(*[reply for _, reply in LOOP])) as server:
        realm = await factory.open_realm(freeze({"base_url": server.base_url}), None)
        asked = dispatch(executor(factory), system="Work in /here/tree.", worktree="/here/tree")
        turns = (GO, results_of(results), LOOP[2][0])
        seen = await record(realm, asked, turns, directory, volatile=volatile)
        await realm.close()
    return seen


@asynccontextmanager
async def replaying(
    directory: Path | str, *, worktree: str = "/here/tree", step: str = "plan@1", system: str | None = None
) -> AsyncIterator[NativeSession]:
    realm = await FACTORY.open_realm(freeze({}), None)
    text = system or f"Work in {worktree}."
    bound = executor(FACTORY, model=str(directory))
    session = await realm.open_session(dispatch(bound, system=text, worktree=worktree, step=step))
    yield session
    await session.close()
    await realm.close()


def without_deltas(events: list[TurnEvent]) -> list[TurnEvent]:
    return [event for event in events if not isinstance(event, OutputDelta)]


async def test_a_session_replays_event_by_event(tmp_path: Path) -> None:
    """The replay asks byte-identical requests and gives the same answers; only streaming is not repeated."""
    live = await recorded_loop(tmp_path)
    async with replaying(tmp_path) as session:
        again = [await events_of(session, turn) for turn, _ in LOOP]
    assert again == [without_deltas(events) for events in live]
    assert isinstance(again[-1][-1], TurnEnded)


async def test_a_session_replays_in_another_directory(tmp_path: Path) -> None:
    """The worktree's path is not part of a recording: requests match, and answers name the path of this machine."""
    await recorded_loop(tmp_path)
    async with replaying(tmp_path, worktree="/other/place") as session:
        first = await events_of(session, GO)
        second = await events_of(session, results_of("content of /other/place/x"))
    assert "/other/place/x" in repr(first[2]) and "/here/tree" not in repr([*first, *second])
    assert isinstance(second[-1], TurnEnded)


async def test_declared_volatile_text_may_differ(tmp_path: Path) -> None:
    """A duration in a tool result is blanked on both sides; what is not declared still counts."""
    await recorded_loop(tmp_path, results="1 passed in 3 ms", volatile=(r"in \d+ ms",))
    async with replaying(tmp_path) as session:
        await events_of(session, GO)
        with pytest.raises(ProviderError) as miss:
            await events_of(session, results_of("2 passed in 9 ms"))
        assert miss.value.code == Code.RECORDING_MISS and "passed $VOLATILE" in miss.value.message
        assert isinstance((await events_of(session, results_of("1 passed in 12345 ms")))[-1], TurnEnded)


@pytest.mark.parametrize(
    ("step", "turns", "told"),
    [
        (
            "plan@1",
            (Prompt(text="go away"),),
            ["turn 1 of step plan@1", "plan.1.jsonl:2", '-   "content": "go"', '+   "content": "go away"'],
        ),
        ("plan@2", (GO,), ["records no such step", "the nearest: plan@1"]),
        ("review@1", (GO,), ["records no such step", "plan@1"]),
        (
            "plan@1",
            (*[t for t, _ in LOOP], GO),
            ["turn 4 of step plan@1 was not recorded", "the nearest is turn 3", "plan.1.jsonl:4"],
        ),
    ],
)
async def test_a_miss_is_loud_and_names_the_nearest(
    tmp_path: Path, step: str, turns: tuple[Turn, ...], told: list[str]
) -> None:
    """The request is announced, then refused with what differs; no second try can mend it, so it is no `Failure`."""
    await recorded_loop(tmp_path)
    async with replaying(tmp_path, step=step) as session:
        for turn in turns[:-1]:
            await events_of(session, turn)
        events = session.run(turns[-1])
        assert isinstance(await anext(events), CallIntent)
        with pytest.raises(ProviderError) as miss:
            await anext(events)
    assert miss.value.code == Code.RECORDING_MISS and miss.value.remedy
    assert [part for part in told if part not in miss.value.message] == []
    assert len(miss.value.message) < 10_000


async def test_a_miss_stays_readable_when_everything_differs(tmp_path: Path) -> None:
    """The difference is bounded in lines and columns, and nothing in it can steer a terminal."""
    await recorded_loop(tmp_path)
    long = "\n".join(f"line {n} \x1b[31m" + "x" * 500 for n in range(5000))
    async with replaying(tmp_path) as session:
        with pytest.raises(ProviderError) as miss:
            await events_of(session, Prompt(text=long))
    assert "more lines" in miss.value.message and "\x1b" not in miss.value.message
    assert len(miss.value.message) < 15_000


async def test_after_a_miss_the_session_is_as_it_was(tmp_path: Path) -> None:
    """The right request is still answered."""
    await recorded_loop(tmp_path)
    async with replaying(tmp_path) as session:
        with pytest.raises(ProviderError):
            await events_of(session, Prompt(text="no"))
        assert isinstance((await events_of(session, GO))[-1], TurnEnded)


async def test_text_mode_is_learned_from_the_recording(tmp_path: Path) -> None:
    """How a session without tools offers its result is the recorded endpoint's way, not a setting of the replay."""
    factory = OpenAiFactory()
    with ScriptedOpenAi(in_order(Result({"answer": "x"}))) as server:
        settings = freeze({"base_url": server.base_url, "structured_output": "text"})
        realm = await factory.open_realm(settings, None)
        live = await record(realm, dispatch(executor(factory), tools=()), (GO,), tmp_path)
        await realm.close()
    realm = await FACTORY.open_realm(freeze({}), None)
    session = await realm.open_session(dispatch(executor(FACTORY, model=str(tmp_path)), tools=()))
    assert await events_of(session, GO) == without_deltas(live[0])


async def test_what_nothing_asked_for_is_found(tmp_path: Path) -> None:
    """One finding for each recorded turn left over, by file and line; also when no session was opened."""
    await recorded_loop(tmp_path)
    realm = await FACTORY.open_realm(freeze({}), None)
    bound = executor(FACTORY, model=str(tmp_path))
    assert realm.review(bound, frozenset({("plan@1", 1), ("plan@1", 2), ("plan@1", 3), ("other@1", 1)})) == ()
    left = realm.review(bound, frozenset({("plan@1", 1)}))
    assert [f.place for f in left] == [f"{tmp_path}/plan.1.jsonl:{n}" for n in (3, 4)]
    assert "turn 2 of step plan@1" in left[0].problem


async def bound_here(directory: Path) -> Executor:
    """An executor over recordings in ``directory``, frozen as ``bind`` says."""
    await recorded_loop(directory)
    (directory / "README.md").write_text("about")
    model, options = FACTORY.bind(str(directory))
    return executor(FACTORY, model=model, options=options)


def add_a_recording(directory: Path) -> None:
    (directory / "more.1.jsonl").write_bytes(line_bytes(Header(step="more@1", provider="openai", model="m")))


def change_a_byte(directory: Path) -> None:
    """So that the line is no JSON any more: drift is seen before any line is read."""
    path = directory / "plan.1.jsonl"
    path.write_bytes(b"[" + path.read_bytes()[1:])


@pytest.mark.parametrize("change", [add_a_recording, change_a_byte])
async def test_the_bound_content_is_frozen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """A recording changed by one byte, or added, is another content, before and after a session; other files do not count."""
    bound = await bound_here(tmp_path)
    assert FACTORY.check_executor(bound) == ()
    (tmp_path / "README.md").write_text("about something else")
    assert FACTORY.check_executor(bound) == ()
    change(tmp_path)
    realm = await FACTORY.open_realm(freeze({}), None)
    with pytest.raises(ProviderError) as checked:
        FACTORY.check_executor(bound)
    with pytest.raises(ProviderError) as opened:
        await realm.open_session(dispatch(bound))
    assert (checked.value.code, opened.value.code) == (Code.BINDING_DRIFT, Code.BINDING_DRIFT)
    assert str(tmp_path) in checked.value.message


async def test_a_binding_is_absolute_and_holds_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the directory was named; what cannot be replayed is refused with its place."""
    await recorded_loop(tmp_path / "tapes")
    monkeypatch.chdir(tmp_path)
    frozen = freeze({"digest": read_fixture("tapes").digest})
    (tmp_path / "link").symlink_to("tapes")
    for name in ("tapes", "./tapes/", "tapes/../tapes", "link"):
        assert FACTORY.bind(name) == (str(tmp_path / "tapes"), frozen)
    (tmp_path / "empty").mkdir()
    for name, problem in (("nowhere", "nowhere: cannot be read"), ("empty", "empty: holds no recording")):
        with pytest.raises(ProviderError, match=problem) as refused:
            FACTORY.bind(name)
        assert refused.value.code == Code.RECORDING_INVALID and refused.value.remedy


def header(step: str = "plan@1") -> bytes:
    return line_bytes(Header(step=step, provider="openai", model="m"))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "holds no recording"),
        ({"a.jsonl": b""}, "a.jsonl:1: is empty"),
        ({"a.jsonl": b"{nonsense\n"}, "a.jsonl:1: is not JSON"),
        ({"a.jsonl": header() + b'{"turn": 1}\n'}, "a.jsonl:2"),
        ({"a.jsonl": header(), "b.jsonl": header()}, "both record step plan@1"),
        ({"a.jsonl": None}, "a.jsonl cannot be opened"),
    ],
)
def test_a_directory_that_does_not_hold_is_found_at_admission(
    tmp_path: Path, files: dict[str, bytes | None], problem: str
) -> None:
    """Every file is parsed before anything runs; a link (None) is not followed."""
    for name, data in files.items():
        if data is None:
            (tmp_path / name).symlink_to("/etc/passwd")
        else:
            (tmp_path / name).write_bytes(data)
    found = FACTORY.check_executor(executor(FACTORY, model=str(tmp_path)))
    assert [f.place for f in found] == ["model"] and problem in found[0].problem


@pytest.mark.parametrize("model", ["/nonexistent/recordings", "a\0b", "", "/dev/null"])
def test_what_is_no_directory_is_found_at_admission(model: str) -> None:
    """With the reason; and wrong options beside it, in the same pass."""
    found = FACTORY.check_executor(executor(FACTORY, model=model, options={"digest": "x", "other": 1}))
    assert {f.place for f in found} == {"options.digest", "options.other", "model"}


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """A hostile directory cannot make admission hang."""
    os.mkfifo(tmp_path / "a.jsonl")
    assert "not a regular file" in FACTORY.check_executor(executor(FACTORY, model=str(tmp_path)))[0].problem


async def test_an_answer_that_does_not_fit_its_tool_requests_is_refused(tmp_path: Path) -> None:
    """Somebody edited the answer, not the request that came from it: said as a fault of the recording."""
    await recorded_loop(tmp_path)
    path = tmp_path / "plan.1.jsonl"
    lines = path.read_bytes().replace(
        b'"tool_calls":[{"arguments":{"path":"$WORKTREE/x"},"id":"call_a"',
        b'"tool_calls":[{"arguments":{"path":"$WORKTREE/x"},"id":"call_z"',
    )
    path.write_bytes(lines)
    async with replaying(tmp_path) as session:
        with pytest.raises(ProviderError) as broken:
            for turn, _ in LOOP:
                await events_of(session, turn)
    assert broken.value.code == Code.RECORDING_INVALID


async def test_sessions_of_one_realm_read_the_directory_once(tmp_path: Path) -> None:
    """A run sees one content, whatever happens to the files meanwhile."""
    await recorded_loop(tmp_path)
    realm = await FACTORY.open_realm(freeze({}), None)
    bound = executor(FACTORY, model=str(tmp_path))
    asked = dispatch(bound, system="Work in /here/tree.", worktree="/here/tree")
    await realm.open_session(asked)
    (tmp_path / "plan.1.jsonl").unlink()
    sessions = await asyncio.gather(*[realm.open_session(asked) for _ in range(3)])
    answers = [await events_of(session, GO) for session in sessions]
    assert all(isinstance(events[-1], TurnEnded) for events in answers)


def test_the_digest_of_a_request_is_the_one_that_recordings_hold() -> None:
    """A literal: should the canonical request change its form, every recording in the world is orphaned, so this must be
    meant."""
    conversation = dispatch(executor(FACTORY), tools=(READ,))
    request = chat.request(chat.hear(chat.begin(conversation, "json_schema"), GO))
    assert (
        request_digest(request, "/srv/tree", ())
        == "sha256:dd65bf72a2aa9038e2f094cb2451304bfac639d401210953b31d8c2902aa795c"
    )


async def test_a_text_answer_replays_without_completion(tmp_path: Path) -> None:
    """Text is not completion, neither live nor replayed."""
    factory = OpenAiFactory()
    with ScriptedOpenAi(in_order(Text("I am done."))) as server:
        realm = await factory.open_realm(freeze({"base_url": server.base_url}), None)
        await record(realm, dispatch(executor(factory)), (GO,), tmp_path)
        await realm.close()
    async with replaying(tmp_path, worktree="/srv/tree") as session:
        events = await events_of(session, GO)
    assert [type(e) for e in events] == [CallIntent, CallResult, TurnEnded]
