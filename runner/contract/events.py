"""The ledger's vocabulary: every kind of fact, its payload, its schema version, and the one owner that may write it.

Public and versioned. A reader refuses a kind or version that it does not know (``ledger-version``); a store refuses a kind
from an owner that does not own it.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from runner.contract.activation import DigestText, EffectClass, ObjectIdText, Origin
from runner.contract.canonical import Json
from runner.contract.model import Frozen
from runner.contract.outcomes import Outcome, Publication, Reason, Retirement, Settlement

Owner = Literal["coordinator", "host", "operations", "invocation", "custody"]


class ValueRef(Frozen):
    """A step value by content. Small ones stand inline, larger ones are the artifact named by ``digest``."""

    digest: DigestText
    bytes: Annotated[int, Field(ge=0)]
    """Of the canonical form."""
    inline: Json = None
    stored: bool = False
    """True: the value is an artifact file and ``inline`` is null."""


class Usage(Frozen):
    """Tokens and cost of one model call as the endpoint reported them. None means unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Event(Frozen):
    """The base of all payloads."""

    KIND: ClassVar[str]
    OWNER: ClassVar[tuple[Owner, ...]]
    VERSION: ClassVar[int] = 1


class DeliveryAccepted(Event):
    KIND = "delivery.accepted"
    OWNER = ("coordinator",)
    activation: DigestText
    plan: DigestText
    meaning: DigestText
    """Digest of the part of the config that carries meaning; its text stands beside it."""
    meaning_text: Json
    runner_version: str
    document: ValueRef
    """The activation itself, so that any process can go on with the Delivery."""


class DeliveryForked(Event):
    """What was taken over from another Delivery: the records behind this one in the same transaction, as they stood there.
    Their calls keep their ids; effect keys are this Delivery's."""

    KIND = "delivery.forked"
    OWNER = ("coordinator",)
    origin: Origin
    records: Annotated[int, Field(ge=0)]
    """How many follow."""


class DeliverySuspended(Event):
    """Why an execute ended with the Delivery open, and from when on it is worth another; recorded when it says something new."""

    KIND = "delivery.suspended"
    OWNER = ("coordinator",)
    reason: str
    detail: str
    step: str | None
    not_before: str | None
    """UTC, RFC 3339."""


class StepScheduled(Event):
    KIND = "step.scheduled"
    OWNER = ("host",)


class StepAttemptStarted(Event):
    KIND = "step.attempt_started"
    OWNER = ("host",)
    savepoint: ObjectIdText
    """The savepoint that the attempt starts from and that a failed attempt returns to."""
    input: DigestText
    """Digest of the resolved action (prompt, argv, expression), so that a resumed attempt can be compared."""


class SessionStarted(Event):
    KIND = "session.started"
    OWNER = ("invocation",)
    session: str
    descriptor: Json
    """The executor descriptor: provider, version, model, and the digests of instructions, tools, scope and schema."""
    descriptor_digest: DigestText


class ModelCalled(Event):
    """Intent: durable before the request leaves."""

    KIND = "model.called"
    OWNER = ("invocation",)
    call: str
    turn: Annotated[int, Field(ge=1)]
    request: DigestText


class ModelResponded(Event):
    KIND = "model.responded"
    OWNER = ("invocation",)
    call: str
    provider: str
    model: str
    """The model that answered, from the response; empty when there was none."""
    response: ValueRef | None = None
    failure: Json = None
    """The classified failure, when the call failed."""
    usage: Usage = Usage()
    duration_s: Annotated[float, Field(ge=0, strict=False)] = 0.0


class ToolCalled(Event):
    """Intent: durable before the tool acts."""

    KIND = "tool.called"
    OWNER = ("invocation", "operations")
    call: str
    tool: str
    caller: Literal["model", "code", "workflow"]
    effect: EffectClass
    key: DigestText
    """The effect key of durability.md; tools pass it on as an idempotency key."""
    input: ValueRef


class ToolSucceeded(Event):
    KIND = "tool.succeeded"
    OWNER = ("invocation", "operations")
    call: str
    value: ValueRef


