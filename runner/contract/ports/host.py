"""The workflow host: drives the graph from one stable boundary to the next."""

from dataclasses import dataclass
from typing import Protocol

from runner.contract.events import ValueRef
from runner.contract.ids import Digest, StepRef
from runner.contract.outcomes import OpenWait, Outcome, Reason, Retirement


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
