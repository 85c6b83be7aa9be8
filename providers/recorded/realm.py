"""Sessions that replay. The fixture is read once for each directory and then held, so that a run sees one content."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from providers import chat
from providers.chat import Conversation, Native
from providers.recorded.fixture import Fixture, check_bound, read_fixture
from providers.recorded.match import Miss, match, unused
from providers.recorded.settings import frozen_digest
from runner.contract.activation import Executor
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Code, Finding, ProviderError
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Failure,
    NativeSession,
    SessionDispatch,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.recording import localise_event

REMEDY: Final = "record the workflow again, or undo what changed the request"


class RecordedRealm:
    """Implements ``Realm``. Nothing is live, so there is nothing to close."""

    def __init__(self) -> None:
        self._fixtures: dict[str, Fixture] = {}

    async def open_session(self, dispatch: SessionDispatch) -> NativeSession:
        """A replaying session. ``ProviderError``: ``recording-invalid``; ``binding-drift`` when the content is not the
        one that was bound."""
        fixture = await asyncio.to_thread(self._fixture, dispatch.executor)
        return RecordedSession(dispatch, fixture)

    def review(self, executor: Executor, asked: frozenset[tuple[str, int]]) -> tuple[Finding, ...]:
        """The recorded turns that nothing asked for. Reads the fixture if no session has."""
        return unused(self._fixture(executor), asked)

    async def close(self) -> None:
        """Forgets what was read. Idempotent."""
        self._fixtures.clear()

    def _fixture(self, executor: Executor) -> Fixture:
        bound = frozen_digest(executor.options)
        if executor.model not in self._fixtures:
            self._fixtures[executor.model] = read_fixture(executor.model, bound)
        fixture = self._fixtures[executor.model]
        check_bound(fixture.place, fixture.digest, bound)
        return fixture


class RecordedSession:
    """Implements ``NativeSession``: the same requests as a live session would make, answered from the fixture."""

    def __init__(self, dispatch: SessionDispatch, fixture: Fixture) -> None:
        self._dispatch = dispatch
        self._fixture = fixture
        self._turns = 0
        self._conversation: Conversation = chat.begin(dispatch, _native(fixture, dispatch.step.key))

    @property
    def native_id(self) -> str:
        return f"{self._dispatch.delivery}/{self._dispatch.step.key}/{self._dispatch.attempt}"

    async def run(self, turn: Turn) -> AsyncIterator[TurnEvent]:
        """The intent; then, on resuming, the recorded events. ``ProviderError``: ``recording-miss`` with the difference to
        the nearest recording, which no second try can mend; ``recording-invalid`` when what was recorded for a turn does
        not fit together."""
        step, worktree, number = self._dispatch.step.key, self._dispatch.worktree, self._turns + 1
        try:
            heard = chat.hear(self._conversation, turn)
        except ValueError as error:
            raise self._inconsistent(number - 1, str(error)) from None
        request = chat.request(heard)
        yield CallIntent(request=request)
        found = match(self._fixture, step, number, request, worktree)
        if isinstance(found, Miss):
            raise ProviderError(Code.RECORDING_MISS, found.message, remedy=REMEDY)
        events = [localise_event(event, worktree) for event in found.events]
        answers = [event.response for event in events if isinstance(event, CallResult)]
        failed = any(isinstance(event, Failure) for event in events)
        if not failed and (len(answers) != 1 or not events or not isinstance(events[-1], TurnEnded)):
            raise self._inconsistent(number, "a turn has one response, and ends")
        if not failed:
            self._conversation = chat.answered(heard, answers[0])
            self._turns = number
        for event in events:
            yield event

    def replay(self, turn: Turn, response: FrozenJson) -> tuple[TurnEvent, ...]:
        """See ``NativeSession``. What the turn asked for is what stands in the fixture for its number; whether the request
        is still the one that was asked is for the caller to compare."""
        step, worktree, number = self._dispatch.step.key, self._dispatch.worktree, self._turns + 1
        self._conversation, events = chat.replayed(self._conversation, turn, response)
        self._turns = number
        recording = self._fixture.recordings.get(step)
        recorded = recording.turns.get(number) if recording else None
        if recorded is None:
            return events
        rest = [localise_event(e, worktree) for e in recorded.events if not isinstance(e, CallResult)]
        return (events[0], *rest)

    async def close(self) -> None:
        """Nothing is live."""

    def _inconsistent(self, turn: int, problem: str) -> ProviderError:
        name = self._fixture.files.get(self._dispatch.step.key, self._fixture.place)
        return ProviderError(
            Code.RECORDING_INVALID,
            f"{name}: turn {turn} does not fit together: {problem}",
            remedy="record the session again",
        )


def _native(fixture: Fixture, step: str) -> Native:
    """How a session without tools offers its result: as the recorded endpoint did it. The recorded requests say so."""
    recording = fixture.recordings.get(step)
    requests = [turn.line.request for turn in recording.turns.values()] if recording else []
    modes = {r.get("structured") for r in requests if isinstance(r, Mapping)}
    return "text" if modes == {"text"} else "json_schema"
