"""How rooms meet: narrow protocols, handed over by the factory. A caller gets only the operations it may use.

The store, custody and the tools are synchronous (callers in async rooms use threads); host, invocation and coordinator are
async. ``CancelledError`` always travels on.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from runner.contract.activation import Activation, AgentAction, EffectClass, GenerateAction
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Finding
from runner.contract.events import Owner, ValueRef
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import DeliveryId, Digest, ObjectId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import OpenWait, Outcome, Publication, Reason, Retirement
from runner.contract.plan import Plan
from runner.contract.records import Draft, InboxItem, Record
from runner.contract.scope import Scope

# --- time and observation --------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time, injected so that tests never wait."""

    def now(self) -> dt.datetime:
        """Aware UTC. May go backwards; nothing is ordered by it."""
        ...

    def monotonic(self) -> float:
        """Seconds; never goes backwards within a process."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Observer(Protocol):
    """One-way: called on a task of its own behind a bounded queue. Off, throwing, hanging or slow, it changes nothing."""

    def record(self, record: Record) -> None:
        """A fact that is already durable."""
        ...

    def progress(self, step: StepRef, text: str) -> None:
        """Something to show while a step runs (streamed output); never durable."""
        ...


class Progress(Protocol):
    """Where rooms drop progress; never blocks, never raises."""

    def progress(self, step: StepRef, text: str) -> None: ...


# --- questions to people and other systems ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody answered; not yet validated."""

    value: FrozenJson
    who: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """Nobody answers now: the Delivery suspends, and the question is asked again by a later execute."""


class Bridge(Protocol):
    """How questions reach somebody. One bridge for workflow waits, one for what a running agent asks; they never mix."""

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer | Deferred:
        """Asked at most once per wait, opening and execute. May take long; it is cancelled when the wait is answered from
        elsewhere, expires, or the Delivery stops. An answer that does not fit the schema is asked for again once."""
        ...


# --- ledger ----------------------------------------------------------------------------------------------------------


class LedgerReader(Protocol):
    """Reading costs what is read, not what was written before it: lookups by step and kind go through an index."""

    def head(self) -> int:
        """The last sequence, 0 for an empty ledger."""
        ...

    def read(
        self, *, after: int = 0, kinds: frozenset[str] | None = None, step: StepRef | None = None
    ) -> Iterator[Record]:
        """Records in order. ``IntegrityError`` (ledger-corrupt, ledger-version) at the first that cannot be understood."""
        ...

    def last(self, kinds: frozenset[str], step: StepRef | None = None) -> Record | None:
        """The newest record of one of ``kinds`` (of that step, when given)."""
        ...

    def open_steps(self) -> tuple[StepRef, ...]:
        """Steps that were scheduled and have no end yet, in the order they were scheduled. Costs what is open."""
        ...


class LedgerWriter(Protocol):
    """One owner's pen. Only this owner's kinds are taken; only the current generation may write (``fence-lost``)."""

    def stage(self, *drafts: Draft) -> None:
        """Recorded with, and in front of, the next ``append`` of any owner; lost if the process dies before that."""
        ...

    def append(self, *drafts: Draft) -> tuple[Record, ...]:
        """One durable transaction: everything staged, then ``drafts``. Returns those of ``drafts``. When it raises,
        nothing was written and what was staged stays staged. ``LEDGER_ORDER`` for a second end of one step, or for a
        completed step that names an artifact or savepoint which cannot be read back."""
        ...


class Artifacts(Protocol):
    """Content-addressed values of one Delivery."""

    def put(self, value: FrozenJson) -> ValueRef:
        """``value`` by reference: inline when small, else written atomically (temp, fsync, rename, fsync directory)."""
        ...

    def get(self, ref: ValueRef) -> FrozenJson:
        """The value, verified against its digest; ``ARTIFACT_CORRUPT`` when it does not hold."""
        ...


class Ledger(LedgerReader, Protocol):
    """One Delivery's open ledger, as the coordinator holds it."""

    @property
    def artifacts(self) -> Artifacts: ...

    def writer(self, owner: Owner) -> LedgerWriter: ...

    def inbox(self) -> tuple[InboxItem, ...]:
        """What was left and not yet taken, in order of arrival."""
        ...

    def take(self, item: InboxItem) -> None:
        """Marks it taken with the next ``append``, in the same transaction."""
        ...

    def subscribe(self, listener: Callable[[Record], None]) -> None:
        """``listener`` is called after each durable append, on the appending thread; it must not block or raise."""
        ...

    def close(self) -> None: ...


