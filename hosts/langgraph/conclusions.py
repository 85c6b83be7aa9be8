"""How steps get their ends: a value, a verdict, or that an expression had none. Nothing is decided here."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from hosts.langgraph.attempts import Attempt, Attempts
from hosts.langgraph.journal import Journal, Open
from hosts.langgraph.pump import through
from hosts.langgraph.results import environment_changed, failed, scope_violated
from runner.contract import plan as words
from runner.contract.canonical import FrozenJson, digest
from runner.contract.events import ValueRef
from runner.contract.ids import ObjectId
from runner.contract.plan import Site
from runner.contract.ports import Accepted, Artifacts, EnvironmentChanged, Verdict, Violation


class Conclusions:
    """Records the ends of one drive's steps."""

    def __init__(self, *, journal: Journal, attempts: Attempts, artifacts: Artifacts) -> None:
        self._journal: Final = journal
        self._attempts: Final = attempts
        self._artifacts: Final = artifacts

    async def put(self, value: FrozenJson) -> ValueRef:
        """``value`` by reference, off the event loop: a large one is synced to disk."""
        return await through(asyncio.to_thread(self._artifacts.put, value))

    async def complete(self, opened: Open, value: FrozenJson, outcome: str | None, savepoint: ObjectId) -> None:
        """The step ends with ``value``, its outcome the value of the property ``outcome`` where there is one."""
        output = await self.put(value)
        chosen = chosen_by(value, outcome)
        if chosen is None:
            event = failed("outcome-missing", f"the result's {outcome!r} names no outcome", savepoint, output=output)
            self._journal.fail(opened, event)
        else:
            self._journal.complete(opened, chosen, output, savepoint)

    def unresolved(self, opened: Open, error: ValueError) -> None:
        """An expression of a step that uses no worktree has no value."""
        savepoint = self._attempts.current()
        starts = self._journal.starts(opened, savepoint, _unresolved(error))
        self._journal.fail(opened, failed("expression-failed", str(error), savepoint), starts)

    async def unresolved_attempt(self, opened: Open, attempt: Attempt, error: ValueError) -> None:
        """The same for one that has begun its attempt there."""
        self._journal.start(opened, attempt.grant.savepoint, _unresolved(error))
        verdict = await self._attempts.discard(attempt)
        if isinstance(verdict, EnvironmentChanged):
            self._journal.fail(opened, environment_changed(verdict))
        else:
            self._journal.fail(opened, failed("expression-failed", str(error), verdict.savepoint.commit))

    def refused(
        self, opened: Open, site: Site, attempt: Attempt, verdict: Verdict, output: ValueRef | None = None
    ) -> bool:
        """Records a verdict that fails the step; False when there is nothing against it."""
        match verdict:
            case Violation():
                self._journal.fail(opened, scope_violated(verdict, output))
            case EnvironmentChanged():
                self._journal.fail(opened, environment_changed(verdict, output))
            case Accepted(savepoint=savepoint):
                if not site.expect_changes or attempt.changed(savepoint):
                    return False
                message = "the step was expected to change files and changed none"
                self._journal.fail(opened, failed("no-changes", message, savepoint.commit, output=output))
        return True


def chosen_by(value: FrozenJson, outcome: str | None) -> str | None:
    """The outcome that ``value`` names, ``success`` where it need not name one; None when it names none."""
    if outcome is None:
        return words.SUCCESS
    chosen: Any = value.get(outcome) if isinstance(value, Mapping) else None
    return chosen if isinstance(chosen, str) else None


def _unresolved(error: ValueError) -> Any:
    return digest({"unresolved": str(error)})
