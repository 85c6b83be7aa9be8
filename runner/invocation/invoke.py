"""Managed agent invocation: one admitted action in, one disposition out.

Owned invariants
- What acts is exactly what was bound: executor, provider descriptor, tools, scope, result schema are compared before a
  realm is touched, and with what an earlier session of the step was started with.
- Only a structured completion that its schema admits completes a step.
- Nothing of an episode is live when ``invoke`` returns or raises.

Crash behaviour: a resumed attempt opens a session and goes through it again from turn 1. As far as the ledger has the answers
and results they are used, each after a look whether it was given to the same request; the first that is missing is made, over
files that custody has put back to the last tool call's. An effect outside, begun and without a recorded end, is never
repeated and never guessed: ``Uncertain``, until a person has said what happened.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
    DeclaredTools,
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
from runner.invocation.asking import SPEC, Arrivals, Questions
from runner.invocation.backoff import WAIT_S_MAX, delay_s, left_s
from runner.invocation.binding import descriptor_problems, dispatch_problems, drift, executor_descriptor, executor_of
from runner.invocation.calls import CallContext, ModelTurns
from runner.invocation.classify import FailureClass, is_retried
from runner.invocation.command_tool import COMMAND, CommandTool
from runner.invocation.completion import JsonContract
from runner.invocation.episode import GENERATE_TURNS_MAX, Episode
from runner.invocation.history import Past, asked_calls, is_retired, newest_failure, read_past
from runner.invocation.journal import Journal
from runner.invocation.prompt import system_prompt
from runner.invocation.recorder import SessionRecorder
from runner.invocation.registry import Registry, opened
from runner.invocation.rest import in_thread
from runner.invocation.timing import AttemptTime
from runner.invocation.tools import ToolCalls, spec_of
from runner.invocation.verdicts import SUSPENDING, failure_by


class Invocation:
    """``ports.ActionInvocation`` and ``ports.InvocationControl`` for one Delivery."""

    def __init__(
        self,
        *,
        case: Case,
        writer: LedgerWriter,
        registry: Registry,
        toolbox: Toolbox,
        command: CommandTool,
        servers: DeclaredTools,
        clock: Clock,
        record_dir: Path | None,
    ) -> None:
        self._case = case
        self._writer = writer
        self._registry = registry
        self._toolbox = toolbox
        self._command = command
        self._servers = servers
        self._declared = {tool.name: tool for tool in case.activation.tools}
        self._clock = clock
        # Files are named after steps: two Deliveries in one directory would overwrite each other's.
        self._record_dir = None if record_dir is None else record_dir / case.plan.delivery
        self._sessions: set[NativeSession] = set()
        self._backed_off: set[str] = set()
        self._arrivals = Arrivals()
        case.ledger.subscribe(self._arrivals.record)

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
            return self._refused(error, suspends=False)
        problems = (*descriptor_problems(executor, offered), *dispatch_problems(self._case.plan, dispatch))
        if problems:
            return _drifted(problems)
        descriptor = executor_descriptor(executor, dispatch, specs)
        past = await in_thread(lambda: read_past(self._case.ledger, dispatch.step, dispatch.attempt))
        refused = _contradicted(past, descriptor)
        if refused is not None:
            return refused
        time = AttemptTime(dispatch.timeout_s, past.used_s)
        bound = _Bound(
            dispatch=dispatch,
            executor=executor,
            offered=offered,
            specs=specs,
            contract=contract,
            descriptor=descriptor,
            past=past,
            time=time,
        )
        return await time.bound(self._episode(bound))

    def _specs(self, dispatch: Dispatch, offered: ProviderDescriptor) -> tuple[ToolSpec, ...]:
        """Our own tools and declared ones, for agents of a provider that lets us run them."""
        action = dispatch.action
        if not isinstance(action, AgentAction) or "tools" not in offered.features:
            return ()
        own = tuple(name for name in action.tools if name not in self._declared and name != COMMAND)
        command = (self._command.spec,) if COMMAND in action.tools else ()
        declared = (spec_of(self._declared[name]) for name in action.tools if name in self._declared)
        files = self._toolbox.specs(own, action.scope.writable)
        return (*files, *command, *declared, *((SPEC,) if action.asks else ()))

    async def _episode(self, bound: "_Bound") -> Disposition:
        try:
            realm = await self._registry.realm(bound.executor.provider)
            session = await opened(bound.executor.provider, realm.open_session(self._session_dispatch(bound)))
        except (CallerError, ProviderError) as error:
            return self._refused(error, suspends=True)
        self._sessions.add(session)
        try:
            return await self._run(bound, session)
        finally:
            await self._close(session)

    def _refused(self, error: CallerError | ProviderError, *, suspends: bool) -> Failed:
        """A refusal before anything of the episode was done in this process."""
        text = visible(self._registry.redactor.text(failure_by(error).message))
        suspend_s = SUSPENDING.get(error.code.value) if suspends else None
        return Failed(code=error.code.value, message=text, retriable=False, suspend_s=suspend_s)

    async def _run(self, bound: "_Bound", session: NativeSession) -> Disposition:
        dispatch = bound.dispatch
        journal = Journal(
            writer=self._writer,
            artifacts=self._case.ledger.artifacts,
            delivery=self._case.plan.delivery,
            step=dispatch.step,
            attempt=dispatch.attempt,
            descriptor=bound.descriptor,
            session=bound.past.session,
        )
        await self._back_off(bound.executor.provider)
        recorder = self._recorder(bound)
        try:
            episode = self._assemble(bound, session, journal, recorder)
            disposition = await episode.run(self._registry.redactor.text(dispatch.prompt))
        finally:
            if recorder is not None:
                recorder.close()
        await _conclude_session(journal, disposition)
        return disposition

    async def _back_off(self, provider: str) -> None:
        """Once in a process: the gate of ``provider`` stays closed for what is left of the pause that its newest failure in
        this Delivery began, whichever step met it."""
        if provider in self._backed_off:
            return
        self._backed_off.add(provider)
        newest = await in_thread(lambda: newest_failure(self._case.ledger, provider))
        if newest is not None and is_retried(newest.failure):
            pause_s = delay_s(newest.tries, newest.failure.retry_after_s)
            if pause_s <= WAIT_S_MAX:
                left = left_s(pause_s, newest.at, self._clock.now())
                self._registry.gate(provider).close_for(left, self._clock.monotonic())

    def _assemble(
        self,
        bound: "_Bound",
        session: NativeSession,
        journal: Journal,
        recorder: SessionRecorder | None,
    ) -> Episode:
        dispatch, redactor = bound.dispatch, self._registry.redactor

        def progress(text: str) -> None:
            if text:
                self._case.progress.progress(dispatch.step, redactor.text(text))

        context = CallContext(
            session=session,
            provider=bound.executor.provider,
            past=bound.past,
            journal=journal,
            redactor=redactor,
            gate=self._registry.gate(bound.executor.provider),
            clock=self._clock,
            worktree=self._worktree,
            tries_max=dispatch.attempts_max,
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
        dispatch, redactor = bound.dispatch, self._registry.redactor
        if dispatch.grant is None:
            return None
        questions = Questions(
            bridge=self._case.interactions,
            arrivals=self._arrivals,
            ledger=self._case.ledger,
            journal=journal,
            delivery=self._case.plan.delivery,
            step=dispatch.step,
            redactor=redactor,
            time=bound.time,
        )
        return ToolCalls(
            toolbox=self._toolbox,
            command=self._command,
            servers=self._servers,
            declared=self._declared,
            grant=dispatch.grant,
            specs=bound.specs,
            past=bound.past.tools,
            mark=dispatch.mark,
            questions=questions,
            journal=journal,
            redactor=redactor,
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
    past: Past
    time: AttemptTime


def _drifted(problems: tuple[str, ...]) -> Failed:
    message = "not what was admitted: " + "; ".join(problems)
    return Failed(code=Code.BINDING_DRIFT.value, message=visible(message), retriable=False)


def _contradicted(past: Past, descriptor: FrozenJson) -> Failed | Uncertain | None:
    """What the ledger says against going on."""
    earlier = past.descriptor
    if earlier is not None and earlier.descriptor_digest != digest(descriptor):
        return _drifted(drift(earlier.descriptor, descriptor))
    if past.uncertain is not None:
        return Uncertain(call=past.uncertain.call, why=f"{past.uncertain.tool} was begun and its end was not recorded")
    return None


async def _conclude_session(journal: Journal, disposition: Disposition) -> None:
    match disposition:
        case Completed():
            await journal.session_completed()
        case Failed(code=code, message=message):
            await journal.session_failed(code, message)
        case Invalid(findings=findings):
            await journal.session_failed(FailureClass.INVALID_OUTPUT.value, "; ".join(findings))
        case Uncertain() | AwaitingInput():
            return
        case _:
            assert_never(disposition)
