"""Managed agent invocation: one admitted action in, one disposition out.

Owned invariants
- What acts is exactly what was bound: executor, provider descriptor, tools, scope, result schema are compared before a
  realm is touched, and with what an earlier session of the step was started with.
- Only a structured completion that its schema admits completes a step.
- Nothing of an episode is live when ``invoke`` returns or raises.

Crash behaviour: a resumed attempt opens a new session and starts again at turn 1 under the same call ids, over a worktree
that custody has put back; model calls that were answered may be made again. An effect outside, begun and without a recorded
end, is never repeated: ``Uncertain``. Back-off is not remembered across processes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from runner.contract import limits
from runner.contract.activation import AgentAction, Executor
from runner.contract.canonical import FrozenJson, canonical, digest
from runner.contract.errors import CallerError, Code, Finding, ProviderError
from runner.contract.events import OwnerRetired
from runner.contract.ids import Digest
from runner.contract.outcomes import Retirement
from runner.contract.ports import (
    AwaitingInput,
    Case,
    Clock,
    Completed,
    Dispatch,
    Disposition,
    Failed,
    Invalid,
    LedgerWriter,
    Uncertain,
)
from runner.contract.provider import NativeSession, ProviderDescriptor, SessionDispatch, Toolbox, ToolSpec
from runner.contract.recording import Header
from runner.contract.records import Draft
from runner.contract.text import visible
from runner.invocation.binding import descriptor_problems, dispatch_problems, drift, executor_descriptor, executor_of
from runner.invocation.calls import CallContext, ModelTurns, refused_by
from runner.invocation.classify import FailureClass
from runner.invocation.completion import JsonContract
from runner.invocation.episode import GENERATE_TURNS_MAX, Episode
from runner.invocation.history import asked_calls, failed_tries, is_retired, last_descriptor, uncertain_call
from runner.invocation.journal import Journal
from runner.invocation.prompt import system_prompt
from runner.invocation.recorder import SessionRecorder
from runner.invocation.registry import Registry, opened
from runner.invocation.rest import in_thread
from runner.invocation.tools import ToolCalls


class Invocation:
    """``ports.ActionInvocation`` and ``ports.InvocationControl`` for one Delivery."""

    def __init__(
        self,
        *,
        case: Case,
        writer: LedgerWriter,
        registry: Registry,
        toolbox: Toolbox,
        clock: Clock,
        record_dir: Path | None,
    ) -> None:
        self._case = case
        self._writer = writer
        self._registry = registry
        self._toolbox = toolbox
        self._clock = clock
        self._record_dir = record_dir
        self._sessions: set[NativeSession] = set()

    # --- for the host ------------------------------------------------------------------------------------------------

    async def invoke(self, dispatch: Dispatch) -> Disposition:
        """See ``ports.ActionInvocation``. ``Failed.code`` is a class of the classification table or a code of ``errors``;
        ``IntegrityError`` and ``EnvironmentFault`` (ledger, grant, recording) are raised."""
        executor = executor_of(self._case.activation, dispatch.action.executor)
        if executor is None:
            return _drifted((f"executor: no role {dispatch.action.executor} is bound",))
        try:
            offered = self._registry.descriptor(executor.provider)
            specs = self._specs(dispatch, offered)
            contract = JsonContract(dispatch.action.result_schema)
        except CallerError as error:
            return refused_by(error, self._registry.redactor).failed
        problems = (*descriptor_problems(executor, offered), *dispatch_problems(self._case.plan, dispatch))
        if problems:
            return _drifted(problems)
        descriptor = executor_descriptor(executor, dispatch, specs)
        before = await in_thread(lambda: self._before(dispatch, descriptor))
        if not isinstance(before, Counter):
            return before
        bound = _Bound(
            dispatch=dispatch,
            executor=executor,
            offered=offered,
            specs=specs,
            contract=contract,
            descriptor=descriptor,
        )
        return await self._episode(bound, before)

    def _specs(self, dispatch: Dispatch, offered: ProviderDescriptor) -> tuple[ToolSpec, ...]:
        """Our own tools, for agents of a provider that lets us run them."""
        action = dispatch.action
        if not isinstance(action, AgentAction) or "tools" not in offered.features:
            return ()
        return self._toolbox.specs(action.tools, action.scope.writable)

    def _before(self, dispatch: Dispatch, descriptor: FrozenJson) -> Counter[str] | Failed | Uncertain:
        """What the ledger says against this episode; else the failed tries of its calls so far."""
        ledger = self._case.ledger
        earlier = last_descriptor(ledger, dispatch.step)
        if earlier is not None and earlier.descriptor_digest != digest(descriptor):
            return _drifted(drift(earlier.descriptor, descriptor))
        uncertain = uncertain_call(ledger, dispatch.step)
        if uncertain is not None:
            return Uncertain(call=uncertain.call, why=f"{uncertain.tool} was begun and its end was not recorded")
        return failed_tries(ledger, dispatch.step, dispatch.attempt)

    async def _episode(self, bound: "_Bound", tries_before: Counter[str]) -> Disposition:
        try:
            realm = await self._registry.realm(bound.executor.provider)
            session = await opened(bound.executor.provider, realm.open_session(self._session_dispatch(bound)))
        except (CallerError, ProviderError) as error:
            refused = refused_by(error, self._registry.redactor)
            return replace(refused.failed, suspend_s=refused.suspend_s)
        self._sessions.add(session)
        try:
            return await self._run(bound, session, tries_before)
        finally:
            await self._close(session)

    async def _run(self, bound: "_Bound", session: NativeSession, tries_before: Counter[str]) -> Disposition:
        dispatch = bound.dispatch
        journal = Journal(
            writer=self._writer,
            artifacts=self._case.ledger.artifacts,
            delivery=self._case.plan.delivery,
            step=dispatch.step,
            attempt=dispatch.attempt,
        )
        await journal.session_started(bound.descriptor)
        recorder = self._recorder(bound)
        try:
            episode = self._assemble(bound, session, journal, recorder, tries_before)
            disposition = await episode.run(self._registry.redactor.text(dispatch.prompt))
        finally:
            if recorder is not None:
                recorder.close()
        await _conclude_session(journal, disposition)
        return disposition

    def _assemble(
        self,
        bound: "_Bound",
        session: NativeSession,
        journal: Journal,
        recorder: SessionRecorder | None,
        tries_before: Counter[str],
    ) -> Episode:
        dispatch, redactor = bound.dispatch, self._registry.redactor

        def progress(text: str) -> None:
            if text:
                self._case.progress.progress(dispatch.step, redactor.text(text))

        context = CallContext(
            session=session,
            provider=bound.executor.provider,
            journal=journal,
            redactor=redactor,
            gate=self._registry.gate(bound.executor.provider),
            clock=self._clock,
            worktree=self._worktree,
            attempts_max=dispatch.attempts_max,
            tries_before=tries_before,
            recorder=recorder,
            progress=progress,
        )
        action = dispatch.action
        return Episode(
            turns=ModelTurns(context),
            tools=self._tools(bound, journal, progress),
            contract=bound.contract,
            turns_max=action.turns_max if isinstance(action, AgentAction) else GENERATE_TURNS_MAX,
        )

    def _tools(self, bound: "_Bound", journal: Journal, progress: Callable[[str], None]) -> ToolCalls | None:
        if bound.dispatch.grant is None:
            return None
        return ToolCalls(
            toolbox=self._toolbox,
            grant=bound.dispatch.grant,
            specs=bound.specs,
            journal=journal,
            redactor=self._registry.redactor,
            clock=self._clock,
            progress=progress,
        )

    @property
    def _worktree(self) -> str:
        """Also of steps that do not use it: their prompts may name it, and recordings must not."""
        return self._case.activation.workspace.worktree

    def _session_dispatch(self, bound: "_Bound") -> SessionDispatch:
        dispatch = bound.dispatch
        system = system_prompt(bound.executor, dispatch, bound.offered)
        return SessionDispatch(
            delivery=self._case.plan.delivery,
            step=dispatch.step,
            attempt=dispatch.attempt,
            executor=bound.executor,
            system=self._registry.redactor.text(system),
            tools=bound.specs,
            result_schema=dispatch.action.result_schema,
            worktree=self._worktree,
        )

    def _recorder(self, bound: "_Bound") -> SessionRecorder | None:
        if self._record_dir is None:
            return None
        header = Header(
            step=bound.dispatch.step.key,
            provider=bound.executor.provider,
            version=bound.executor.version,
            model=bound.executor.model,
            descriptor=digest(bound.descriptor),
        )
        return SessionRecorder(self._record_dir, header, self._worktree, self._registry.redactor)

    async def _close(self, session: NativeSession) -> None:
        """Closed once, bounded. An adapter that fails to is left to its realm's end: the disposition stands already."""
        self._sessions.discard(session)
        with suppress(Exception):
            async with asyncio.timeout(limits.TERM_GRACE_S):
                await session.close()

    # --- for the coordinator -----------------------------------------------------------------------------------------

    async def conclude(self) -> tuple[Finding, ...]:
        """See ``ports.InvocationControl``. Asks the realms of providers that were called, about every executor bound to
        them: what stands in a recording for a role that was never called is unused, too. Executors with the same model
        and options share what they have and are asked about once, together."""
        asked = await in_thread(lambda: asked_calls(self._case.ledger, self._case.plan))
        executors = self._case.activation.executors
        called = {e.provider for e in executors if asked.get(e.role)}
        groups: dict[tuple[str, str, bytes], list[Executor]] = {}
        for executor in executors:
            if executor.provider in called:
                key = (executor.provider, executor.model, canonical(executor.options))
                groups.setdefault(key, []).append(executor)
        findings: list[Finding] = []
        for (provider, _, _), members in groups.items():
            realm = await self._registry.realm(provider)
            calls = frozenset[tuple[str, int]]().union(*(asked.get(e.role, frozenset()) for e in members))
            findings += realm.review(members[0], calls)
        return tuple(findings)

    async def retire(self, authorization: Digest) -> Retirement:
        """See ``ports.InvocationControl``. Realms belong to the Runner and stay. ``IntegrityError``
        (``authorization-foreign``) for another authorization than the recorded one."""
        fact = Retirement(owner="invocation", authorization=authorization)
        done = await in_thread(lambda: is_retired(self._case.ledger, authorization))
        for session in tuple(self._sessions):
            await self._close(session)
        if not done:
            await in_thread(lambda: self._writer.append(Draft(event=OwnerRetired(retirement=fact))))
        return fact


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """One dispatch with everything that was compared for it."""

    dispatch: Dispatch
    executor: Executor
    offered: ProviderDescriptor
    specs: tuple[ToolSpec, ...]
    contract: JsonContract
    descriptor: FrozenJson


def _drifted(problems: tuple[str, ...]) -> Failed:
    message = "not what was admitted: " + "; ".join(problems)
    return Failed(code=Code.BINDING_DRIFT.value, message=visible(message), retriable=False)


async def _conclude_session(journal: Journal, disposition: Disposition) -> None:
    match disposition:
        case Completed():
            await journal.session_completed()
        case Failed(code=code, message=message):
            await journal.session_failed(code, message)
        case Invalid(findings=findings):
            await journal.session_failed(FailureClass.INVALID_OUTPUT.value, "; ".join(findings))
        case Uncertain(call=call, why=why):
            await journal.session_failed("unknown", f"{call}: {why}")
        case AwaitingInput():
            return
        case _:
            assert_never(disposition)