# --- workspace (custody), as the host may use it ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    commit: ObjectId
    tree: ObjectId
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The attempt kept to its scope; ``savepoint`` is staged in the ledger with the step's completion."""

    savepoint: Savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """It did not: ``paths`` (``kind path``) were outside ``rule``; the worktree is again what it was at ``savepoint``."""

    paths: tuple[str, ...]
    rule: str
    savepoint: Savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentChanged:
    """Hooks or shared git config changed during the attempt. Reported, never restored; it ends the Delivery."""

    what: tuple[str, ...]
    savepoint: Savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEdit:
    """The worktree was not the last savepoint's before the attempt began: kept as ``savepoint``, a person decides."""

    paths: tuple[str, ...]
    savepoint: Savepoint


Verdict = Accepted | Violation | EnvironmentChanged


class Workspaces(Protocol):
    """Custody for the host. Synchronous; one attempt at a time (the host sees to that)."""

    def current(self) -> Savepoint:
        """The newest savepoint (the baseline before any step)."""
        ...

    def begin(
        self, step: StepRef, attempt: int, scope: Scope, *, opened_at: ObjectId | None, expires_in_s: float
    ) -> WorkspaceGrant | ForeignEdit:
        """A grant for one attempt. ``opened_at`` is given for an attempt that a crash interrupted: the worktree returns
        to that attempt's last mid-step savepoint, or to ``opened_at`` where it has none; the grant's savepoint is
        ``opened_at`` either way. The first call of a process checks that nobody edited the worktree meanwhile; an edit
        that a person resolved (``adopt``, ``discard``) is taken over or undone here."""
        ...

    def mark(self, grant: WorkspaceGrant, paths: tuple[str, ...]) -> Savepoint:
        """A mid-step savepoint of the attempt, of exactly the known ``paths`` (as custody shows them), staged in the ledger
        with the result of the tool call that changed them. Costs what the paths cost, no scan."""
        ...

    def settle(self, grant: WorkspaceGrant) -> Verdict:
        """The verdict on what the attempt wrote, and its savepoint. Nothing of the attempt may run any more."""
        ...

    def discard(self, grant: WorkspaceGrant) -> Verdict:
        """For an attempt that failed: the same verdict, then the worktree goes back to ``grant.savepoint`` whatever it
        is. An ``Accepted`` answer therefore names the opening savepoint."""
        ...


# --- custody, as the coordinator may use it --------------------------------------------------------------------------


class CustodyLifecycle(Protocol):
    """Idempotent by ledger facts: asked again after a crash, each returns or finishes what was begun."""

    def baseline(self) -> Savepoint:
        """The first savepoint; checks that the worktree is what was admitted (``correlation-mismatch`` otherwise)."""
        ...

    def settle_interrupted(self) -> None:
        """Before a terminal without a running step: puts the worktree back to the newest savepoint if an attempt was
        left open. The host has recorded that attempt's end."""
        ...

    def preserve(self) -> tuple[ObjectId, ObjectId]:
        """The result as a commit on the base, kept under ``refs/runner``: (tree, commit)."""
        ...

    def publish(self, *, requested: bool) -> Publication:
        """One compare-and-swap of the target, or ``not-requested``. Read back after any doubt."""
        ...

    def retire(self, authorization: Digest) -> Retirement: ...


