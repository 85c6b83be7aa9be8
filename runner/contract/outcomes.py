"""What is known at the end, and what the public operations answer.

Known is a fact that somebody observed; unknown is the statement that nobody did. Unknown is never rounded to success, failure
or "did not start": it has no place in a settlement.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from runner.contract.activation import DigestText, ObjectIdText, Origin
from runner.contract.canonical import Json, canonical
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.model import Frozen


class Outcome(StrEnum):
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Why the outcome is what it is. Stable, closed."""

    ALL_STEPS_FINISHED = "all-steps-finished"
    ROUTED = "routed"
    STEP_FAILED = "step-failed"
    STEP_TIMEOUT = "step-timeout"
    SCOPE_VIOLATION = "scope-violation"
    ENVIRONMENT_CHANGED = "environment-changed"
    BUDGET_EXHAUSTED = "budget-exhausted"
    NOTHING_RAN = "nothing-ran"
    OUTPUT_INVALID = "output-invalid"
    BINDING_DRIFT = "binding-drift"
    RECORDING_UNUSED = "recording-unused"
    WAIT_EXPIRED = "wait-expired"
    ABANDONED = "abandoned"
    """A person gave up an uncertain effect: nobody knows whether it happened."""
    CANCEL_REQUESTED = "cancel-requested"
    DELIVERY_TIMEOUT = "delivery-timeout"


class Publication(Frozen):
    """``published`` and ``already-at-target`` moved or found the ref at ``new``; ``conflict`` says why it did not."""

    disposition: Literal["published", "already-at-target", "conflict", "not-requested"]
    ref: str
    old: str
    """What the target was before: an object id or ``absent``."""
    new: str
    """What the target is now: an object id or ``absent``."""
    reason: Literal["", "moved", "denied", "checked-out"] = ""
    """Set exactly for a conflict."""


OWNERS: Final = ("host", "invocation", "custody", "coordinator")


class Retirement(Frozen):
    """One owner's fact that nothing of it is live any more. ``authorization`` is the one the coordinator issued."""

    owner: Literal["host", "invocation", "custody", "coordinator"]
    authorization: DigestText


SETTLEMENT_FORMAT: Final = "runner.settlement/1"


