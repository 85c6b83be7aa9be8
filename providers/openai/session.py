"""One conversation with an endpoint: announces each request, sends it, and tells what came of it."""

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from providers import chat
from providers.chat import Conversation
from providers.openai import wire
from providers.openai.answer import STREAM_ENDED, Answer, AnswerReader
from providers.openai.endpoint import endpoint
from providers.openai.redaction import Redacting, redacted, redacted_json
from providers.openai.settings import Settings
from providers.openai.signals import failure_of
from runner.contract.canonical import FrozenJson, thaw
from runner.contract.events import Usage
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Credentials,
    Failure,
    OutputDelta,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.text import excerpt

if TYPE_CHECKING:
    import httpx2

PROVIDER: Final = "openai"
MESSAGE_CHARS_MAX: Final = 500
"""Of a failure, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where and how a session calls."""

    settings: Settings
    client: "httpx2.AsyncClient"
    credentials: Credentials | None
    model: str
    sampling: dict[str, Any]


class OpenAiSession:
    """Implements ``NativeSession``. One turn at a time; the conversation grows only when a turn succeeds."""

    def __init__(self, native_id: str, conversation: Conversation, target: Target) -> None:
        self._native_id = native_id
        self._conversation = conversation
        self._target = target

    @property
    def native_id(self) -> str:
        return self._native_id

    async def run(self, turn: Turn) -> AsyncIterator[TurnEvent]:
        """The intent; then, on resuming, one HTTP call: deltas, the answer, what it asks for, and the end; or a failure."""
        heard = chat.hear(self._conversation, turn)
        request = chat.request(heard)
        yield CallIntent(request=request)
        answer = None
        async with aclosing(self._call(request)) as parts:
            async for part in parts:
                if isinstance(part, OutputDelta):
                    yield part
                else:
                    answer = part
        if not isinstance(answer, Answer):
            yield answer or Failure(exception="", error_code=STREAM_ENDED, message="there was no answer")
            return
        self._conversation = chat.answered(heard, answer.message)
        usage = _usage(answer, self._target.settings)
        yield CallResult(response=answer.message, provider=PROVIDER, model=answer.model, usage=usage)
        for asked in chat.asked_in(heard, answer.message):
            yield asked
        yield TurnEnded(finish=answer.finish)

    def replay(self, turn: Turn, response: FrozenJson) -> tuple[TurnEvent, ...]:
        """See ``NativeSession``: the conversation is all that a session is."""
        self._conversation, events = chat.replayed(self._conversation, turn, response)
        return events

    async def close(self) -> None:
        """Nothing is live between turns; the connections belong to the realm."""

    async def _call(self, request: FrozenJson) -> AsyncGenerator[OutputDelta | Answer | Failure, None]:
        """One call under a lease, redacted. The last item is the answer or the failure."""
        with _leased(self._target.credentials) as secret:
            reader, stream = AnswerReader(), Redacting(secret)
            try:
                async with aclosing(
                    _timed(self._chunks(request, secret), self._target.settings.request_timeout_s)
                ) as chunks:
                    async for chunk in chunks:
                        if text := stream.feed(reader.add(chunk)):
                            yield OutputDelta(text=chat.whole(text))
                if text := stream.rest():
                    yield OutputDelta(text=chat.whole(text))
                answer = reader.finish()
            except Exception as error:  # Whatever the libraries raise over hostile bytes, it is one failed call.
                answer = failure_of(error, dt.datetime.now(dt.UTC))
            yield _without(secret, answer)

    def _chunks(self, request: FrozenJson, secret: str | None) -> AsyncGenerator[Any, None]:
        target = self._target
        model = endpoint(target.settings, target.client, model=target.model, sampling=target.sampling, secret=secret)
        form = wire.response_format(request)
        body = thaw(target.settings.body) | ({"response_format": form} if form else {})
        return model.chunks(wire.wire_messages(request), wire.wire_tools(request), body)


@contextmanager
def _leased(credentials: Credentials | None) -> Iterator[str | None]:
    if credentials is None:
        yield None
        return
    with credentials.lease() as secret:
        yield secret


async def _timed(chunks: AsyncGenerator[Any, None], timeout_s: float) -> AsyncGenerator[Any, None]:
    """``chunks`` with one deadline for all of them, so that an endpoint that drips bytes cannot hold a call for ever. The
    deadline is kept around each wait, never across a ``yield``, where it would cancel the reader."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    async with aclosing(chunks):
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            yield chunk


def _without(secret: str | None, answer: Answer | Failure) -> Answer | Failure:
    """``answer`` without the secret, should the endpoint have echoed it."""
    if isinstance(answer, Failure):
        return replace(answer, message=excerpt(redacted(answer.message, secret), MESSAGE_CHARS_MAX))
    return replace(answer, message=redacted_json(answer.message, secret), model=redacted(answer.model, secret))


def _usage(answer: Answer, settings: Settings) -> Usage:
    """Tokens as reported; the cost only when both counts and the prices are known."""
    tokens_in, tokens_out, prices = answer.input_tokens, answer.output_tokens, settings.prices
    cost = None
    if tokens_in is not None and tokens_out is not None and prices is not None:
        cost = round((tokens_in * prices.input_per_mtok + tokens_out * prices.output_per_mtok) / 1e6, 12)
    return Usage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost)
