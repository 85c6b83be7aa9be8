"""How a drive ends: open steps get their ends, then what is proposed to the coordinator follows from the ledger alone."""

from typing import Any, Final

from jsonschema.exceptions import best_match

from hosts.langgraph.attempts import Attempts
from hosts.langgraph.journal import Journal, stored
from hosts.langgraph.readiness import Topology, final, something_succeeded
from hosts.langgraph.resolution import Moment, Resolver, Unresolved
from hosts.langgraph.results import STEP_TIMEOUT, cancelled, environment_changed
from hosts.langgraph.state import Position
from runner.contract import plan as words
from runner.contract.activation import Output
from runner.contract.canonical import FrozenJson, thaw
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import STEP_ENDS, Event, StepFailed, StepSuperseded, ValueRef
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import Outcome, Reason
from runner.contract.plan import Plan
from runner.contract.ports import Artifacts, HostIntervention, LedgerReader, LedgerWriter, TerminalProposal
from runner.contract.schema_patterns import SchemaValidator

End = TerminalProposal | HostIntervention

REASONS: Final = {
    "scope-violation": Reason.SCOPE_VIOLATION,
    "environment-changed": Reason.ENVIRONMENT_CHANGED,
    "binding-drift": Reason.BINDING_DRIFT,
    words.BUDGET_EXHAUSTED: Reason.BUDGET_EXHAUSTED,
    STEP_TIMEOUT: Reason.STEP_TIMEOUT,
}
"""The reason of a Delivery that a step's unrouted failure ended, by the failure's code."""
DETAIL_CHARS_MAX: Final = 2_000


class Ending:
    """The ends of one drive."""

    def __init__(
        self,
        *,
        plan: Plan,
        topology: Topology,
        position: Position,
        journal: Journal,
        attempts: Attempts,
        resolver: Resolver,
        reader: LedgerReader,
        writer: LedgerWriter,
        artifacts: Artifacts,
    ) -> None:
        self._plan: Final = plan
        self._topology: Final = topology
        self._position: Final = position
        self._journal: Final = journal
        self._attempts: Final = attempts
        self._resolver: Final = resolver
        self._reader: Final = reader
        self._writer: Final = writer
        self._artifacts: Final = artifacts

    async def cancelled(self, reason: Reason) -> End:
        """Every open step ends ``cancelled``, its worktree put back."""
        stuck = await self._end_open(superseded=False)
        detail = "the Delivery ran out of time" if reason is Reason.DELIVERY_TIMEOUT else "cancel was requested"
        return stuck or TerminalProposal(
            outcome=Outcome.CANCELLED, reason=reason, step=None, detail=detail, output=None
        )

    async def finished(self) -> End:
        """A step's end decided: what was in flight is superseded, then that end is proposed."""
        stuck = await self._end_open(superseded=True)
        if stuck is not None:
            return stuck
        site = final(self._position.now)
        if site is None:
            raise ValueError("no step ended the Delivery")
        step = StepRef(site=site, visit=self._position.now.cl[site].visit)
        record = self._reader.last(STEP_ENDS, step)
        if record is None:
            raise IntegrityError(
                Code.CHECKPOINT_CORRUPT,
                f"the graph says that {step} ended the Delivery, but the ledger does not know it",
                remedy="delete the Delivery's checkpoints.sqlite*: they only save time, the ledger has everything",
            )
        return self._by(step, record.event)

    def _by(self, step: StepRef, event: Event) -> TerminalProposal:
        now = self._position.now
        failure = event if isinstance(event, StepFailed) else None
        detail = failure.message if failure else ""
        route = next(
            (r for r in self._topology.sites[step.site].routes if r.outcome == now.st[step.site].outcome), None
        )
        if now.cl[step.site].kind == "environment" or route is None:
            code = failure.code if failure else ""
            if code == words.WAIT_EXPIRED:
                return _proposal(Outcome.INCOMPLETE, Reason.WAIT_EXPIRED, step, detail)
            return _proposal(Outcome.FAILED, REASONS.get(code, Reason.STEP_FAILED), step, detail)
        if route.target == "completed":
            return self._completed(Reason.ROUTED, step)
        outcome = Outcome.INCOMPLETE if route.target == "incomplete" else Outcome.FAILED
        return _proposal(outcome, Reason.ROUTED, step, detail)

    async def nothing_left(self) -> End:
        """Every step has its end and none decided."""
        if something_succeeded(self._topology, self._position.now):
            return self._completed(Reason.ALL_STEPS_FINISHED, None)
        return _proposal(Outcome.INCOMPLETE, Reason.NOTHING_RAN, None, "no step without successors succeeded")

    def _completed(self, reason: Reason, step: StepRef | None) -> TerminalProposal:
        if self._plan.output is None:
            return _proposal(Outcome.COMPLETED, reason, step, "")
        try:
            value = self._resolver.json(Moment(now=self._position.now), self._plan.output.value)
        except Unresolved as error:
            return _proposal(
                Outcome.FAILED, Reason.OUTPUT_INVALID, step, f"the workflow's output has no value: {error}"
            )
        problem = schema_problem(self._plan.output, value)
        if problem is not None:
            return _proposal(Outcome.FAILED, Reason.OUTPUT_INVALID, step, problem)
        output = self._artifacts.put(value)
        # Durable with the coordinator's record of the proposal.
        self._writer.stage(*stored(None, output))
        return _proposal(Outcome.COMPLETED, reason, step, "", output)

    async def _end_open(self, *, superseded: bool) -> HostIntervention | None:
        """One transaction with the end of every open step."""
        ends: list[tuple[Any, Event]] = []
        for opened in tuple(self._journal.open.values()):
            site: SiteId = opened.step.site
            stuck = await self._attempts.abandon(opened, self._topology.sites[site])
            if stuck is not None:
                return stuck
            at, changed = self._attempts.after(opened)
            if changed is not None:
                ends.append((opened, environment_changed(changed)))
            elif superseded:
                ends.append((opened, StepSuperseded(reason="the Delivery ended meanwhile")))
            else:
                ends.append((opened, cancelled(at)))
        self._journal.end_all(ends)
        return None


def _proposal(
    outcome: Outcome, reason: Reason, step: StepRef | None, detail: str, output: ValueRef | None = None
) -> TerminalProposal:
    return TerminalProposal(outcome=outcome, reason=reason, step=step, detail=detail[:DETAIL_CHARS_MAX], output=output)


def schema_problem(output: Output, value: FrozenJson) -> str | None:
    """What the output's schema (JSON Schema 2020-12) holds against ``value``, or None."""
    if output.json_schema is None:
        return None
    error = best_match(SchemaValidator(thaw(output.json_schema)).iter_errors(thaw(value)))
    if error is None:
        return None
    return f"the workflow's output does not fit its schema at {error.json_path}: {error.message[:500]}"
