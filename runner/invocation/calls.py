"""One turn of a session: replayed where the ledger has its answer; else the model call journaled on both sides, and tried
again where the failure allows it.

Crash behaviour: an answer is journaled when its turn has ended, and from then on the call is never made again. An intent
without an answer is all that is left of a call that was on its way; the resumed attempt makes it again under the same id. A
process that died does not give a call new tries, and does not shorten a back-off.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from runner.contract import limits
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code, ProviderError, RunnerError
from runner.contract.events import ModelResponded, Usage
from runner.contract.ids import CallId, Digest
from runner.contract.ports import Clock, Failed
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Correction,
    Failure,
    NativeSession,
    OutputDelta,
    Prompt,
    ToolRequest,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.recording import request_digest
from runner.contract.redaction import Redactor, StreamRedactor
from runner.contract.text import excerpt, visible
from runner.invocation.backoff import WAIT_S_MAX, Gate, left_s
from runner.invocation.classify import CUT_OFF, classify
from runner.invocation.history import Past, PastFailure, PastTurn
from runner.invocation.journal import Journal
from runner.invocation.recorder import SessionRecorder
from runner.invocation.rest import to_rest
from runner.invocation.stream import close_events, invalid, next_event, redacted
from runner.invocation.turns import TurnAnswer
from runner.invocation.verdicts import Verdict, failure_by, judge

BACKING_OFF: Final = "backing-off"
"""The code of a call that was not made: others were told to wait, for longer than is waited for here."""
SHOWN_CHARS_MAX: Final = 500
"""Of a request that is not the recorded one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What every turn of one episode shares."""

    session: NativeSession
    provider: str
    past: Past
    journal: Journal
    redactor: Redactor
    gate: Gate
    clock: Clock
    worktree: str
    tries_max: int
    recorder: SessionRecorder | None
    progress: Callable[[str], None]


@dataclass(slots=True)
class _Call:
    """One try as it goes: what came so far."""

    turn: Turn
    past: PastTurn | None
    stream: StreamRedactor
    began: float
    request: FrozenJson = None
    id: CallId | None = None
    result: CallResult | None = None
    ended: bool = False
    failure: Failure | None = None
    events: list[TurnEvent] = field(default_factory=list)


class ModelTurns:
    """Runs turns, one at a time."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    async def run(self, number: int, turn: Turn) -> TurnAnswer | Failed:
        """The answer of turn ``number``, or the failure that was left after ``tries_max`` tries. When cancelled, a call on
        its way gets ``TERM_GRACE_S`` to be answered and journaled."""
        ctx = self._context
        past, tries = ctx.past.turns.get(number), 0
        if past is not None and past.answer is not None:
            return await self._replay(number, turn, past, past.answer)
        if past is not None and past.failed is not None:
            failed = self._held_by(past.failed)
            if failed is not None:
                return failed
            tries = past.failed.tries_so_far
        while True:
            closed_s = await ctx.gate.passed(ctx.clock)
            if closed_s > 0:
                return self._backing_off(closed_s)
            call = await to_rest(self._once(number, turn, past), ctx.clock, limits.TERM_GRACE_S)
            if call.failure is None:
                return self._answer(number, call.request, call.events, ctx.clock.monotonic() - call.began)
            tries += 1
            verdict = self._judge(call.failure, tries)
            if verdict.pause_s <= WAIT_S_MAX:
                ctx.gate.close_for(verdict.pause_s, ctx.clock.monotonic())
            if verdict.shared:
                await ctx.gate.share(verdict.pause_s, ctx.clock)
            if verdict.failed is not None:
                return verdict.failed
            ctx.progress(f"\n{classify(call.failure).value}: trying again in {verdict.pause_s:g} s\n")

    def _judge(self, failure: Failure, tries: int) -> Verdict:
        ctx = self._context
        return judge(failure, tries=tries, tries_max=ctx.tries_max, provider=ctx.provider)

    def _backing_off(self, left_s: float) -> Failed:
        message = f"{self._context.provider}: it asked for a pause, of which {left_s:.0f} s are left"
        return Failed(code=BACKING_OFF, message=message, retriable=True, suspend_s=left_s)

    def _held_by(self, past: PastFailure) -> Failed | None:
        """What an earlier life's newest failure of this turn means: it was the end, or it is too early to call again. None
        when the call is to be made as soon as the gate is open; a turn that suspended the step is tried once more."""
        ctx = self._context
        verdict = self._judge(past.failure, past.tries)
        if verdict.failed is not None and verdict.failed.suspend_s is None:
            return verdict.failed
        left = left_s(verdict.pause_s, past.at, ctx.clock.now())
        if verdict.failed is not None and left > WAIT_S_MAX:
            return replace(verdict.failed, suspend_s=left)
        ctx.gate.close_for(left, ctx.clock.monotonic())
        return None

    # --- answers that are known --------------------------------------------------------------------------------------

    async def _replay(self, number: int, turn: Turn, past: PastTurn, answer: ModelResponded) -> TurnAnswer | Failed:
        """The recorded answer, told to the session, once its request is shown to be the one that was answered."""
        ctx = self._context
        response = await ctx.journal.value(answer.response)
        try:
            events = tuple(redacted(event, ctx.redactor) for event in ctx.session.replay(turn, response))
            if not events or not isinstance(events[0], CallIntent) or not isinstance(events[-1], TurnEnded):
                raise self._drifted(turn, past, "a turn that cannot be told from its answer")
            self._verify(turn, past, self._digest(events[0].request))
        except (CallerError, ProviderError) as error:
            return self._refused(error)
        except RunnerError:
            raise
        except Exception as error:  # an adapter stands before foreign libraries: whatever escapes it, it cannot go on
            return self._refused(
                self._drifted(turn, past, f"an answer over which it raised {type(error).__qualname__}")
            )
        result = CallResult(response=response, provider=answer.provider, model=answer.model, usage=answer.usage)
        return self._answer(number, events[0].request, [result, *events[1:]], answer.duration_s)

    def _digest(self, request: FrozenJson) -> Digest:
        return request_digest(self._context.redactor.json(request), self._context.worktree, ())

    def _verify(self, turn: Turn, past: PastTurn, request: Digest) -> None:
        """``ProviderError(binding-drift)`` when another request was answered, or was on its way. The ledger keeps digests
        of requests, so what can be shown is what would be said now."""
        if request != past.request:
            raise self._drifted(turn, past, f"{request} instead of {past.request}")

    def _drifted(self, turn: Turn, past: PastTurn, found: str) -> ProviderError:
        shown = excerpt(_said(turn), SHOWN_CHARS_MAX)
        return ProviderError(
            Code.BINDING_DRIFT,
            f"model call {past.call}: the session cannot go on where it was, its request is {found}; now it says: {shown}",
            remedy="continue with the Runner, the prompt and the recordings that began this session",
        )

    def _refused(self, error: CallerError | ProviderError) -> Failed:
        message = visible(self._context.redactor.text(failure_by(error).message))
        return Failed(code=error.code.value, message=message, retriable=False)

    def _answer(self, number: int, request: FrozenJson, events: list[TurnEvent], duration_s: float) -> TurnAnswer:
        recorder = self._context.recorder
        if recorder is not None:
            recorder.turn(number, request, tuple(events), duration_s)
        return TurnAnswer(
            requests=tuple(e for e in events if isinstance(e, ToolRequest)),
            completions=tuple(e for e in events if isinstance(e, Completion)),
        )

    # --- calls that are made -----------------------------------------------------------------------------------------

    async def _once(self, number: int, turn: Turn, past: PastTurn | None) -> _Call:
        """One try to its end; a failure is in the result, journaled when a call had been on its way."""
        ctx = self._context
        call = _Call(turn=turn, past=past, stream=ctx.redactor.stream(), began=ctx.clock.monotonic())
        events = ctx.session.run(turn)
        try:
            while not call.ended and call.failure is None:
                await self._take(number, call, await next_event(events))
        except (CallerError, ProviderError) as error:
            await self._fail(call, failure_by(error))
        finally:
            await close_events(events)
        ctx.progress(visible(call.stream.rest()))
        return call

    async def _take(self, number: int, call: _Call, event: TurnEvent) -> None:
        ctx = self._context
        match event:
            case CallIntent() if call.id is not None:
                await self._fail(call, invalid("a turn makes one model call"))
            case CallIntent(request=request):
                digest = self._digest(request)
                if call.past is not None:
                    self._verify(call.turn, call.past, digest)
                call.request, call.began = request, ctx.clock.monotonic()
                # Durable before the iterator is resumed: only resuming it sends the request.
                call.id = await ctx.journal.model_called(number, digest)
            case OutputDelta(text=text):
                ctx.progress(visible(call.stream.feed(text)))
            case TurnEnded(finish=finish):
                call.events.append(event)
                await self._end(call, finish)
            case Failure():
                await self._fail(call, event)
            case CallResult() | ToolRequest() | Completion():
                kept = redacted(event, ctx.redactor)
                call.result = kept if isinstance(kept, CallResult) else call.result
                call.events.append(kept)

    async def _end(self, call: _Call, finish: str) -> None:
        ctx = self._context
        if finish in CUT_OFF:
            told = f"the answer ended early ({finish}); a cut-off answer is never taken"
            await self._fail(call, Failure(exception="", error_code=finish, message=told))
        elif call.id is None or call.result is None:
            await self._fail(call, invalid("a turn ended without an answer"))
        else:
            await ctx.journal.model_responded(call.id, call.result, ctx.clock.monotonic() - call.began)
            call.ended = True

    async def _fail(self, call: _Call, failure: Failure) -> None:
        ctx = self._context
        exception, message = (visible(ctx.redactor.text(text)) for text in (failure.exception, failure.message))
        code = None if failure.error_code is None else visible(ctx.redactor.text(failure.error_code))
        call.failure = replace(failure, exception=exception, message=message, error_code=code)
        if call.id is not None:
            duration_s = ctx.clock.monotonic() - call.began
            usage = Usage() if call.result is None else call.result.usage
            await ctx.journal.model_failed(call.id, ctx.provider, call.failure, usage=usage, duration_s=duration_s)


def _said(turn: Turn) -> str:
    match turn:
        case Prompt(text=text):
            return text
        case Correction(findings=findings):
            return "; ".join(findings)
        case _:
            return "; ".join(result.text for result in turn.results)