class ToolFailed(Event):
    """A recorded failure is a result: the call is not made again."""

    KIND = "tool.failed"
    OWNER = ("invocation", "operations")
    call: str
    message: str


class SessionCompleted(Event):
    KIND = "session.completed"
    OWNER = ("invocation",)
    session: str


class SessionFailed(Event):
    KIND = "session.failed"
    OWNER = ("invocation",)
    session: str
    code: str
    message: str


class ArtifactStored(Event):
    KIND = "artifact.stored"
    OWNER = ("host", "invocation", "operations")
    digest: DigestText
    bytes: int


class OutputValidated(Event):
    KIND = "output.validated"
    OWNER = ("host", "invocation", "operations")
    digest: DigestText


class SavepointTaken(Event):
    KIND = "savepoint.taken"
    OWNER = ("custody",)
    savepoint: ObjectIdText
    tree: ObjectIdText
    """The git tree of the work files; equal trees mean equal content."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the savepoint before; at most 200, ``changed_count`` has the number."""
    changed_count: int = 0
    not_captured: tuple[str, ...] = ()
    """``path: reason``."""
    role: Literal["baseline", "step", "mid-step", "foreign"]


class StepCompleted(Event):
    KIND = "step.completed"
    OWNER = ("host",)
    outcome: str
    output: ValueRef | None
    savepoint: ObjectIdText


class StepFailed(Event):
    KIND = "step.failed"
    OWNER = ("host",)
    outcome: str
    """``failure``, ``timeout``, ``cancelled``, ``budget-exhausted`` or ``wait-expired``."""
    code: str
    message: str
    retriable: bool
    paths: tuple[str, ...] = ()
    """For a scope violation: each path with the kind of change."""
    output: ValueRef | None = None
    savepoint: ObjectIdText


class StepSkipped(Event):
    KIND = "step.skipped"
    OWNER = ("host",)
    reason: Literal["needs", "not-chosen", "when", "blocked"]


class StepSuperseded(Event):
    KIND = "step.superseded"
    OWNER = ("host",)
    reason: str


class DecisionTaken(Event):
    KIND = "decision.taken"
    OWNER = ("host",)
    case: str
    target: str


class CancelRequested(Event):
    KIND = "cancel.requested"
    OWNER = ("coordinator",)
    who: str
    cause: Literal["request", "delivery-timeout"]


class InterventionNeeded(Event):
    KIND = "intervention.needed"
    OWNER = ("coordinator",)
    reason: str
    detail: str


class InterventionResolved(Event):
    """What a person said about an uncertain effect (``call``) or about a worktree that somebody edited (``call`` empty).

    ``happened``: ``value`` is the call's result; ``did-not-happen``: it may run again; ``abandon``: the Delivery fails;
    ``adopt``: the edited worktree goes on; ``discard``: it goes back to the last savepoint.
    """

    KIND = "intervention.resolved"
    OWNER = ("coordinator",)
    call: str
    resolution: Literal["happened", "did-not-happen", "abandon", "adopt", "discard"]
    value: ValueRef | None = None
    who: str


class WaitOpened(Event):
    KIND = "wait.opened"
    OWNER = ("host",)
    wait: str
    prompt: str
    answer_schema: Json
    outcome: str
    show_diff: bool
    expires_at: str | None
    renewal: Annotated[int, Field(ge=0)] = 0
    """How often it was opened again after an expiry."""


class WaitAnswered(Event):
    """A validated answer; exactly one for one opening.

    Whoever appends one looks for an earlier one and appends on the event loop's thread, without an await in between: an
    answer from the inbox and one from a bridge never both count. The first in the ledger is the one that does.
    """

    KIND = "wait.answered"
    OWNER = ("coordinator", "host")
    wait: str
    value: ValueRef
    who: str


class WaitExpired(Event):
    KIND = "wait.expired"
    OWNER = ("host",)
    wait: str
    consequence: Literal["renewed", "default", "incomplete"]


class InteractionRequested(Event):
    """A running agent asked a person. ``wait`` is the call id of the tool call behind it."""

    KIND = "interaction.requested"
    OWNER = ("invocation",)
    wait: str
    prompt: str
    answer_schema: Json


