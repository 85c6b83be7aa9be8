"""The door: what the host (``Workspaces``) and the coordinator (``CustodyLifecycle``) may ask of custody.

Every operation is idempotent by the ledger's facts and by what git and the worktree show; a process may die anywhere in it.
Order is what makes that safe: objects and refs are synced before a savepoint is staged, the present is kept before a file is
overwritten, a restore is journaled before its first change, publication is asked durably before the ref moves.
"""

from collections.abc import Callable

from custody import closing
from custody.attempts import Attempts
from custody.desk import Desk
from custody.remote import Patience
from custody.scan import Budget
from runner.contract import ports
from runner.contract.grant import GrantKey, WorkspaceGrant
from runner.contract.ids import Digest, ObjectId, StepRef
from runner.contract.outcomes import Publication, Retirement
from runner.contract.scope import Scope


def _nothing(_: str) -> None:
    """The default seam: no effect is disturbed."""


class Custodian:
    """Custody of one Delivery's worktree, for the holder of its fence. Implements ``ports.Workspaces`` and
    ``ports.CustodyLifecycle``; the factory hands each caller the narrower one.

    ``before_effect`` is called by name in front of every durable effect and every change of the worktree or of a ref; tests
    kill there.
    """

    def __init__(
        self,
        *,
        case: ports.Case,
        writer: ports.LedgerWriter,
        key: GrantKey,
        clock: ports.Clock,
        budget: Budget | None = None,
        patience: Patience | None = None,
        before_effect: Callable[[str], None] = _nothing,
    ) -> None:
        self._desk = Desk(case, writer, budget or Budget(), patience or Patience(), before_effect)
        self._attempts = Attempts(self._desk, key, clock)

    @property
    def git_processes(self) -> int:
        """Git processes started so far; for the cost tests."""
        return self._desk.git.processes

    def close(self) -> None:
        """Frees the handle of the worktree. Idempotent; the next operation opens it again."""
        with self._desk.working("close the worktree"):
            self._attempts.forget()
            self._desk.close()

    # --- for the host ------------------------------------------------------------------------------------------------

    def current(self) -> ports.Savepoint:
        """See ``ports.Workspaces.current``."""
        with self._desk.working("find the newest savepoint"):
            return self._attempts.current()

    def begin(
        self, step: StepRef, attempt: int, scope: Scope, *, opened_at: ObjectId | None, expires_in_s: float
    ) -> WorkspaceGrant | ports.ForeignEdit:
        """See ``ports.Workspaces.begin``; whose edits are whose is in ``foreign``."""
        with self._desk.working("begin an attempt"):
            return self._attempts.begin(step, attempt, scope, opened_at=opened_at, expires_in_s=expires_in_s)

    def mark(self, grant: WorkspaceGrant, paths: tuple[str, ...] | None) -> ports.Savepoint:
        """See ``ports.Workspaces.mark``. At most one git process, and one more that stays while the attempt is open."""
        with self._desk.working("keep what a tool call changed"):
            return self._attempts.mark(grant, paths)

    def settle(self, grant: WorkspaceGrant) -> ports.Verdict:
        """See ``ports.Workspaces.settle``."""
        with self._desk.working("settle an attempt"):
            return self._attempts.end(grant, keep=True)

    def discard(self, grant: WorkspaceGrant) -> ports.Verdict:
        """See ``ports.Workspaces.discard``."""
        with self._desk.working("undo an attempt"):
            return self._attempts.end(grant, keep=False)

    # --- for the coordinator -----------------------------------------------------------------------------------------

    def baseline(self) -> ports.Savepoint:
        """See ``ports.CustodyLifecycle.baseline``. Tracked files must be the base's, byte for byte after conversion, unless
        dirty edits were admitted; untracked files belong to the baseline and not to the result."""
        with self._desk.working("take the baseline"):
            return self._attempts.take_baseline()

    def settle_interrupted(self) -> None:
        """See ``ports.CustodyLifecycle.settle_interrupted``."""
        with self._desk.working("settle an interrupted attempt"):
            self._attempts.settle_interrupted()

    def preserve(self) -> tuple[ObjectId, ObjectId]:
        """See ``ports.CustodyLifecycle.preserve``. Without changes the result is the base commit itself."""
        with self._desk.working("preserve the result"):
            return closing.preserve(self._desk, self._attempts.take_baseline(), self._attempts.current())

    def publish(self, *, requested: bool) -> Publication:
        """See ``ports.CustodyLifecycle.publish``. In a conflict ``old`` is what the target had to be, ``new`` what it is."""
        with self._desk.working("publish the result"):
            return closing.publish(self._desk, requested=requested)

    def retire(self, authorization: Digest) -> Retirement:
        """See ``ports.CustodyLifecycle.retire``. Store, savepoints and the preserved result stay until they are collected."""
        with self._desk.working("retire custody"):
            self._attempts.forget()
            return closing.retire(self._desk, authorization)
