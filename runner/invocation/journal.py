"""One episode's entries in the ledger: the intent of every call durable before it leaves, its result after.

Owned invariants
- An effect's intent is durable before the effect begins, also when it is begun again; one result per begun effect.
- Only redacted values reach the ledger.
- Values are written before the entry that names them.
- Whatever is journaled stands between a ``session.started`` and the session's end.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from runner.contract import effects
from runner.contract.activation import EffectClass
from runner.contract.canonical import FrozenJson, canonical, digest, freeze
from runner.contract.events import (
    ArtifactStored,
    Event,
    InteractionAnswered,
    InteractionRequested,
    ModelCalled,
    ModelResponded,
    SessionCompleted,
    SessionFailed,
    SessionStarted,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
    Usage,
    ValueRef,
)
from runner.contract.ids import CallId, DeliveryId, Digest, StepRef
from runner.contract.ports import Artifacts, LedgerWriter
from runner.contract.provider import CallResult, Failure
from runner.contract.records import Draft, Record
from runner.invocation.classify import classify
from runner.invocation.rest import in_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTool:
    """A tool call before it is made: what it is called does not depend on whether it was made before."""

    call: CallId
    key: Digest
    tool: str
    arguments: FrozenJson


class Journal:
    """Writes for one attempt of one step. Call ids and effect keys depend on nothing but what is asked, so a resumed
    attempt that does the same has the same ones. ``session`` is how the attempt's session stands in the ledger."""

    def __init__(
        self,
        *,
        writer: LedgerWriter,
        artifacts: Artifacts,
        delivery: DeliveryId,
        step: StepRef,
        attempt: int,
        descriptor: FrozenJson,
        session: Literal["none", "open", "ended"],
    ) -> None:
        self._writer = writer
        self._artifacts = artifacts
        self._delivery = delivery
        self._step = step
        self._attempt = attempt
        self._descriptor = descriptor
        self._state: Literal["none", "open", "ended"] = session
        self._tools = 0
        self._occurrences: Counter[tuple[str, bytes]] = Counter()

    @property
    def session(self) -> str:
        """The episode's session id: the same when the attempt is resumed."""
        return f"{self._step.key}/{self._attempt}"

    async def value(self, ref: ValueRef | None) -> FrozenJson:
        """What an entry refers to, verified."""
        return None if ref is None else await in_thread(lambda: self._artifacts.get(ref))

    # --- the session -------------------------------------------------------------------------------------------------

    async def session_completed(self) -> None:
        """The value itself is the host's to record, with the step's end."""
        await self._end(SessionCompleted(session=self.session))

    async def session_failed(self, code: str, message: str) -> None:
        await self._end(SessionFailed(session=self.session, code=code, message=message))

    async def _end(self, event: Event) -> None:
        """Nothing where the end is recorded already and nothing was done since."""
        if self._state != "ended":
            await self._append(lambda: (event,))
            self._state = "ended"

    # --- model calls -------------------------------------------------------------------------------------------------

    async def model_called(self, turn: int, request: Digest) -> CallId:
        """Durable when it returns; only then may the request leave."""
        call = effects.model_call_id(self._step, self._attempt, turn)
        await self._append(lambda: (ModelCalled(call=call, turn=turn, request=request),))
        return call

    async def model_responded(self, call: CallId, result: CallResult, duration_s: float) -> None:
        """For an answer that is whole, with the end of its turn: from now on the call is never made again."""

        def facts() -> tuple[Event, ...]:
            ref, stored = self._put(result.response)
            return (
                *stored,
                ModelResponded(
                    call=call,
                    provider=result.provider,
                    model=result.model,
                    response=ref,
                    usage=result.usage,
                    duration_s=duration_s,
                ),
            )

        await self._append(facts)

    async def model_failed(
        self, call: CallId, provider: str, failure: Failure, *, usage: Usage, duration_s: float
    ) -> None:
        fields = {name: getattr(failure, name) for name in Failure.__slots__}
        event = ModelResponded(
            call=call,
            provider=provider,
            model="",
            failure=freeze({"class": classify(failure).value, **fields}),
            usage=usage,
            duration_s=duration_s,
        )
        await self._append(lambda: (event,))

    # --- tool calls --------------------------------------------------------------------------------------------------

    def plan(self, tool: str, arguments: FrozenJson) -> PlannedTool:
        """The next tool call of the attempt. Writes nothing."""
        self._tools += 1
        counted = (tool, canonical(arguments))
        occurrence = self._occurrences[counted]
        self._occurrences[counted] += 1
        return PlannedTool(
            call=effects.tool_call_id(self._step, self._attempt, self._tools),
            key=effects.effect_key(self._delivery, self._step, tool, arguments, occurrence),
            tool=tool,
            arguments=arguments,
        )

    async def tool_called(self, planned: PlannedTool, effect: EffectClass) -> None:
        """Durable when it returns; only then may the tool act."""
        await self._append(lambda: self._intent(planned, effect))

    async def tool_staged(self, planned: PlannedTool, effect: EffectClass) -> None:
        """Durable with what somebody else appends next, or with how it ended: for a tool that records by itself when it
        begins to act."""
        await in_thread(lambda: self._writer.stage(*self._drafts(self._intent(planned, effect))))

    async def tool_ended(self, call: CallId, *, ok: bool, text: str) -> None:
        await self._append(lambda: self._result(call, ok, text))

    async def asked(self, planned: PlannedTool, prompt: str, answer_schema: FrozenJson) -> str:
        """The call and the question behind it, in one transaction; when that was (RFC 3339)."""
        question = InteractionRequested(wait=planned.call, prompt=prompt, answer_schema=answer_schema)
        return (await self._append(lambda: (*self._intent(planned, "read"), question))).at

    def answered(self, call: CallId, value: FrozenJson, who: str) -> None:
        """At once, on the calling thread: between looking for an earlier answer and this nothing may happen."""
        ref, stored = self._put(value)
        self._write((*stored, InteractionAnswered(wait=call, value=ref, who=who)))

    def _intent(self, planned: PlannedTool, effect: EffectClass) -> tuple[Event, ...]:
        ref, stored = self._put(planned.arguments)
        called = ToolCalled(
            call=planned.call, tool=planned.tool, caller="model", effect=effect, key=planned.key, input=ref
        )
        return (*stored, called)

    def _result(self, call: CallId, ok: bool, text: str) -> tuple[Event, ...]:
        if not ok:
            return (ToolFailed(call=call, message=text),)
        ref, stored = self._put(text)
        return (*stored, ToolSucceeded(call=call, value=ref))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _put(self, value: FrozenJson) -> tuple[ValueRef, tuple[Event, ...]]:
        ref = self._artifacts.put(value)
        return ref, (ArtifactStored(digest=ref.digest, bytes=ref.bytes),) if ref.stored else ()

    async def _append(self, facts: Callable[[], tuple[Event, ...]]) -> Record:
        """One transaction in a thread; whoever is cancelled meanwhile still waits until it is known to be written."""
        return await in_thread(lambda: self._write(facts()))

    def _write(self, facts: tuple[Event, ...]) -> Record:
        """The record of the last of ``facts``."""
        return self._writer.append(*self._drafts(facts))[-1]

    def _drafts(self, facts: tuple[Event, ...]) -> tuple[Draft, ...]:
        """``facts`` to be recorded. What begins or goes on with a session that is not open starts it."""
        if self._state != "open":
            started = SessionStarted(
                session=self.session, descriptor=self._descriptor, descriptor_digest=digest(self._descriptor)
            )
            facts = (started, *facts)
        self._state = "open"
        return tuple(Draft(event=e, step=self._step, attempt=self._attempt) for e in facts)
