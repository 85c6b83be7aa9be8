"""Managed agent invocation: one admitted action to exactly one disposition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runner.contract.activation import AgentAction, GenerateAction
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Finding
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import Digest, StepRef
from runner.contract.outcomes import OpenWait, Retirement
from runner.contract.ports.custody import Savepoint


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
    mark: Callable[[tuple[str, ...] | None], Savepoint] | None
    """Takes a mid-step savepoint of the paths that a tool call changed (None: whatever it changed), before its result is
    recorded. Synchronous."""
    timeout_s: float | None
    """Bounds the attempt over all its lives. What a person is asked meanwhile takes no time."""
    attempts_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    value: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """``code`` names the class of failure (classification table) or what was broken, ``step-timeout`` that the time was over;
    nothing is left running."""

    code: str
    message: str
    retriable: bool
    suspend_s: float | None = None
    """Set when the provider cannot be used now (down, backing off, key refused, quota spent), which is nothing that the step
    did: do not fail, suspend, and leave the attempt open. It goes on from the journal, worth trying in so many seconds."""


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
