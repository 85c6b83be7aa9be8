"""The conformance suite, run against every provider this Runner knows."""

import subprocess
import sys
from pathlib import Path

import pytest

from providers.catalogue import factories
from runner.contract.canonical import FrozenJson, digest, freeze
from runner.contract.errors import Code, Finding, ProviderError
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Failure,
    NativeSession,
    OutputDelta,
    ProviderFactory,
    ToolRequest,
    ToolResult,
    ToolResults,
    TurnEnded,
    TurnEvent,
)
from runner.contract.recording import encode_event
from tests.providers.conformance import FAILING, HOSTILE_VALUES, SUBJECTS, TURNS, Subject
from tests.providers.sessions import SECRET, Leases, dispatch, events_of, executor

ROOT = Path(__file__).parents[2]
SHELLS = {
    "acp": "sha256:1a0284501843c4c45b52f1951d13dae4f5ce6e0611a23881b6038da39fa62da1",
    "codex-cli": "sha256:f17018550bb2b036140c4cf35811ee37e209fe098f4060a11461cdaa68506338",
    "copilot-sdk": "sha256:452f0215fe65dbdc3986ef3149b62cd83811af98b6049faf88134eddec27ff60",
    "dsh-headless": "sha256:858835407c46ce4095c05f03920260767bcccf39f46f80d80ac9096d4f9315f4",
}
every_subject = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
every_shell = pytest.mark.parametrize("shell", [f for f in factories() if f.descriptor.key in SHELLS], ids=SHELLS)


async def failing(session: NativeSession) -> list[TurnEvent | ProviderError]:
    """The events of the failing turn; an error of ours that ends it stands last."""
    seen: list[TurnEvent | ProviderError] = []
    try:
        async for event in session.run(FAILING):
            seen.append(event)
    except ProviderError as error:
        seen.append(error)
    return seen


def test_the_catalogue_is_closed() -> None:
    """Every known key once, each under a literal digest that activations freeze: a change of it must be meant."""
    known = {f.descriptor.key: f.descriptor.digest for f in factories()}
    assert known == {key: subject.digest for key, subject in SUBJECTS.items()} | SHELLS
    assert len(factories()) == len(known)
    for factory in factories():
        described = factory.descriptor
        fields = {"key": described.key, "version": described.version, "features": list(described.features)}
        assert described.digest == digest(fields)


@every_subject
async def test_events_come_in_their_order(subject: Subject, tmp_path: Path) -> None:
    """Intent, deltas, answer, what it asks for, end; exactly one intent and one end."""
    async with subject.start(tmp_path) as live:
        session = await live.realm.open_session(dispatch(live.bound))
        first, second = [await events_of(session, turn) for turn in TURNS]
    assert [type(e) for e in first if not isinstance(e, OutputDelta)] == [
        CallIntent,
        CallResult,
        ToolRequest,
        TurnEnded,
    ]
    assert [type(e) for e in second if not isinstance(e, OutputDelta)] == [
        CallIntent,
        CallResult,
        Completion,
        TurnEnded,
    ]
    asked = next(e for e in first if isinstance(e, ToolRequest))
    assert (asked.id, asked.name, asked.arguments) == ("call_1", "read", freeze({"path": "a.txt"}))
    answer = next(e for e in second if isinstance(e, CallResult))
    assert (answer.provider, answer.model, answer.usage.input_tokens) == ("openai", "m-2026", 11)
    assert next(e.value for e in second if isinstance(e, Completion)) == freeze({"answer": "yes"})


def told(events: list[TurnEvent]) -> list[TurnEvent]:
    """What a replay of the turn gives."""
    return [e for e in events if not isinstance(e, CallResult | OutputDelta)]


def answer_in(events: list[TurnEvent]) -> FrozenJson:
    return next(e.response for e in events if isinstance(e, CallResult))


@every_subject
async def test_a_replayed_turn_is_the_turn(subject: Subject, tmp_path: Path) -> None:
    """Told its answer, a session says what it said when it was given it, without any call, and goes on live from there as
    if it had never been another one."""
    async with subject.start(tmp_path) as live:
        original, continued, again = [await live.realm.open_session(dispatch(live.bound)) for _ in range(3)]
        first = await events_of(original, TURNS[0])
        taken = live.leases.taken
        assert list(continued.replay(TURNS[0], answer_in(first))) == told(first)
        assert live.leases.taken == taken
        second = await events_of(continued, TURNS[1])
        for turn, events in zip(TURNS, (first, second), strict=True):
            assert list(again.replay(turn, answer_in(events))) == told(events)
        assert live.leases.taken == 2 * taken


@every_subject
async def test_an_answer_that_does_not_fit_is_drift(subject: Subject, tmp_path: Path) -> None:
    """Results for calls that the recorded answer did not make are not taken for others; the session is as before."""
    async with subject.start(tmp_path) as live:
        original, continued = [await live.realm.open_session(dispatch(live.bound)) for _ in range(2)]
        first = await events_of(original, TURNS[0])
        continued.replay(TURNS[0], answer_in(first))
        with pytest.raises(ProviderError) as caught:
            continued.replay(ToolResults(results=(ToolResult(id="other", ok=True, text="x"),)), answer_in(first))
        assert caught.value.code == Code.BINDING_DRIFT and caught.value.remedy
        assert isinstance((await events_of(continued, TURNS[1]))[-1], TurnEnded)