class Settlement(Frozen):
    """The immutable end of a Delivery: a closed list without time, usage, attempt or session."""

    format: Literal["runner.settlement/1"] = SETTLEMENT_FORMAT
    delivery: str
    activation: DigestText
    plan: DigestText
    outcome: Outcome
    reason: Reason
    step: str | None
    """The step whose end decided the outcome, where one did."""
    output: DigestText | None
    result_tree: ObjectIdText
    result_commit: ObjectIdText
    publication: Publication
    retirements: Annotated[tuple[Retirement, ...], Field(min_length=4, max_length=4)]

    def to_bytes(self) -> bytes:
        """The canonical bytes: the same for every later ``execute`` of this Delivery."""
        return canonical(self.to_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    settlement: Settlement


class OpenWait(Frozen):
    """A question that the Delivery waits with: a step's approval, or what a running agent asked."""

    wait: str
    """Its id, which an answer names: the step's key, and for an agent's question the call behind it."""
    kind: Literal["approval", "interaction"]
    step: str
    prompt: str
    answer_schema: Json
    outcome: str | None = None
    """The property of the answer that routes; a bare word given as the answer stands for it."""
    show_diff: bool = False
    since: str
    expires_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """Durable and open; no process is held. ``not_before`` (RFC 3339) is set when the machine or a provider said so;
    ``waits`` are the questions that an answer would continue."""

    delivery: DeliveryId
    reason: str
    detail: str
    step: StepRef | None = None
    not_before: str | None = None
    waits: tuple[OpenWait, ...] = ()


class UncertainEffect(Frozen):
    """An effect that was begun and whose end nobody observed. ``call`` is the name that ``resolve`` takes."""

    step: str
    """``StepRef.key``."""
    call: str
    tool: str
    input_text: str
    key: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsIntervention:
    """A person must say what happened; nothing was guessed and nothing was repeated."""

    delivery: DeliveryId
    reason: str
    detail: str
    effects: tuple[UncertainEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Another driver lives: who and since when (RFC 3339). Nothing was done."""

    delivery: DeliveryId
    host: str
    pid: int
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Stopped at a boundary because the process was asked to; open, continue with ``execute``."""

    delivery: DeliveryId
    detail: str


ExecuteResult = Settled | Suspended | NeedsIntervention | Busy | Interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAck:
    """What ``cancel`` found: ``requested`` (recorded; a live driver settles it, else the next execute, perhaps after a person
    has spoken), ``settled`` (done now) or ``too-late``."""

    delivery: DeliveryId
    disposition: Literal["requested", "settled", "too-late"]
    settlement: Settlement | None = None


class StepState(Frozen):
    """One step as ``inspect`` shows it."""

    step: str
    state: Literal["scheduled", "running", "completed", "failed", "skipped", "superseded"]
    attempt: int
    outcome: str | None = None
    since: str
    """When it came into this state."""
    began: str | None = None
    """When its first attempt started."""
    detail: str = ""
    model_calls: int = 0
    tool_calls: int = 0
    answers: int = 0
    """Model calls that were answered; ``counted`` of them told their tokens, ``priced`` of them had a cost. The sums are of
    those: what the others used is unknown."""
    counted: int = 0
    priced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class Suspension(Frozen):
    """Why nobody drives an open Delivery: as ``Suspended``, without the questions."""

    reason: str
    detail: str
    step: str | None
    """``StepRef.key``."""
    not_before: str | None
    """From when on another execute is worth it; RFC 3339."""


class DeliveryState(Frozen):
    """What ``inspect`` answers: read from the ledger without disturbing a driver."""

    delivery: str
    phase: str
    outcome: Outcome | None = None
    reason: Reason | None = None
    detail: str = ""
    isolation: str
    driver: str | None = None
    """``host:pid`` of the live driver, or None."""
    accepted_at: str
    last_at: str = ""
    """When the last record was written; empty before the first."""
    records: int
    steps: tuple[StepState, ...]
    suspended: Suspension | None = None
    """What the last execute ended with, while nobody has taken it up since."""
    waits: tuple[OpenWait, ...] = ()
    uncertain: tuple[UncertainEffect, ...] = ()
    settlement: Settlement | None = None
    origin: str = ""
    """Which Delivery it started from, and where; empty for one that started from its base commit."""


class SavepointState(Frozen):
    """One savepoint as ``savepoints`` lists it: a state of the files, and what had happened when it was recorded."""

    savepoint: ObjectIdText
    tree: ObjectIdText
    seq: int
    """The ledger sequence of its record; tells two savepoints of equal files apart."""
    at: str
    role: Literal["baseline", "step", "mid-step", "foreign"]
    step: str | None
    """``StepRef.key``."""
    call: str | None = None
    """For one in the middle of a step: the tool call whose result was recorded with it."""
    tool: str | None = None
    changed: int
    """How many paths differ from the savepoint before."""


class Departure(Frozen):
    """Where a new Delivery can start from an old one."""

    origin: Origin
    nearest: Origin | None = None
    """For a savepoint in the middle of a step: the beginning of that step, for when it cannot go on in its middle."""
    step: str | None
    """The step that is started again, or goes on; None when it is whatever comes next."""
    what: str
    """The place, in words."""


class TakenOver(Frozen):
    """What a Delivery with an origin takes over from it, and what it does again."""

    kept: tuple[str, ...]
    """Steps that had ended, in order."""
    inside: str | None
    """The step that goes on behind a tool call."""
    again: tuple[str, ...]
    """Steps that were open there and start anew."""
    changed: tuple[str, ...]
    """Those of ``kept`` that the new workflow defines differently; they are taken over all the same."""
    repeated: tuple[str, ...]
    """Effects outside the worktree that ``again`` may have had there, as ``call: tool``; they can happen once more."""


class Check(Frozen):
    """One thing that was looked at: ``ok`` is False when the record does not hold."""

    name: str
    ok: bool
    detail: str


class Verification(Frozen):
    """What ``verify`` looked at, in order. Where the chain itself is broken, nothing after it was looked at."""

    delivery: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


class Takeover(Frozen):
    """The fence is free: nobody drives the Delivery now. ``ended`` are the processes that were told to end."""

    delivery: str
    ended: tuple[int, ...]
    detail: str
