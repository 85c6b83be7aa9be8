"""One episode's entries in the ledger: the intent of every call durable before it leaves, its result after.

Owned invariants
- An effect's intent is durable before the effect begins; a result is recorded for an intent at most once per try.
- Only redacted values reach the ledger.
- Values are written before the entry that names them.
"""

from collections import Counter
from collections.abc import Callable

from runner.contract import effects
from runner.contract.canonical import FrozenJson, canonical, digest, freeze
from runner.contract.events import (
    ArtifactStored,
    Event,
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
from runner.contract.provider import CallResult, Failure, ToolSpec
from runner.contract.records import Draft
from runner.invocation.classify import FailureClass
from runner.invocation.rest import in_thread


class Journal:
    """Writes for one attempt of one step. Call ids and effect keys depend on nothing but what is asked, so a resumed
    attempt that does the same has the same ones."""

    def __init__(
        self, *, writer: LedgerWriter, artifacts: Artifacts, delivery: DeliveryId, step: StepRef, attempt: int
    ) -> None:
        self._writer = writer
        self._artifacts = artifacts
        self._delivery = delivery
        self._step = step
        self._attempt = attempt
        self._tools = 0
        self._occurrences: Counter[tuple[str, bytes]] = Counter()

    @property
    def session(self) -> str:
        """The episode's session id: the same when the attempt is resumed."""
        return f"{self._step.key}/{self._attempt}"

    async def session_started(self, descriptor: FrozenJson) -> None:
        event = SessionStarted(session=self.session, descriptor=descriptor, descriptor_digest=digest(descriptor))
        await self._append(lambda: (event,))

    async def session_completed(self) -> None:
        """The value itself is the host's to record, with the step's end."""
        await self._append(lambda: (SessionCompleted(session=self.session),))

    async def session_failed(self, code: str, message: str) -> None:
        event = SessionFailed(session=self.session, code=code, message=message)
        await self._append(lambda: (event,))

    async def model_called(self, turn: int, request: Digest) -> CallId:
        """Durable when it returns; only then may the request leave."""
        call = effects.model_call_id(self._step, self._attempt, turn)
        await self._append(lambda: (ModelCalled(call=call, turn=turn, request=request),))
        return call

    async def model_responded(self, call: CallId, result: CallResult, duration_s: float) -> None:
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
        self, call: CallId, provider: str, failure: Failure, kind: FailureClass, duration_s: float
    ) -> None:
        fields = {name: getattr(failure, name) for name in Failure.__slots__}
        event = ModelResponded(
            call=call,
            provider=provider,
            model="",
            failure=freeze({"class": kind.value, **fields}),
            usage=Usage(),
            duration_s=duration_s,
        )
        await self._append(lambda: (event,))

    async def tool_called(self, spec: ToolSpec, arguments: FrozenJson) -> CallId:
        """Durable when it returns; only then may the tool act."""
        self._tools += 1
        call = effects.tool_call_id(self._step, self._attempt, self._tools)
        counted = (spec.name, canonical(arguments))
        occurrence = self._occurrences[counted]
        self._occurrences[counted] += 1
        key = effects.effect_key(self._delivery, self._step, spec.name, arguments, occurrence)

        def facts() -> tuple[Event, ...]:
            ref, stored = self._put(arguments)
            called = ToolCalled(call=call, tool=spec.name, caller="model", effect=spec.effect, key=key, input=ref)
            return (*stored, called)

        await self._append(facts)
        return call

    async def tool_ended(self, call: CallId, *, ok: bool, text: str) -> None:
        def facts() -> tuple[Event, ...]:
            if not ok:
                return (ToolFailed(call=call, message=text),)
            ref, stored = self._put(text)
            return (*stored, ToolSucceeded(call=call, value=ref))

        await self._append(facts)

    def _put(self, value: FrozenJson) -> tuple[ValueRef, tuple[Event, ...]]:
        ref = self._artifacts.put(value)
        return ref, (ArtifactStored(digest=ref.digest, bytes=ref.bytes),) if ref.stored else ()

    async def _append(self, facts: Callable[[], tuple[Event, ...]]) -> None:
        """One transaction in a thread; whoever is cancelled meanwhile still waits until it is known to be written."""

        def write() -> None:
            self._writer.append(*(Draft(event=e, step=self._step, attempt=self._attempt) for e in facts()))

        await in_thread(write)
