"""What one step does: one primitive call each, between its start and its end in the ledger.

A handler decides nothing about the Delivery: it resolves, asks a primitive, and records what came of it; routes decide. It
has three phases. Opening (the grant) and concluding (verdict, end) run to their end even when cancelled; only the call in
between is cut short, and then the worktree goes back unless the attempt is to be resumed.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hosts.langgraph.attempts import Attempt, Attempts
from hosts.langgraph.journal import ATTEMPT, Journal, Open
from hosts.langgraph.pump import through
from hosts.langgraph.readiness import Snapshot
from hosts.langgraph.resolution import Resolver, Texts, request_digest
from hosts.langgraph.results import (
    STEP_TIMEOUT,
    command_failure,
    environment_changed,
    failed,
    not_completed,
    output_of,
    result_from,
    scope_violated,
    uncertain,
)
from runner.contract import plan as words
from runner.contract.activation import AgentAction, ApprovalAction, CommandAction, DecisionAction, GenerateAction
from runner.contract.canonical import FrozenJson, digest
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepSkipped, ToolCalled, ToolFailed, ToolSucceeded, ValueRef
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import ObjectId
from runner.contract.outcomes import OpenWait
from runner.contract.plan import Site
from runner.contract.ports import (
    Accepted,
    ActionInvocation,
    Artifacts,
    AwaitingInput,
    CommandResult,
    Completed,
    Dispatch,
    Disposition,
    EnvironmentChanged,
    Failed,
    HostIntervention,
    HostSuspended,
    LedgerReader,
    Operations,
    Uncertain,
    Verdict,
    Violation,
)
from runner.interpreter.expressions import ExpressionError, TemplateError

Report = HostSuspended | HostIntervention | None
"""None: the step has its end."""
Unresolved = (ExpressionError, TemplateError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitives:
    """What a handler may ask."""

    invocation: ActionInvocation
    operations: Operations
    reader: LedgerReader
    artifacts: Artifacts


class Handlers:
    """The steps of one drive."""

    def __init__(
        self,
        *,
        primitives: Primitives,
        journal: Journal,
        attempts: Attempts,
        resolver: Resolver,
        now: Callable[[], Snapshot],
    ) -> None:
        self._use: Final = primitives
        self._journal: Final = journal
        self._attempts: Final = attempts
        self._resolver: Final = resolver
        self._now: Final = now

    # --- at once, in one transaction ---------------------------------------------------------------------------------

    def settled_by_condition(self, site: Site) -> bool:
        """Evaluates ``when``; True when that ended the step: skipped, or failed because it has no value."""
        try:
            if self._resolver.condition(self._now(), site):
                return False
        except Unresolved as error:
            opened = self._journal.admit(self._now().step(site.id))
            if opened is not None:
                self._unresolved(opened, error)
            return True
        self._journal.skip(site.id, StepSkipped(reason="when"))
        return True

    def decide(self, site: Site, action: DecisionAction) -> None:
        """Picks the case and records it; its output is the case."""
        opened = self._journal.admit(self._now().step(site.id))
        if opened is None:
            return
        try:
            case = self._resolver.decision(self._now(), action, [route.outcome for route in site.routes])
        except Unresolved as error:
            self._unresolved(opened, error)
            return
        savepoint = self._attempts.current()
        starts = self._journal.starts(opened, savepoint, digest({"on": action.on, "case": case}))
        self._journal.complete(opened, case, self._use.artifacts.put(case), savepoint, starts)

    def _unresolved(self, opened: Open, error: ValueError) -> None:
        savepoint = self._attempts.current()
        starts = self._journal.starts(opened, savepoint, digest({"unresolved": str(error)}))
        self._journal.fail(opened, failed("expression-failed", str(error), savepoint), starts)

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def perform(self, opened: Open, site: Site) -> Report:
        """Runs the step to its end, or to the reason why it has none yet."""
        match site.action:
            case AgentAction() as action:
                return await self._agent(opened, site, action)
            case GenerateAction() as action:
                return await self._generate(opened, site, action)
            case CommandAction() as action:
                return await self._command(opened, site, action)
            case DecisionAction() as action:
                self.decide(site, action)
                return None
            case ApprovalAction():
                raise IntegrityError(Code.KIND_NOT_BUILT, "the step kind 'approval' is not built yet")

    async def _generate(self, opened: Open, site: Site, action: GenerateAction) -> Report:
        try:
            texts = self._resolver.generate(self._now(), action)
        except Unresolved as error:
            self._unresolved(opened, error)
            return None
        savepoint = opened.opened_at or self._attempts.current()
        self._journal.start(opened, savepoint, texts.digest)
        said = await self._invoke(_dispatch(opened, site, action, texts, None))
        match said:
            case Completed(value=value):
                await self._complete(opened, value, action.outcome, self._attempts.current())
            case Uncertain(call=call, why=why):
                return uncertain(opened.step, call, why)
            case Failed(suspend_s=float() | int()):
                return _suspended(opened, said)
            case AwaitingInput(wait=wait):
                return _awaiting(opened, wait)
            case _:
                self._journal.fail(opened, not_completed(said, self._attempts.current()))
        return None

    async def _agent(self, opened: Open, site: Site, action: AgentAction) -> Report:
        try:
            texts = self._resolver.agent(self._now(), action)
        except Unresolved as error:
            self._unresolved(opened, error)
            return None
        attempt = await self._attempts.begin(opened, site, texts.digest)
        if isinstance(attempt, HostIntervention):
            return attempt
        dispatch = _dispatch(opened, site, action, texts, attempt.grant)
        said = await self._attempts.call(opened, attempt, lambda: self._invoke(dispatch))
        match said:
            case Completed(value=value):
                verdict = await self._attempts.settle(attempt)
                if not self._refused(opened, site, attempt, verdict):
                    await self._complete(opened, value, action.outcome, verdict.savepoint.commit)
                return None
            case Uncertain(call=call, why=why):
                return uncertain(opened.step, call, why)
            case AwaitingInput(wait=wait):
                return _awaiting(opened, wait)
            case _:
                return self._not_completed(opened, said, await self._attempts.discard(attempt))

    def _not_completed(self, opened: Open, said: Disposition, verdict: Verdict) -> Report:
        match said:
            case _ if isinstance(verdict, EnvironmentChanged):
                self._journal.fail(opened, environment_changed(verdict))
            case Failed(suspend_s=float() | int()):
                return _suspended(opened, said)
            case Completed() | Uncertain() | AwaitingInput():
                raise TypeError(f"{type(said).__name__} is not a failure")
            case _:
                self._journal.fail(opened, not_completed(said, verdict.savepoint.commit))
        return None

    async def _invoke(self, dispatch: Dispatch) -> Disposition:
        try:
            async with asyncio.timeout(dispatch.timeout_s) as limit:
                return await self._use.invocation.invoke(dispatch)
        except TimeoutError:
            if not limit.expired():
                raise
        return Failed(code=STEP_TIMEOUT, message=f"did not finish within {dispatch.timeout_s:g} s", retriable=False)

    async def _complete(self, opened: Open, value: FrozenJson, outcome: str | None, savepoint: ObjectId) -> None:
        output = await self._put(value)
        chosen: Any = words.SUCCESS
        if outcome is not None:
            chosen = value.get(outcome) if isinstance(value, Mapping) else None
        if isinstance(chosen, str):
            self._journal.complete(opened, chosen, output, savepoint)
            return
        event = failed("outcome-missing", f"the result's {outcome!r} names no outcome", savepoint, output=output)
        self._journal.fail(opened, event)

    async def _command(self, opened: Open, site: Site, action: CommandAction) -> Report:
        try:
            request = self._resolver.command(self._now(), site, action, opened.step)
        except Unresolved as error:
            self._unresolved(opened, error)
            return None
        known = self._known_result(opened, action)
        if isinstance(known, HostIntervention):
            return known
        attempt = await self._attempts.begin(opened, site, request_digest(request), as_it_is=known is not None)
        if isinstance(attempt, HostIntervention):
            return attempt
        if known is None:
            result = await self._attempts.call(opened, attempt, lambda: self._use.operations.command(request))
        else:
            result = known
        output = await self._put(output_of(result))
        lost = result.end in ("timeout", "not-started")
        verdict = await (self._attempts.discard(attempt) if lost else self._attempts.settle(attempt))
        event = command_failure(result, action, request.timeout_s, verdict.savepoint.commit, output)
        if event is not None and isinstance(verdict, Accepted):
            self._journal.fail(opened, event)
        elif not self._refused(opened, site, attempt, verdict, output):
            self._journal.complete(opened, words.SUCCESS, output, verdict.savepoint.commit)
        return None

    def _known_result(self, opened: Open, action: CommandAction) -> CommandResult | HostIntervention | None:
        """What the ledger says of an interrupted command that has effects outside: its result, or that nobody knows.
        Everything else is put back to its savepoint and run again."""
        if not opened.resumed or action.effect != "external":
            return None
        called = self._use.reader.last(frozenset({ToolCalled.KIND}), opened.step)
        if called is None or not isinstance(called.event, ToolCalled):
            return None
        answer = self._use.reader.last(frozenset({ToolSucceeded.KIND, ToolFailed.KIND}), opened.step)
        if answer is not None and answer.seq > called.seq and isinstance(answer.event, ToolSucceeded):
            return result_from(self._use.artifacts.get(answer.event.value))
        why = "the command was interrupted and may have had effects outside the worktree"
        return uncertain(opened.step, called.event.call, why)

    def _refused(
        self, opened: Open, site: Site, attempt: Attempt, verdict: Verdict, output: ValueRef | None = None
    ) -> bool:
        """Records a verdict that fails the step; False when there is nothing against it."""
        match verdict:
            case Violation():
                self._journal.fail(opened, scope_violated(verdict, output))
            case EnvironmentChanged():
                self._journal.fail(opened, environment_changed(verdict, output))
            case Accepted(savepoint=savepoint):
                if not site.expect_changes or attempt.changed(savepoint):
                    return False
                message = "the step was expected to change files and changed none"
                self._journal.fail(opened, failed("no-changes", message, savepoint.commit, output=output))
        return True

    async def _put(self, value: FrozenJson) -> ValueRef:
        return await through(asyncio.to_thread(self._use.artifacts.put, value))


def _dispatch(
    opened: Open, site: Site, action: AgentAction | GenerateAction, texts: Texts, grant: WorkspaceGrant | None
) -> Dispatch:
    return Dispatch(
        step=opened.step,
        attempt=ATTEMPT,
        action=action,
        system=texts.system,
        prompt=texts.prompt,
        grant=grant,
        mark=None,
        timeout_s=site.timeout_s,
        attempts_max=site.attempts_max,
    )


def _suspended(opened: Open, said: Failed) -> HostSuspended:
    return HostSuspended(reason=said.code, detail=said.message, step=opened.step, resume_in_s=said.suspend_s)


def _awaiting(opened: Open, wait: OpenWait) -> HostSuspended:
    return HostSuspended(reason="interaction", detail=wait.prompt, step=opened.step, resume_in_s=None, waits=(wait,))
