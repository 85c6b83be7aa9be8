"""What the ledger already says about a step, a Delivery's calls and a retirement. Reads only."""

from collections import Counter

from runner.contract.activation import AgentAction, GenerateAction
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import (
    ModelCalled,
    ModelResponded,
    OwnerRetired,
    RetirementAuthorized,
    SessionStarted,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
)
from runner.contract.ids import Digest, StepRef
from runner.contract.outcomes import Retirement
from runner.contract.plan import Plan
from runner.contract.ports import LedgerReader
from runner.invocation.classify import RETRIED


def last_descriptor(ledger: LedgerReader, step: StepRef) -> SessionStarted | None:
    """What the newest session of ``step`` was started with."""
    record = ledger.last(frozenset({SessionStarted.KIND}), step)
    return record.event if record is not None and isinstance(record.event, SessionStarted) else None


def failed_tries(ledger: LedgerReader, step: StepRef, attempt: int) -> Counter[str]:
    """For each model call of ``attempt``: how many of its newest tries in a row failed so that a retry is right. A process
    that died does not give a call new tries."""
    tries: Counter[str] = Counter()
    for record in ledger.read(kinds=frozenset({ModelResponded.KIND}), step=step):
        if record.attempt == attempt and isinstance(record.event, ModelResponded):
            failure = record.event.failure
            retried = failure is not None and failure.get("class") in RETRIED
            tries[record.event.call] = tries[record.event.call] + 1 if retried else 0
    return tries


def uncertain_call(ledger: LedgerReader, step: StepRef) -> ToolCalled | None:
    """A tool call of ``step`` with an effect outside, begun and without a recorded end."""
    open_calls: dict[str, ToolCalled] = {}
    kinds = frozenset({ToolCalled.KIND, ToolSucceeded.KIND, ToolFailed.KIND})
    for record in ledger.read(kinds=kinds, step=step):
        match record.event:
            case ToolCalled(caller="model", effect="external") as event:
                open_calls[event.call] = event
            case ToolSucceeded(call=call) | ToolFailed(call=call):
                open_calls.pop(call, None)
    return next(iter(open_calls.values()), None)


def asked_calls(ledger: LedgerReader, plan: Plan) -> dict[str, frozenset[tuple[str, int]]]:
    """By role: (step key, turn) of every model call that was made."""
    roles = {s.id: s.action.executor for s in plan.sites if isinstance(s.action, AgentAction | GenerateAction)}
    asked: dict[str, set[tuple[str, int]]] = {}
    for record in ledger.read(kinds=frozenset({ModelCalled.KIND})):
        if record.step is not None and isinstance(record.event, ModelCalled) and record.step.site in roles:
            asked.setdefault(roles[record.step.site], set()).add((record.step.key, record.event.turn))
    return {role: frozenset(calls) for role, calls in asked.items()}


def is_retired(ledger: LedgerReader, authorization: Digest) -> bool:
    """Whether invocation's retirement is recorded already. ``IntegrityError(authorization-foreign)`` when the ledger knows
    another authorization."""
    done = False
    for record in ledger.read(kinds=frozenset({RetirementAuthorized.KIND, OwnerRetired.KIND})):
        match record.event:
            case OwnerRetired(retirement=Retirement(owner="invocation", authorization=known)):
                done = True
            case RetirementAuthorized(authorization=known):
                pass
            case _:
                continue
        if known != authorization:
            message = f"retirement of invocation: {authorization} is not the recorded authorization {known}"
            raise IntegrityError(Code.AUTHORIZATION_FOREIGN, message, remedy="verify the Delivery's ledger")
    return done