@every_subject
async def test_a_failed_turn_leaves_the_session_as_it_was(subject: Subject, tmp_path: Path) -> None:
    """The turn announces itself, fails without an answer, and run again announces exactly the same request."""
    async with subject.start(tmp_path) as live:
        session = await live.realm.open_session(dispatch(live.bound))
        for turn in TURNS:
            await events_of(session, turn)
        first, again = await failing(session), await failing(session)
    assert isinstance(first[0], CallIntent) and first[0] == again[0]
    for seen in (first, again):
        assert isinstance(seen[-1], Failure | ProviderError)
        assert not any(isinstance(e, CallResult | ToolRequest | Completion | TurnEnded) for e in seen)


@every_subject
async def test_no_event_holds_the_secret(subject: Subject, tmp_path: Path) -> None:
    """Not even when the endpoint repeats it, in text or in an error; and no lease outlives its call."""
    async with subject.start(tmp_path) as live:
        session = await live.realm.open_session(dispatch(live.bound))
        seen: list[object] = [encode_event(e) for turn in TURNS for e in await events_of(session, turn)]
        seen += await failing(session)
        assert live.leases.open == 0
    assert SECRET not in repr(seen) and "[redacted]" in repr(seen)


@every_subject
async def test_requests_are_the_same_for_the_same_conversation(subject: Subject, tmp_path: Path) -> None:
    """Two sessions, one byte form; every event is JSON that a ledger can hold."""
    async with subject.start(tmp_path) as live:
        intents: list[FrozenJson] = []
        for _ in range(2):
            session = await live.realm.open_session(dispatch(live.bound))
            intents.append(encode_event(await anext(session.run(TURNS[0]))))
            await session.close()
    assert intents[0] == intents[1]


@every_subject
async def test_closing_is_idempotent(subject: Subject, tmp_path: Path) -> None:
    """Sessions and realms may be closed again, after use, after a failure, and unused."""
    async with subject.start(tmp_path) as live:
        unused, used = [await live.realm.open_session(dispatch(live.bound)) for _ in range(2)]
        await events_of(used, TURNS[0])
        for session in (unused, used, used, unused):
            await session.close()
        await live.realm.close()
        await live.realm.close()


@every_subject
@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=lambda v: str(v)[:20])
async def test_bad_settings_and_options_are_findings(subject: Subject, value: object) -> None:
    """Whatever stands in a config or a binding is answered with findings, never with another exception; settings that
    have findings do not open a realm."""
    settings = freeze(value)
    found = subject.factory.check_settings(settings)
    assert found and all(isinstance(f, Finding) and f.place and f.problem for f in found)
    assert isinstance(subject.factory.check_executor(executor(subject.factory, model="", options=value)), tuple)
    leases = Leases()
    with pytest.raises(Exception, match="setting") as refused:
        await subject.factory.open_realm(settings, leases)
    assert getattr(refused.value, "code", None) == Code.CONFIG_INVALID and leases.taken == 0


@every_subject
async def test_what_a_binding_freezes_holds(subject: Subject, tmp_path: Path) -> None:
    """Bound twice it is the same, binding it again changes nothing, and the provider takes what it froze."""
    async with subject.start(tmp_path) as live:
        model, options = subject.factory.bind(live.bound.model)
        assert subject.factory.bind(live.bound.model) == subject.factory.bind(model) == (model, options)
        bound = executor(subject.factory, model=model, options=options)
        assert subject.factory.check_executor(bound) == ()
        session = await live.realm.open_session(dispatch(bound))
        await session.close()


@every_shell
async def test_a_shell_refuses_before_any_effect(shell: ProviderFactory) -> None:
    """A config that names it, a binding and a start: each refused with the same code, and no credential is touched."""
    assert shell.descriptor.features == ()
    leases = Leases()
    with pytest.raises(ProviderError) as settings:
        shell.check_settings(freeze({}))
    with pytest.raises(ProviderError) as freezing:
        shell.bind("m")
    with pytest.raises(ProviderError) as binding:
        shell.check_executor(executor(shell))
    with pytest.raises(ProviderError) as start:
        await shell.open_realm(freeze({}), leases)
    for refused in (settings.value, freezing.value, binding.value, start.value):
        assert (
            refused.code == Code.PROVIDER_NOT_IMPLEMENTED and shell.descriptor.key in refused.message and refused.remedy
        )
    assert leases.taken == 0


def test_a_replay_opens_no_socket_starts_no_process_and_writes_nothing(tmp_path: Path) -> None:
    """Seen by the interpreter's own audit events, in a process of its own; the same ears hear a socket when there is one."""
    program = ROOT / "tests" / "providers" / "audited_replay.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.providers.audited_replay", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert program.exists() and (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["replay: []", "socket: ['socket.__new__']"]
