"""The terminal order: what is decided, what comes next, and what is written at the end. Pure.

    proposal -> result preserved -> publication known -> one authorization
             -> host, invocation, custody, coordinator retired -> settled

Each act leaves a fact; what comes next follows from the facts alone, so a restart goes on where the ledger ends. Nothing
here depends on sequences, times or attempts: a killed and an undisturbed run settle to the same bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from runner.contract.canonical import digest
from runner.contract.errors import Code, Finding, IntegrityError
from runner.contract.events import CancelRequested, InterventionResolved, ResultPreserved, TerminalProposed
from runner.contract.ids import Digest
from runner.contract.outcomes import OWNERS, Outcome, Publication, Reason, Retirement, Settlement
from runner.contract.plan import Plan
from runner.contract.ports import TerminalProposal
from runner.contract.text import excerpt
from runner.coordinator.recovery import Wind

Act = Literal[
    "preserve",
    "publish",
    "authorize",
    "retire-host",
    "retire-invocation",
    "retire-custody",
    "retire-coordinator",
    "settle",
    "done",
]
DETAIL_CHARS_MAX: Final = 2_000

CANCEL_REASONS: Final[Mapping[str, Reason]] = {
    "request": Reason.CANCEL_REQUESTED,
    "delivery-timeout": Reason.DELIVERY_TIMEOUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalFacts:
    """What the ledger says about the end of a Delivery."""

    proposed: TerminalProposed | None = None
    preserved: ResultPreserved | None = None
    publication: Publication | None = None
    authorization: Digest | None = None
    retired: Mapping[str, Retirement] = field(default_factory=dict)
    settlement: Settlement | None = None

    @property
    def rooms_needed(self) -> bool:
        """Whether another room still has something to do."""
        return not {"host", "invocation", "custody"} <= self.retired.keys()

    @property
    def worktree_needed(self) -> bool:
        """Whether custody may still touch the worktree: until it has retired."""
        return "custody" not in self.retired


def decide(proposal: TerminalProposal, wind: Wind | None, findings: tuple[Finding, ...]) -> TerminalProposed:
    """What is recorded for ``proposal``.

    A cancel or an abandonment that was recorded first always wins, whatever the graph reached meanwhile: a run killed
    after it would not have gone further, and both must settle to the same bytes. ``findings`` turn a completion into a
    failure.
    """
    match wind:
        case Wind(event=CancelRequested(who=who, cause=cause)):
            return _proposed(Outcome.CANCELLED, CANCEL_REASONS[cause], f"cancelled by {who}")
        case Wind(event=InterventionResolved(call=call, who=who), step=step):
            what = f"call {call}: nobody knows whether it happened" if call else "the worktree was edited by somebody"
            proposed = _proposed(Outcome.FAILED, Reason.ABANDONED, f"{what}; given up by {who}")
            return proposed.model_copy(update={"step": step.key if step else None})
    if proposal.outcome is Outcome.CANCELLED:
        return _proposed(Outcome.CANCELLED, proposal.reason, proposal.detail)
    if findings:
        return _proposed(Outcome.FAILED, Reason.RECORDING_UNUSED, "\n".join(str(finding) for finding in findings))
    return TerminalProposed(
        outcome=proposal.outcome,
        reason=proposal.reason,
        step=proposal.step.key if proposal.step else None,
        detail=excerpt(proposal.detail, DETAIL_CHARS_MAX),
        output=proposal.output,
    )


def winding_reason(wind: Wind) -> Reason:
    """What the host is told."""
    return CANCEL_REASONS[wind.event.cause] if isinstance(wind.event, CancelRequested) else Reason.ABANDONED


def next_act(facts: TerminalFacts) -> Act:
    """The one act that comes next. ``facts.proposed`` must be there."""
    if facts.settlement is not None:
        return "done"
    if facts.preserved is None:
        return "preserve"
    if facts.publication is None:
        return "publish"
    if facts.authorization is None:
        return "authorize"
    retire: tuple[tuple[str, Act], ...] = (
        ("host", "retire-host"),
        ("invocation", "retire-invocation"),
        ("custody", "retire-custody"),
        ("coordinator", "retire-coordinator"),
    )
    for owner, act in retire:
        if owner not in facts.retired:
            return act
    return "settle"


def authorization_of(plan: Plan, facts: TerminalFacts) -> Digest:
    """The one authorization under which every owner retires: a digest of what is being ended and how."""
    proposed, preserved, publication = _closed(facts)
    return digest(
        [
            "runner.retirement/1",
            plan.delivery,
            plan.activation,
            plan.digest,
            proposed.outcome,
            proposed.reason,
            proposed.step,
            proposed.output.digest if proposed.output else None,
            preserved.tree,
            preserved.commit,
            publication.to_json(),
        ]
    )


def settlement_of(plan: Plan, facts: TerminalFacts) -> Settlement:
    """The settlement. ``IntegrityError`` (``authorization-foreign``) if an owner retired under another authorization."""
    proposed, preserved, publication = _closed(facts)
    for retirement in facts.retired.values():
        if retirement.authorization != facts.authorization:
            raise IntegrityError(
                Code.AUTHORIZATION_FOREIGN,
                f"{plan.delivery}: {retirement.owner} retired under an authorization that was not issued",
                remedy="this is a defect of the Runner: report it with this message",
            )
    return Settlement(
        delivery=plan.delivery,
        activation=plan.activation,
        plan=plan.digest,
        outcome=proposed.outcome,
        reason=proposed.reason,
        step=proposed.step,
        output=Digest(proposed.output.digest) if proposed.output else None,
        result_tree=preserved.tree,
        result_commit=preserved.commit,
        publication=publication,
        retirements=tuple(facts.retired[owner] for owner in OWNERS),
    )


def _proposed(outcome: Outcome, reason: Reason, detail: str) -> TerminalProposed:
    """A terminal that no single step decided."""
    return TerminalProposed(
        outcome=outcome, reason=reason, step=None, detail=excerpt(detail, DETAIL_CHARS_MAX), output=None
    )


def _closed(facts: TerminalFacts) -> tuple[TerminalProposed, ResultPreserved, Publication]:
    if facts.proposed is None or facts.preserved is None or facts.publication is None:
        raise IntegrityError(
            Code.LEDGER_ORDER, "the terminal order was left: proposal, result and publication come first"
        )
    return facts.proposed, facts.preserved, facts.publication
