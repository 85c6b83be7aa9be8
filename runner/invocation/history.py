"""What the ledger already says: about a step's earlier life, a Delivery's calls, a back-off and a retirement. Reads only.

An attempt that was interrupted is gone through again, turn by turn: what this file finds of it is used instead of being done
again. ``past_of`` is pure.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from runner.contract.activation import AgentAction, GenerateAction
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import (
    InteractionAnswered,
    InteractionRequested,
    InterventionResolved,
    ModelCalled,
    ModelResponded,
    OwnerRetired,
    RetirementAuthorized,
    SessionCompleted,
    SessionFailed,
    SessionStarted,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
)
from runner.contract.ids import Digest, StepRef
from runner.contract.outcomes import Retirement
from runner.contract.plan import Plan
from runner.contract.ports import LedgerReader
from runner.contract.provider import Failure
from runner.contract.records import Record
from runner.invocation.classify import is_retried

SAFE: Final = frozenset({"read", "idempotent", "workspace"})
"""Effect classes of calls that may be made again when their end is not known."""
_OF_STEP: Final = frozenset(
    event.KIND
    for event in (
        *(SessionStarted, SessionCompleted, SessionFailed, ModelCalled, ModelResponded),
        *(ToolCalled, ToolSucceeded, ToolFailed, InterventionResolved),
        *(InteractionRequested, InteractionAnswered),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFailure:
    """A failed try of a model call: the ``tries``-th in a row that a further try could mend."""

    failure: Failure
    at: dt.datetime
    tries: int

    @property
    def tries_so_far(self) -> int:
        """Failed tries that count against the next one."""
        return self.tries if is_retried(self.failure) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """A turn whose request was announced."""

    call: str
    request: Digest
    answer: ModelResponded | None = None
    failed: PastFailure | None = None
    """The newest failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTool:
    """A tool call that was begun; ``resolved`` is what a person said since it was begun last."""

    called: ToolCalled
    result: ToolSucceeded | ToolFailed | None = None
    resolved: InterventionResolved | None = None
    asked_at: str | None = None
    """When the question behind it was put to a person."""
    answer: InteractionAnswered | None = None
    """The first one is the one that counts."""

    @property
    def happened(self) -> InterventionResolved | None:
        """What a person gave as its result."""
        said = self.resolved
        return said if self.result is None and said is not None and said.resolution == "happened" else None

    @property
    def is_uncertain(self) -> bool:
        """Whether only a person can say if it took effect."""
        if self.result is not None or self.called.effect in SAFE:
            return False
        return self.resolved is None or self.resolved.resolution not in ("happened", "did-not-happen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One attempt so far. ``tools`` (by call id) also has the calls of earlier attempts of the step."""

    session: Literal["none", "open", "ended"] = "none"
    descriptor: SessionStarted | None = None
    """What the step's newest session was started with."""
    turns: Mapping[int, PastTurn] = field(default_factory=dict)
    tools: Mapping[str, PastTool] = field(default_factory=dict)
    used_s: float = 0.0
    """What its model calls and tool calls took, as far as they ended. Not: what was on its way when a process died, pauses
    between tries, and questions to a person."""

    @property
    def uncertain(self) -> ToolCalled | None:
        """The first call that only a person can judge."""
        return next((tool.called for tool in self.tools.values() if tool.is_uncertain), None)


def read_past(ledger: LedgerReader, step: StepRef, attempt: int) -> Past:
    """The past of ``attempt``. Costs the records of the step."""
    return past_of(ledger.read(kinds=_OF_STEP, step=step), attempt)


def past_of(records: Iterable[Record], attempt: int) -> Past:
    """The past of ``attempt`` in ``records``: those of its step, what people said of its calls among them, in order."""
    found = _Found(attempt)
    for record in records:
        found.add(record)
    return Past(
        session=found.session,
        descriptor=found.descriptor,
        turns=found.turns,
        tools=found.tools,
        used_s=found.used_s,
    )


class _Found:
    """The fold behind ``past_of``."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self.session: Literal["none", "open", "ended"] = "none"
        self.descriptor: SessionStarted | None = None
        self.turns: dict[int, PastTurn] = {}
        self.tools: dict[str, PastTool] = {}
        self.used_s = 0.0
        self._turn_of: dict[str, int] = {}
        self._begun: dict[str, Record] = {}

    def add(self, record: Record) -> None:
        if record.attempt == self._attempt:
            self._of_attempt(record)
        match record.event:
            case SessionStarted() as started:
                self.descriptor = started
            case ToolCalled(call=call, caller="model") as called:
                before = self.tools.get(call)
                asked_at = None if before is None else before.asked_at
                self.tools[call] = PastTool(called=called, asked_at=asked_at)
            case ToolSucceeded() | ToolFailed() as result:
                self._change(result.call, result=result)
            case InteractionRequested(wait=wait):
                self._change(wait, asked_at=record.at)
            case InterventionResolved(call=call) as resolved:
                self._change(call, resolved=resolved)
            case InteractionAnswered(wait=wait) as answer if wait in self.tools and self.tools[wait].answer is None:
                self._change(wait, answer=answer)

    def _of_attempt(self, record: Record) -> None:
        self.used_s += self._took_s(record)
        match record.event:
            case SessionStarted():
                self.session = "open"
            case SessionCompleted() | SessionFailed():
                self.session = "ended"
            case ModelCalled(call=call, turn=number, request=request):
                self._turn_of[call] = number
                known = self.turns.get(number, PastTurn(call=call, request=Digest(request)))
                self.turns[number] = replace(known, request=Digest(request))
            case ModelResponded(call=call) as responded if call in self._turn_of:
                number = self._turn_of[call]
                self.turns[number] = _responded(self.turns[number], responded, record.at)

    def _took_s(self, record: Record) -> float:
        """The time of the call that ``record`` ends. A tool's is read from the wall clock of one process."""
        match record.event:
            case ModelResponded(duration_s=duration_s):
                return duration_s
            case ToolCalled(call=call):
                self._begun[call] = record
            case InteractionRequested(wait=call):
                self._begun.pop(call, None)
            case ToolSucceeded(call=call) | ToolFailed(call=call):
                begun = self._begun.pop(call, None)
                if begun is not None and begun.generation == record.generation:
                    took = dt.datetime.fromisoformat(record.at) - dt.datetime.fromisoformat(begun.at)
                    return max(0.0, took.total_seconds())
        return 0.0

    def _change(self, call: str, **changes: object) -> None:
        if call in self.tools:
            self.tools[call] = replace(self.tools[call], **changes)  # type: ignore[arg-type]


def _responded(turn: PastTurn, responded: ModelResponded, at: str) -> PastTurn:
    if responded.failure is None:
        return replace(turn, answer=turn.answer or responded)
    tries = 1 + (turn.failed.tries_so_far if turn.failed is not None else 0)
    told = PastFailure(failure=_failure(responded.failure), at=dt.datetime.fromisoformat(at), tries=tries)
    return replace(turn, failed=told)


def _failure(told: FrozenJson) -> Failure:
    fields = told if isinstance(told, Mapping) else {}
    return Failure(**{"exception": "", **{k: v for k, v in fields.items() if k in Failure.__slots__}})  # type: ignore[arg-type]


def newest_failure(ledger: LedgerReader, provider: str) -> PastFailure | None:
    """The failed try of a call to ``provider`` if nothing in the whole Delivery was answered since."""
    record = ledger.last(frozenset({ModelResponded.KIND}))
    if record is None or record.step is None or not isinstance(record.event, ModelResponded):
        return None
    if record.event.failure is None or record.event.provider != provider:
        return None
    turns = read_past(ledger, record.step, record.attempt or 0).turns.values()
    return next((turn.failed for turn in turns if turn.call == record.event.call), None)


def answer_to(ledger: LedgerReader, step: StepRef, wait: str) -> InteractionAnswered | None:
    """The answer that counts to a question of ``step``."""
    for record in ledger.read(kinds=frozenset({InteractionAnswered.KIND}), step=step):
        if isinstance(record.event, InteractionAnswered) and record.event.wait == wait:
            return record.event
    return None


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
