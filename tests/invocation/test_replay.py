"""What one provider's session recorded, the recorded provider replays: elsewhere, without the original."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from providers import chat
from providers.recorded.factory import RecordedFactory
from runner.contract.canonical import FrozenJson, canonical, freeze
from runner.contract.events import Usage
from runner.contract.ports import Completed, Failed
from runner.contract.provider import (
    CallIntent,
    CallResult,
    NativeSession,
    SessionDispatch,
    Turn,
    TurnEnded,
    TurnEvent,
)
from tests.invocation.fakes import GOOD, Delivery, ScriptedFactory, ScriptedRealm, executor


class ChatSession:
    """Speaks like a chat provider; ``answers`` are (text, calls) in order."""

    native_id = "chat"

    def __init__(self, dispatch: SessionDispatch, answers: list[Any]) -> None:
        self._conversation = chat.begin(dispatch, "json_schema")
        self._answers = answers

    async def run(self, turn: Turn) -> AsyncIterator[TurnEvent]:
        heard = chat.hear(self._conversation, turn)
        yield CallIntent(request=chat.request(heard))
        text, calls = self._answers.pop(0)
        message = chat.assistant(text=text, reasoning="", calls=tuple(chat.ToolCall(**c) for c in calls))
        self._conversation = chat.answered(heard, message)
        reading = chat.read(heard, message)
        yield CallResult(response=message, provider="chat", model="m", usage=Usage())
        for request in reading.requests:
            yield request
        if reading.completion is not None:
            yield reading.completion
        yield TurnEnded(finish="stop")

    def replay(self, turn: Turn, response: FrozenJson) -> tuple[TurnEvent, ...]:
        self._conversation, events = chat.replayed(self._conversation, turn, response)
        return events

    async def close(self) -> None: ...


class ChatRealm(ScriptedRealm):
    answers: list[Any]

    async def open_session(self, dispatch: SessionDispatch) -> NativeSession:
        return ChatSession(dispatch, self.answers)


class ChatFactory(ScriptedFactory):
    answers: list[Any]

    async def open_realm(self, settings: Any, credentials: Any) -> ChatRealm:
        realm = ChatRealm(self.key, self.script)
        realm.answers = self.answers
        return realm


def call(id_: str, name: str, **arguments: Any) -> dict[str, str]:
    return {"id": id_, "name": name, "arguments": canonical(freeze(arguments)).decode()}


async def recorded_in(tmp: Path) -> Delivery:
    """A Delivery in ``tmp`` that wrote a file, looked at it, gave a wrong result and then a right one."""
    tmp.mkdir()
    delivery = Delivery(tmp, record=True)
    factory = ChatFactory(delivery.script)
    factory.answers = [
        (
            f"I work in {delivery.worktree}.",
            [call("x9", "write", path="a", content=f"# {delivery.worktree} $WORKTREE\n")],
        ),
        ("", [call("x7", "read", path="a"), call("x8", "search", text="#")]),
        ("", [call("x6", "complete", verdict="maybe")]),
        ("", [call("x5", "complete", verdict="good")]),
    ]
    bind(delivery, factory, executor(factory))
    prompt = f"Work in {delivery.worktree}."
    assert await delivery.invocation.invoke(delivery.dispatch(prompt=prompt)) == Completed(value=freeze(GOOD))
    return delivery


def bind(delivery: Delivery, factory: Any, bound: Any) -> None:
    delivery.factory, delivery.executors = factory, (bound,)
    delivery.ledger.close()
    delivery.open()


def replaying(tmp: Path, recordings: Path) -> Delivery:
    tmp.mkdir()
    delivery = Delivery(tmp)
    factory: Any = RecordedFactory()
    bind(delivery, factory, executor(factory, model=str(recordings)))
    return delivery


async def test_a_recording_replays_in_another_place(tmp_path: Path) -> None:
    """Same answers, same tools, same files, with the other worktree's path where the first one's stood; nothing unused."""
    first = await recorded_in(tmp_path / "first")
    assert first.recordings is not None
    second = replaying(tmp_path / "second", first.recordings)
    prompt = f"Work in {second.worktree}."
    assert await second.invocation.invoke(second.dispatch(prompt=prompt)) == Completed(value=freeze(GOOD))
    assert (second.worktree / "a").read_text() == f"# {second.worktree} $WORKTREE\n"
    assert second.kinds() == first.kinds()
    assert await second.invocation.conclude() == ()
    first.ledger.close()
    second.ledger.close()


async def test_another_prompt_is_a_miss(tmp_path: Path) -> None:
    """Loud, once, with the difference; what was recorded then is unused."""
    first = await recorded_in(tmp_path / "first")
    assert first.recordings is not None
    second = replaying(tmp_path / "second", first.recordings)
    disposition = await second.invocation.invoke(second.dispatch(prompt="Play."))
    assert isinstance(disposition, Failed)
    assert (disposition.code, disposition.retriable) == ("recording-miss", False)
    assert "Play." in disposition.message
    assert await second.invocation.conclude()
    first.ledger.close()
    second.ledger.close()
