"""One turn of a session: the model call journaled on both sides, tried again where the failure allows it.

Crash behaviour: an intent without a result is all that is left of a call that was on its way; the resumed attempt makes it
again under the same id. A process that died does not give a call new tries.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from runner.contract import limits
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import CallerError, Code, ProviderError, RunnerError
from runner.contract.ids import CallId
from runner.contract.ports import Clock, Failed
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Failure,
    NativeSession,
    OutputDelta,
    ToolRequest,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.recording import request_digest
from runner.contract.text import visible
from runner.invocation.backoff import WAIT_S_MAX, Gate, delay_s
from runner.invocation.classify import REACTIONS, STREAM_BROKEN, classify, failure_of
from runner.invocation.journal import Journal
from runner.invocation.recorder import SessionRecorder
from runner.invocation.redaction import Redactor, StreamRedactor
from runner.invocation.rest import to_rest
from runner.invocation.turns import TurnAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What every turn of one episode shares."""

    session: NativeSession
    provider: str
    journal: Journal
    redactor: Redactor
    gate: Gate
    clock: Clock
    worktree: str
    attempts_max: int
    tries_before: Counter[str]
    recorder: SessionRecorder | None
    progress: Callable[[str], None]


@dataclass(slots=True)
class _Call:
    """One try as it goes: what came so far."""

    stream: StreamRedactor
    began: float
    request: FrozenJson = None
    call: CallId | None = None
    answered: bool = False
    ended: TurnEnded | None = None
    failure: Failure | None = None
    events: list[TurnEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The turn had no answer. ``failed`` says why; ``suspend_s`` is what a step waits of which nothing was done yet."""

    failed: Failed
    suspend_s: float | None


class ModelTurns:
    """Runs turns, one at a time."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    async def run(self, number: int, turn: Turn) -> TurnAnswer | Refused:
        """The answer of turn ``number``, or the failure that was left after ``attempts_max`` tries. When cancelled, a call
        on its way gets ``TERM_GRACE_S`` to be answered and journaled."""
        ctx = self._context
        tries = 0
        while True:
            await ctx.gate.passed(ctx.clock)
            try:
                call = await to_rest(self._once(number, turn), ctx.clock, limits.TERM_GRACE_S)
            except (CallerError, ProviderError) as error:
                return refused_by(error, ctx.redactor)
            if call.failure is None:
                return self._answer(number, call)
            tries = max(tries, ctx.tries_before.pop(call.call or "", 0)) + 1
            refused = self._react(call.failure, tries)
            if refused is not None:
                return refused

    def _react(self, failure: Failure, tries: int) -> Refused | None:
        """None when the call is to be made again, once the gate is open."""
        ctx = self._context
        kind = classify(failure)
        reaction = REACTIONS[kind]
        pause = delay_s(tries, failure.retry_after_s)
        if reaction.action == "retry" and pause <= WAIT_S_MAX:
            ctx.gate.close_for(pause, ctx.clock.monotonic())
            if tries < ctx.attempts_max:
                ctx.progress(f"\n{kind.value}: trying again in {pause:g} s\n")
                return None
        suspend_s = reaction.suspend_s
        if failure.retry_after_s is not None and (suspend_s is not None or pause > WAIT_S_MAX):
            suspend_s = max(suspend_s or 0.0, failure.retry_after_s)
        message = f"{ctx.provider}: {_told(failure)}" + (f" (tried {tries} times)" if tries > 1 else "")
        return Refused(
            failed=Failed(code=kind.value, message=message, retriable=reaction.retriable), suspend_s=suspend_s
        )

    def _answer(self, number: int, call: _Call) -> TurnAnswer:
        ctx = self._context
        if ctx.recorder is not None:
            ctx.recorder.turn(number, call.request, tuple(call.events), ctx.clock.monotonic() - call.began)
        return TurnAnswer(
            requests=tuple(e for e in call.events if isinstance(e, ToolRequest)),
            completions=tuple(e for e in call.events if isinstance(e, Completion)),
            finish="" if call.ended is None else call.ended.finish,
        )

    async def _once(self, number: int, turn: Turn) -> _Call:
        """One try to its end; a failure is in the result, journaled when a call had been on its way."""
        ctx = self._context
        call = _Call(stream=ctx.redactor.stream(), began=ctx.clock.monotonic())
        events = ctx.session.run(turn)
        try:
            while call.ended is None and call.failure is None:
                await self._take(number, call, await _next(events))
        except (CallerError, ProviderError) as error:
            await self._fail(call, Failure(exception="", error_code=error.code.value, message=error.message))
            raise
        finally:
            await _close(events)
        ctx.progress(visible(call.stream.rest()))
        return call

    async def _take(self, number: int, call: _Call, event: TurnEvent) -> None:
        ctx = self._context
        match event:
            case CallIntent(request=request):
                call.request, call.answered = request, False
                call.began = ctx.clock.monotonic()
                # Durable before the iterator is resumed: only resuming it sends the request.
                digest = request_digest(ctx.redactor.json(request), ctx.worktree, ())
                call.call = await ctx.journal.model_called(number, digest)
            case OutputDelta(text=text):
                ctx.progress(visible(call.stream.feed(text)))
            case CallResult():
                result = replace(
                    event,
                    response=ctx.redactor.json(event.response),
                    provider=ctx.redactor.text(event.provider),
                    model=ctx.redactor.text(event.model),
                )
                call.events.append(result)
                if call.call is not None:
                    await ctx.journal.model_responded(call.call, result, ctx.clock.monotonic() - call.began)
                    call.answered = True
            case ToolRequest():
                call.events.append(
                    replace(event, name=ctx.redactor.text(event.name), arguments=ctx.redactor.json(event.arguments))
                )
            case Completion(value=value):
                call.events.append(Completion(value=ctx.redactor.json(value)))
            case TurnEnded():
                call.ended = event
                call.events.append(event)
            case Failure():
                await self._fail(call, event)

    async def _fail(self, call: _Call, failure: Failure) -> None:
        ctx = self._context
        shown = {n: ctx.redactor.text(getattr(failure, n) or "") for n in ("exception", "message")}
        code = None if failure.error_code is None else visible(ctx.redactor.text(failure.error_code))
        call.failure = replace(
            failure, exception=visible(shown["exception"]), message=visible(shown["message"]), error_code=code
        )
        if call.call is not None and not call.answered:
            duration_s = ctx.clock.monotonic() - call.began
            kind = classify(call.failure)
            await ctx.journal.model_failed(call.call, ctx.provider, call.failure, kind, duration_s)


async def _next(events: AsyncIterator[TurnEvent]) -> TurnEvent:
    """The next event; what went wrong instead of one is a ``Failure``. Refusals with a code of ours pass unchanged."""
    try:
        return _frozen(await anext(events))
    except StopAsyncIteration:
        return Failure(exception="", error_code=STREAM_BROKEN, message="the turn broke off before its end")
    except RunnerError:
        raise
    except Exception as error:  # an adapter stands before foreign libraries: whatever escapes it is a failed call
        return failure_of(error)


def _frozen(event: TurnEvent) -> TurnEvent:
    """``event`` with its JSON frozen; a ``Failure`` for what is not JSON."""
    try:
        match event:
            case CallIntent(request=request):
                return CallIntent(request=freeze(request))
            case CallResult(response=response):
                return replace(event, response=freeze(response))
            case ToolRequest(arguments=arguments):
                return replace(event, arguments=freeze(arguments))
            case Completion(value=value):
                return Completion(value=freeze(value))
            case _:
                return event
    except ValueError as error:
        return Failure(exception="", error_code="invalid-stream", message=f"the adapter gave what is not JSON: {error}")


async def _close(events: AsyncIterator[TurnEvent]) -> None:
    aclose = getattr(events, "aclose", None)
    if aclose is not None:
        await aclose()


def _told(failure: Failure) -> str:
    """A failure for people: its message and the signals that classified it."""
    signals = [
        failure.error_code or "",
        f"HTTP {failure.http_status}" if failure.http_status is not None else "",
        failure.exception,
    ]
    told = ", ".join(s for s in signals if s)
    return f"{failure.message} ({told})" if failure.message and told else failure.message or told or "failed"


SUSPENDING: Final[dict[Code, float]] = {Code.SECRET_UNREADABLE: 300.0, Code.PROVIDER_START_FAILED: 60.0}
"""Refusals that a person or time can mend while nothing of the step was done, and how long to wait."""


def refused_by(error: CallerError | ProviderError, redactor: Redactor) -> Refused:
    """A refusal with a code of ours; its remedy stays with it."""
    text = f"{error.message} ({error.remedy})" if error.remedy else error.message
    failed = Failed(code=error.code.value, message=visible(redactor.text(text)), retriable=False)
    return Refused(failed=failed, suspend_s=SUSPENDING.get(error.code))
