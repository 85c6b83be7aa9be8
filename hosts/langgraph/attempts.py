"""One attempt's hold on the worktree: a grant, the call under it, and custody's verdict.

Custody is synchronous and runs in a thread; a thread cannot be cancelled, so every custody call is awaited to its end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from hosts.langgraph.journal import ATTEMPT, Journal, Open
from hosts.langgraph.pump import raise_if_cancelled, through
from hosts.langgraph.results import shown
from runner.contract import limits
from runner.contract.activation import AgentAction, CommandAction
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import ObjectId, SiteId
from runner.contract.plan import Site
from runner.contract.ports import EnvironmentChanged, ForeignEdit, HostIntervention, Savepoint, Verdict, Workspaces

T = TypeVar("T")

WORKTREE_EDITED: Final = "worktree-edited"
"""The reason of an intervention that a person ends with ``adopt`` or ``discard``."""

GRANT_S: Final = 7 * 24 * 3600.0
"""How long a grant of a step is good that has no timeout, or whose time stands still while a person is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A begun attempt."""

    grant: WorkspaceGrant
    newest: Savepoint
    """The newest savepoint when it began; not the one it began at if a crash came between a savepoint and its step."""

    def changed(self, now: Savepoint) -> bool:
        """Whether the work files at ``now`` differ from those it began with."""
        if self.newest.commit == self.grant.savepoint:
            return now.tree != self.newest.tree
        return bool(now.changed)


class Attempts:
    """Begins, ends and gives up attempts of one drive, one at a time."""

    def __init__(self, *, workspaces: Workspaces, journal: Journal, keep: Callable[[], bool]) -> None:
        """``keep`` says whether an interrupted attempt is to be resumed later: then the worktree is left as it is, exactly
        as a crash would leave it."""
        self._workspaces: Final = workspaces
        self._journal: Final = journal
        self._keep: Final = keep
        self._discarded: Final[dict[SiteId, Verdict]] = {}

    def current(self) -> ObjectId:
        """The newest savepoint."""
        return self._workspaces.current().commit

    async def begin(self, opened: Open, site: Site, *, as_it_is: bool = False) -> Attempt | HostIntervention:
        """A grant; the step's start is not recorded yet. An interrupted attempt goes back to its last savepoint, unless the
        files are to be taken ``as_it_is``; then custody says whether they are those of the last savepoint."""
        if not isinstance(site.action, AgentAction | CommandAction):
            raise TypeError(f"{site.id} uses no workspace")
        scope = site.action.scope
        opened_at = None if as_it_is else opened.opened_at
        asks = isinstance(site.action, AgentAction) and site.action.asks
        expires_in_s = site.timeout_s + 2 * limits.TERM_GRACE_S if site.timeout_s and not asks else GRANT_S

        def begin() -> tuple[WorkspaceGrant | ForeignEdit, Savepoint]:
            grant = self._workspaces.begin(opened.step, ATTEMPT, scope, opened_at=opened_at, expires_in_s=expires_in_s)
            return grant, self._workspaces.current()

        grant, newest = await through(asyncio.to_thread(begin))
        if isinstance(grant, ForeignEdit):
            self._journal.withdraw(opened)
            detail = (
                f"the worktree was edited outside the Delivery: {shown(grant.paths)}."
                " Adopt the edit, so that it belongs to the result, or discard it; it is kept either way."
            )
            return HostIntervention(reason=WORKTREE_EDITED, detail=detail, step=opened.step)
        return Attempt(grant=grant, newest=newest)

    def mark(self, attempt: Attempt) -> Callable[[tuple[str, ...] | None], Savepoint]:
        """Takes mid-step savepoints of ``attempt``."""
        return lambda paths: self._workspaces.mark(attempt.grant, paths)

    async def call(self, opened: Open, attempt: Attempt, perform: Callable[[], Awaitable[T]]) -> T:
        """What ``perform`` answers. Cancelled, the worktree goes back first (but see ``keep``)."""
        try:
            raise_if_cancelled()
            return await perform()
        except asyncio.CancelledError:
            if not self._keep():
                self._discarded[opened.step.site] = await self.discard(attempt)
            raise

    async def settle(self, attempt: Attempt) -> Verdict:
        """Custody's verdict on a finished attempt."""
        return await through(asyncio.to_thread(self._workspaces.settle, attempt.grant))

    async def discard(self, attempt: Attempt) -> Verdict:
        """Custody's verdict on a failed attempt; the worktree is back at its beginning."""
        return await through(asyncio.to_thread(self._workspaces.discard, attempt.grant))

    async def abandon(self, opened: Open, site: Site) -> HostIntervention | None:
        """Puts the worktree back for an attempt that was left open and will not go on. One that is gone needs none of it."""
        if not site.uses_workspace or not opened.recorded or site.id in self._discarded:
            return None
        try:
            attempt = await self.begin(opened, site)
        except EnvironmentFault as fault:
            if fault.code is not Code.WORKTREE_MISSING:
                raise
            return None
        if isinstance(attempt, HostIntervention):
            return attempt
        self._discarded[site.id] = await self.discard(attempt)
        return None

    def after(self, opened: Open) -> tuple[ObjectId, EnvironmentChanged | None]:
        """Where the worktree is after ``opened`` was given up, and what custody holds against the attempt."""
        verdict = self._discarded.get(opened.step.site)
        if verdict is None:
            return self.current(), None
        return verdict.savepoint.commit, verdict if isinstance(verdict, EnvironmentChanged) else None
