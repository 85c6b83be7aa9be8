"""The command step: one supervised process, or what is known of one that a crash interrupted.

Interrupted, a command that has effects outside the worktree is never run again unless a person said that it did not happen.
Everything else goes back to its savepoint and runs again.
"""

from collections.abc import Mapping
from typing import Final

from hosts.langgraph.course import Course
from hosts.langgraph.journal import Open
from hosts.langgraph.resolution import Unresolved, request_digest
from hosts.langgraph.results import command_failure, output_of, result_from, uncertain
from runner.contract import plan as words
from runner.contract.activation import CommandAction
from runner.contract.canonical import FrozenJson
from runner.contract.errors import IntegrityError
from runner.contract.events import Event, InterventionResolved, ToolCalled, ToolFailed, ToolSucceeded
from runner.contract.plan import Site
from runner.contract.ports import (
    Accepted,
    CommandResult,
    HostIntervention,
    Operations,
)

RESOLVED: Final = frozenset({InterventionResolved.KIND})
CALLED: Final = frozenset({ToolCalled.KIND})
RETURNED: Final = frozenset({ToolSucceeded.KIND, ToolFailed.KIND})


class Commands:
    """The command steps of one drive."""

    def __init__(self, course: Course, operations: Operations) -> None:
        self._operations: Final = operations
        self._course: Final = course
        self._reader: Final = course.reader
        self._artifacts: Final = course.artifacts
        self._journal: Final = course.journal
        self._attempts: Final = course.attempts
        self._conclusions: Final = course.conclusions

    async def perform(self, opened: Open, site: Site, action: CommandAction) -> HostIntervention | None:
        """Runs the process to its end and records the step's, or says why a person must decide."""
        known = self._known(opened, action)
        if isinstance(known, HostIntervention):
            return known
        attempt = await self._attempts.begin(opened, site, as_it_is=known is not None)
        if isinstance(attempt, HostIntervention):
            return attempt
        try:
            request = self._course.resolver.command(self._course.seen(opened), site, action, opened.step)
        except Unresolved as error:
            await self._conclusions.unresolved_attempt(opened, attempt, error)
            return None
        self._journal.start(opened, attempt.grant.savepoint, request_digest(request))
        result = known
        if result is None:
            result = await self._attempts.call(opened, attempt, lambda: self._operations.command(request))
        output = await self._conclusions.put(output_of(result))
        lost = result.end in ("timeout", "not-started")
        verdict = await (self._attempts.discard(attempt) if lost else self._attempts.settle(attempt))
        event = command_failure(result, action, request.timeout_s, verdict.savepoint.commit, output)
        if event is not None and isinstance(verdict, Accepted):
            self._journal.fail(opened, event)
        elif not self._conclusions.refused(opened, site, attempt, verdict, output):
            self._journal.complete(opened, words.SUCCESS, output, verdict.savepoint.commit)
        return None

    def _known(self, opened: Open, action: CommandAction) -> CommandResult | HostIntervention | None:
        """How an interrupted command ended, as the ledger or a person says; None to run it (again)."""
        if not opened.resumed or self._course.resolver.effect(action) != "external":
            return None
        called = self._reader.last(CALLED, opened.step)
        if called is None or not isinstance(called.event, ToolCalled):
            return None
        answer = self._reader.last(RETURNED, opened.step)
        if answer is not None and answer.seq > called.seq:
            return self._returned(answer.event)
        call = called.event.call
        said = self._resolution(call, after=called.seq)
        if said is not None and said.resolution == "did-not-happen":
            return None
        if said is not None and said.resolution == "happened":
            return self._told(opened, call, None if said.value is None else self._artifacts.get(said.value))
        why = "the command was interrupted and may have had effects outside the worktree"
        return uncertain(opened.step, call, why)

    def _returned(self, event: Event) -> CommandResult:
        """A recorded failure is a result too: it did not start."""
        if isinstance(event, ToolSucceeded):
            return result_from(self._artifacts.get(event.value))
        why = event.message if isinstance(event, ToolFailed) else ""
        return CommandResult(
            end="not-started", status=-1, stdout="", stderr="", truncated=False, duration_s=0.0, message=why
        )

    def _resolution(self, call: str, *, after: int) -> InterventionResolved | None:
        """What a person said last of this call since it was made."""
        last = None
        for record in self._reader.read(after=after, kinds=RESOLVED):
            if isinstance(record.event, InterventionResolved) and record.event.call == call:
                last = record.event
        return last

    def _told(self, opened: Open, call: str, value: FrozenJson) -> CommandResult | HostIntervention:
        try:
            return told(value)
        except IntegrityError:
            why = "what was said to have happened is no command's result: say an exit status, or the whole result"
            return uncertain(opened.step, call, why)


def told(value: FrozenJson) -> CommandResult:
    """A result as a person tells it: nothing (exit status 0), an exit status, or the whole result; ``IntegrityError`` for
    anything else."""
    match value:
        case None:
            status: FrozenJson = 0
        case int() if not isinstance(value, bool):
            status = value
        case Mapping():
            return result_from(value)
        case _:
            return result_from(None)
    return result_from({"end": "exit", "status": status, "stdout": "", "stderr": "", "truncated": False})