class InteractionAnswered(Event):
    """As ``WaitAnswered``, appended by the same rule."""

    KIND = "interaction.answered"
    OWNER = ("coordinator", "invocation")
    wait: str
    value: ValueRef
    who: str


class ProcessStarted(Event):
    """Who a command's process is: the leader of a session and group of its own (``pid == group``), below two supervisors.

    Durable, with its ``tool.called`` in one transaction, when the process exists and before it executes anything: without
    this record nothing ran; with it and without a result, it may have. The supervisors end all of it within moments of
    their driver's death; the outer one, the guard, ends last. Only if they were killed too does it run on. Then it is the
    leader that can be found, and by its group most of what it started. Whoever finds the call without a result waits for
    the guard to end and then may send KILL to ``group`` if boot id, start time and group (fields 22 and 5 of
    ``/proc/PID/stat``) are all as recorded and the leader is no zombie. Otherwise it is gone, or the number is somebody
    else's by now: nothing may be signalled. Contained, the process is number 1 of its process namespace, with which all of it
    ends, and the guard is bwrap.
    """

    KIND = "process.started"
    OWNER = ("operations",)
    call: str
    """The tool call that it carries out."""
    pid: int
    start_time: str
    """``BOOT:TICKS``: ``/proc/sys/kernel/random/boot_id`` and field 22 of ``/proc/PID/stat`` (clock ticks since boot). Empty
    where the system does not say; then nothing matches."""
    group: int
    guard: int = 0
    """It ends last: unless it was killed, nothing of the command runs once it has gone, daemons included. Never signalled."""
    guard_start_time: str = ""
    """As ``start_time``."""


class TerminalProposed(Event):
    KIND = "terminal.proposed"
    OWNER = ("coordinator",)
    outcome: Outcome
    reason: Reason
    step: str | None
    detail: str
    output: ValueRef | None


class ResultPreserved(Event):
    KIND = "result.preserved"
    OWNER = ("custody",)
    tree: ObjectIdText
    commit: ObjectIdText
    ref: str
    """In the user's repository, or in the store's own where that was gone; empty when it was gone and nothing was changed."""


class PublicationAsked(Event):
    KIND = "publication.asked"
    OWNER = ("custody",)
    ref: str
    expected: str
    new: ObjectIdText


class PublicationKnown(Event):
    KIND = "publication.known"
    OWNER = ("custody",)
    publication: Publication


class RetirementAuthorized(Event):
    KIND = "retirement.authorized"
    OWNER = ("coordinator",)
    authorization: DigestText


class OwnerRetired(Event):
    KIND = "owner.retired"
    OWNER = ("host", "invocation", "custody", "coordinator")
    retirement: Retirement


class DeliverySettled(Event):
    KIND = "delivery.settled"
    OWNER = ("coordinator",)
    settlement: Settlement


VOCABULARY: Final[dict[str, type[Event]]] = {
    event.KIND: event
    for event in (
        DeliveryAccepted,
        DeliveryForked,
        DeliverySuspended,
        StepScheduled,
        StepAttemptStarted,
        SessionStarted,
        ModelCalled,
        ModelResponded,
        ToolCalled,
        ToolSucceeded,
        ToolFailed,
        SessionCompleted,
        SessionFailed,
        ArtifactStored,
        OutputValidated,
        SavepointTaken,
        StepCompleted,
        StepFailed,
        StepSkipped,
        StepSuperseded,
        DecisionTaken,
        CancelRequested,
        InterventionNeeded,
        InterventionResolved,
        WaitOpened,
        WaitAnswered,
        WaitExpired,
        InteractionRequested,
        InteractionAnswered,
        ProcessStarted,
        TerminalProposed,
        ResultPreserved,
        PublicationAsked,
        PublicationKnown,
        RetirementAuthorized,
        OwnerRetired,
        DeliverySettled,
    )
}

STEP_ENDS: Final = frozenset({StepCompleted.KIND, StepFailed.KIND, StepSkipped.KIND, StepSuperseded.KIND})
"""Exactly one of these ends a step; the store refuses a second for the same step."""
