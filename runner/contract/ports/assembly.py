"""The creation plane, as the coordinator may use it: one Delivery's rooms."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from runner.contract.activation import Activation
from runner.contract.errors import Finding
from runner.contract.ids import ObjectId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.plan import Plan
from runner.contract.ports.custody import CustodyLifecycle
from runner.contract.ports.host import WorkflowHost
from runner.contract.ports.invocation import InvocationControl
from runner.contract.ports.ledger import Ledger
from runner.contract.ports.surroundings import Bridge, Progress
from runner.contract.records import Record


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

    def fitting(self, plan: Plan, records: tuple[Record, ...], inside: StepRef | None) -> tuple[Finding, ...]:
        """Pure: why ``records``, taken over from another Delivery, cannot be what happened of ``plan`` so far; ``inside`` is
        the one step among them that goes on. Nothing if they can be."""
        ...

    def bring(
        self, activation: Activation, source: DeliveryLayout, layout: DeliveryLayout, savepoints: tuple[ObjectId, ...]
    ) -> None:
        """``savepoints`` of the Delivery ``source`` brought from its store into that of ``layout``, synced; nothing in the
        worktree changes. Idempotent. ``CallerError`` when an object is missing, or the worktree is not the admitted one."""
        ...

    def rooms(self, case: Case) -> AbstractAsyncContextManager[Rooms]:
        """Builds in creation order, disposes in reverse."""
        ...
