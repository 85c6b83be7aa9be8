"""What every operation of one Delivery's custody works with: the case, the store, the opened worktree, the pen."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from custody.facts import Facts
from custody.git import Git
from custody.paths import show
from custody.remains import gone, own_repository, repository_behind
from custody.remote import Patience
from custody.repository import Repository
from custody.scan import Budget
from custody.store import Store
from custody.worktree import Worktree, open_again, open_first
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.ids import DeliveryId


class Desk:
    """Shared by the operations. The worktree is opened, and healed after a kill, by the first one that needs it."""

    def __init__(
        self,
        case: ports.Case,
        writer: ports.LedgerWriter,
        budget: Budget,
        patience: Patience,
        before_effect: Callable[[str], None],
    ) -> None:
        self.case = case
        self.writer = writer
        self.before_effect = before_effect
        self.facts = Facts(case.ledger)
        self.delivery = DeliveryId(case.activation.delivery)
        self.git = Git()
        self.store = Store(self.git, case.layout.store)
        self._budget = budget
        self.patience = patience
        self._lock = threading.RLock()
        self._open: Worktree | None = None

    def worktree(self) -> Worktree:
        """The worktree, with no restore left unfinished in it: neither by a kill nor by an operation that failed."""
        if self._open is None:
            self._open = open_again(
                self.git, self.store, self.case.activation, budget=self._budget, before_effect=self.before_effect
            )
        self._open.finish_restore()
        return self._open

    def worktree_left(self) -> Worktree | None:
        """The worktree; None when it, or its repository, is not there any more. Only for what can be done without it."""
        try:
            return self.worktree()
        except EnvironmentFault as error:
            if error.code is not Code.WORKTREE_MISSING:
                raise
        return None

    def repository(self) -> Repository:
        """Where the result is kept and the target stands: the worktree's, or what is left of it. ``WORKTREE_MISSING`` for a
        Delivery that completed when no repository is left: it is to be published."""
        opened = self.worktree_left()
        if opened is not None:
            return opened.repository
        frozen = self.store.frozen()
        self.store.heal()
        behind = repository_behind(frozen)
        if behind is None and self.facts.completed():
            raise gone(frozen)
        return behind or own_repository(self.git, self.store, frozen)

    def new_worktree(self) -> Worktree:
        """For the baseline: with a store made anew."""
        self.close()
        self._open = open_first(
            self.git, self.store, self.case.activation, budget=self._budget, before_effect=self.before_effect
        )
        return self._open

    def close(self) -> None:
        """Frees the worktree's handle and ends what still runs for it."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """One operation at a time; what the machine refuses becomes a fault with its place. A failed operation leaves no
        more in the store than a finished one: half a pack on a full disk would be in the way of the next try."""
        with self._lock, self._tidied():
            try:
                yield
            except OSError as error:
                code = Code.DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else Code.CAPTURE_FAILED
                place = show(os.fsencode(error.filename)) if isinstance(error.filename, str | bytes) else "a file"
                raise EnvironmentFault(
                    code,
                    f"cannot {what}: {place}: {error.strerror}",
                    remedy="mend that, then run the same command again",
                ) from error

    @contextmanager
    def _tidied(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            with suppress(OSError):  # what failed is the news; the next process tidies up, too
                self.store.heal()
            raise
