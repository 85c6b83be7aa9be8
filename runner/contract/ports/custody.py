"""Custody of the worktree: attempts for the host, the lifecycle for the coordinator."""

from dataclasses import dataclass
from typing import Protocol

from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import Digest, ObjectId, StepRef
from runner.contract.outcomes import Publication, Retirement
from runner.contract.scope import Scope


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
    allowed_by: tuple[str, ...] = ()
    """Scope patterns that would have allowed them; empty where none would."""


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

    def mark(self, grant: WorkspaceGrant, paths: tuple[str, ...] | None) -> Savepoint:
        """A mid-step savepoint of the attempt, of exactly the known ``paths`` (as custody shows them), staged in the ledger
        with the result of the tool call that changed them. Costs what the paths cost, no scan; None, where nobody knows what
        changed, costs one."""
        ...

    def settle(self, grant: WorkspaceGrant) -> Verdict:
        """The verdict on what the attempt wrote, and its savepoint. Nothing of the attempt may run any more."""
        ...

    def discard(self, grant: WorkspaceGrant) -> Verdict:
        """For an attempt that failed: the same verdict, then the worktree goes back to ``grant.savepoint`` whatever it
        is. An ``Accepted`` answer therefore names the opening savepoint."""
        ...


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