# --- invocation ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One admitted action for a managed agent, everything resolved. ``tools`` follow from the action."""

    step: StepRef
    attempt: int
    action: AgentAction | GenerateAction
    system: str
    prompt: str
    grant: WorkspaceGrant | None
    """None for ``generate``."""
    mark: Callable[[tuple[str, ...]], Savepoint] | None
    """Takes a mid-step savepoint of the paths that a tool call changed, before its result is recorded. Synchronous."""
    timeout_s: float | None
    attempts_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    value: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """``code`` names the class of failure (classification table) or what was broken; nothing is left running."""

    code: str
    message: str
    retriable: bool
    suspend_s: float | None = None
    """Set when nothing was done and the provider refused to start (auth, quota, backing off): suspend, do not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """No admitted completion after the corrective turns; ``findings`` of the last one."""

    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """An effect's end was not observed; see the ledger's last ``tool.called`` without an answer."""

    call: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingInput:
    """The agent asked and nobody answers now. The attempt stays open; its session goes on from the journal."""

    wait: OpenWait


Disposition = Completed | Failed | Invalid | Uncertain | AwaitingInput


class ActionInvocation(Protocol):
    """Invocation for the host."""

    async def invoke(self, dispatch: Dispatch) -> Disposition:
        """Runs one episode to its disposition, journaling every call. When cancelled, what was in flight is ended first."""
        ...


class InvocationControl(Protocol):
    """Invocation for the coordinator."""

    async def conclude(self) -> tuple[Finding, ...]:
        """Asked once before a ``completed`` proposal is recorded: what the providers hold against it, such as entries of
        a recording that nothing asked for. Judged from the ledger, so that a killed run concludes the same."""
        ...

    async def retire(self, authorization: Digest) -> Retirement:
        """Closes sessions, releases credentials. The same authorization replays the fact; another is refused."""
        ...


# --- deterministic operations ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """One process, everything resolved. Its effect key follows from it and is computed by whoever runs it."""

    step: StepRef
    attempt: int
    argv: tuple[str, ...]
    cwd: str
    """Absolute, inside the worktree."""
    env: Mapping[str, str]
    """Added to the clean base environment."""
    timeout_s: float
    effect: EffectClass
    output_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a process ended. ``end`` tells exit, signal and timeout apart; output is UTF-8 text, control characters escaped."""

    end: Literal["exit", "signal", "timeout", "not-started"]
    status: int
    """Exit status or signal number; -1 when it did not start."""
    stdout: str
    stderr: str
    truncated: bool
    duration_s: float
    message: str = ""


class Operations(Protocol):
    """Deterministic host operations."""

    async def command(self, request: CommandRequest) -> CommandResult:
        """Runs one supervised process: intent journaled before, result after. Nothing it started outlives the call, a
        cancelled one included."""
        ...


# --- host ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalProposal:
    """The graph is at its end; the coordinator decides what becomes of it."""

    outcome: Outcome
    reason: Reason
    step: StepRef | None
    detail: str
    output: ValueRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSuspended:
    reason: str
    detail: str
    step: StepRef | None
    resume_in_s: float | None
    waits: tuple[OpenWait, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIntervention:
    """A step cannot go on without a person."""

    reason: str
    detail: str
    step: StepRef


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStopped:
    """``stop`` was asked and the next boundary reached."""


Boundary = TerminalProposal | HostSuspended | HostIntervention | HostStopped


class WorkflowHost(Protocol):
    """The host for the coordinator."""

    async def drive(self) -> Boundary:
        """Runs the graph to its next stable boundary. Everything it started has ended when it returns or raises."""
        ...

    def stop(self) -> None:
        """Ask to stop at the next step boundary. Thread- and signal-safe, idempotent."""
        ...

    def cancel(self, reason: Reason) -> None:
        """Start nothing new, end what runs, then propose ``cancelled``. Idempotent; callable from the event loop."""
        ...

    def answered(self, wait: str) -> None:
        """The ledger has an answer to ``wait`` now: whoever waits for it looks again. Callable from the event loop."""
        ...

    async def retire(self, authorization: Digest) -> Retirement:
        """Deletes checkpoints and frees what is live."""
        ...


# --- assembly (the creation plane, for the coordinator) --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one Delivery's rooms are built from, after fence, correlation and interpretation."""

    activation: Activation
    plan: Plan
    layout: DeliveryLayout
    ledger: Ledger
    progress: Progress
    waits: Bridge
    """For workflow waits."""
    interactions: Bridge
    """For what a running agent asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """One Delivery's rooms, each by the capability that the coordinator may use."""

    host: WorkflowHost
    invocation: InvocationControl
    custody: CustodyLifecycle


class Assembly(Protocol):
    """The factory's per-Delivery part."""

    def check(self, activation: Activation) -> None:
        """Pure: every executor's exact provider is configured with the version, descriptor and features it was bound
        to, every used secret can be read. ``CallerError`` or ``ProviderError`` otherwise, before any effect."""
        ...

    def rooms(self, case: Case) -> AbstractAsyncContextManager[Rooms]:
        """Builds in creation order, disposes in reverse."""
        ...
