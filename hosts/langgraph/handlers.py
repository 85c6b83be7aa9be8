"""What one step does: one primitive call each, between its start and its end in the ledger.

A handler decides nothing about the Delivery: it resolves, asks a primitive, and records what came of it; routes decide. It
has three phases. Opening (the grant) and concluding (verdict, end) run to their end even when cancelled; only the call in
between is cut short, and then the worktree goes back unless the attempt is to be resumed.
"""

from typing import Final

from hosts.langgraph.approvals import Approvals
from hosts.langgraph.attempts import Attempt
from hosts.langgraph.commands import Commands
from hosts.langgraph.course import Course
from hosts.langgraph.journal import ATTEMPT, Open
from hosts.langgraph.resolution import Moment, Texts, Unresolved
from hosts.langgraph.results import environment_changed, not_completed, uncertain
from runner.contract.activation import AgentAction, ApprovalAction, CommandAction, DecisionAction, GenerateAction
from runner.contract.canonical import digest
from runner.contract.events import StepSkipped
from runner.contract.outcomes import OpenWait
from runner.contract.plan import Site
from runner.contract.ports import (
    ActionInvocation,
    AwaitingInput,
    Completed,
    Dispatch,
    EnvironmentChanged,
    Failed,
    HostIntervention,
    HostSuspended,
    Invalid,
    Uncertain,
    Verdict,
)
from runner.contract.text import excerpt

Report = HostSuspended | HostIntervention | None
"""None: the step has its end."""
DETAIL_CHARS_MAX: Final = 500


class Handlers:
    """The steps of one drive."""

    def __init__(
        self,
        course: Course,
        *,
        invocation: ActionInvocation,
        commands: Commands,
        approvals: Approvals,
    ) -> None:
        self._invocation: Final = invocation
        self._commands: Final = commands
        self._approvals: Final = approvals
        self._course: Final = course
        self._conclusions: Final = course.conclusions
        self._journal: Final = course.journal
        self._attempts: Final = course.attempts
        self._resolver: Final = course.resolver

    # --- at once, in one transaction ---------------------------------------------------------------------------------

    def settled_by_condition(self, site: Site) -> bool:
        """Evaluates ``when``; True when that ended the step: skipped, or failed because it has no value."""
        try:
            if self._resolver.condition(Moment(now=self._course.now), site):
                return False
        except Unresolved as error:
            opened = self._journal.admit(self._course.now.step(site.id))
            if opened is not None:
                self._conclusions.unresolved(opened, error)
            return True
        self._journal.skip(site.id, StepSkipped(reason="when"))
        return True

    def decide(self, site: Site, action: DecisionAction) -> None:
        """Picks the case and records it; its output is the case."""
        opened = self._journal.admit(self._course.now.step(site.id))
        if opened is None:
            return
        try:
            case = self._resolver.decision(self._course.seen(opened), action, [route.outcome for route in site.routes])
        except Unresolved as error:
            self._conclusions.unresolved(opened, error)
            return
        savepoint = self._attempts.current()
        starts = self._journal.starts(opened, savepoint, digest({"on": action.on, "case": case}))
        self._journal.complete(opened, case, self._course.artifacts.put(case), savepoint, starts)

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def perform(self, opened: Open, site: Site) -> Report:
        """Runs the step to its end, or to the reason why it has none yet."""
        match site.action:
            case AgentAction() as action:
                return await self._agent(opened, site, action)
            case GenerateAction() as action:
                return await self._generate(opened, site, action)
            case CommandAction() as action:
                return await self._commands.perform(opened, site, action)
            case DecisionAction() as action:
                self.decide(site, action)
                return None
            case ApprovalAction() as action:
                return await self._approvals.perform(opened, action)

    async def _generate(self, opened: Open, site: Site, action: GenerateAction) -> Report:
        try:
            texts = self._resolver.generate(self._course.seen(opened), action)
        except Unresolved as error:
            self._conclusions.unresolved(opened, error)
            return None
        savepoint = opened.opened_at or self._attempts.current()
        self._journal.start(opened, savepoint, texts.digest)
        said = await self._invocation.invoke(self._dispatch(opened, site, action, texts))
        match said:
            case Completed(value=value):
                await self._conclusions.complete(opened, value, action.outcome, self._attempts.current())
            case Uncertain(call=call, why=why):
                return uncertain(opened.step, call, why)
            case Failed(suspend_s=float() | int()):
                return _suspended(opened, said)
            case AwaitingInput(wait=wait):
                return self._awaiting(opened, wait)
            case Failed() | Invalid():
                self._journal.fail(opened, not_completed(said, self._attempts.current()))
        return None

    async def _agent(self, opened: Open, site: Site, action: AgentAction) -> Report:
        attempt = await self._attempts.begin(opened, site)
        if isinstance(attempt, HostIntervention):
            return attempt
        try:
            texts = self._resolver.agent(self._course.seen(opened), action)
        except Unresolved as error:
            await self._conclusions.unresolved_attempt(opened, attempt, error)
            return None
        self._journal.start(opened, attempt.grant.savepoint, texts.digest)
        dispatch = self._dispatch(opened, site, action, texts, attempt)
        said = await self._attempts.call(opened, attempt, lambda: self._invocation.invoke(dispatch))
        match said:
            case Completed(value=value):
                verdict = await self._attempts.settle(attempt)
                if not self._conclusions.refused(opened, site, attempt, verdict):
                    await self._conclusions.complete(opened, value, action.outcome, verdict.savepoint.commit)
            case Uncertain(call=call, why=why):
                return uncertain(opened.step, call, why)
            # The attempt stays open and its files stay: it goes on from its last tool call.
            case Failed(suspend_s=float() | int()):
                return _suspended(opened, said)
            case AwaitingInput(wait=wait):
                return self._awaiting(opened, wait)
            case Failed() | Invalid():
                self._not_completed(opened, said, await self._attempts.discard(attempt))
        return None

    def _not_completed(self, opened: Open, said: Failed | Invalid, verdict: Verdict) -> None:
        if isinstance(verdict, EnvironmentChanged):
            self._journal.fail(opened, environment_changed(verdict))
        else:
            self._journal.fail(opened, not_completed(said, verdict.savepoint.commit))

    def _awaiting(self, opened: Open, wait: OpenWait) -> HostSuspended:
        """The step parks, ready to go on as the attempt that the ledger has open."""
        self._journal.go_on(opened)
        detail = excerpt(wait.prompt, DETAIL_CHARS_MAX)
        return HostSuspended(reason="interaction", detail=detail, step=opened.step, resume_in_s=None, waits=(wait,))

    def _dispatch(
        self,
        opened: Open,
        site: Site,
        action: AgentAction | GenerateAction,
        texts: Texts,
        attempt: Attempt | None = None,
    ) -> Dispatch:
        return Dispatch(
            step=opened.step,
            attempt=ATTEMPT,
            action=action,
            system=texts.system,
            prompt=texts.prompt,
            grant=attempt.grant if attempt else None,
            mark=self._attempts.mark(attempt) if attempt else None,
            timeout_s=site.timeout_s,
            attempts_max=site.attempts_max,
        )


def _suspended(opened: Open, said: Failed) -> HostSuspended:
    return HostSuspended(reason=said.code, detail=said.message, step=opened.step, resume_in_s=said.suspend_s)
