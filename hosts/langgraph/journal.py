"""The host's pen: step entries in their lawful order, and the position that follows from them.

Owned invariants
- An end is appended (one durable transaction with everything that belongs to it) and folded into the position without an
  await in between, on the event loop's thread: the position is never ahead of the ledger, nor behind it.
- A step ends once. A closing that becomes possible by an end is recorded right behind it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hosts.langgraph.readiness import (
    Delta,
    Readiness,
    Topology,
    advance,
    end_of,
    exhausted,
    final,
    judge,
    to_supersede,
)
from hosts.langgraph.state import Position
from runner.contract import plan as words
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import (
    STEP_ENDS,
    ArtifactStored,
    DecisionTaken,
    Event,
    OutputValidated,
    StepAttemptStarted,
    StepCompleted,
    StepFailed,
    StepScheduled,
    StepSkipped,
    StepSuperseded,
    ValueRef,
)
from runner.contract.ids import Digest, ObjectId, SiteId, StepRef
from runner.contract.ports import LedgerReader, LedgerWriter
from runner.contract.records import Draft, Record

ATTEMPT: Final = 1
"""The host never retries: a call's tries are invocation's, and an interrupted attempt goes on under its number."""


@dataclass(slots=True, kw_only=True)
class Open:
    """A step that may have effects and has no end yet."""

    step: StepRef
    recorded: bool
    """Whether its start is in the ledger or staged for it."""
    opened_at: ObjectId | None
    """The recorded savepoint of an attempt that goes on."""
    resumed: bool
    input: Digest | None = None
    """The recorded digest of what an attempt that goes on was begun with."""
    started: int | None = None
    """The ledger sequence of its start."""


class Journal:
    """Steps of one drive."""

    def __init__(self, *, topology: Topology, position: Position, reader: LedgerReader, writer: LedgerWriter) -> None:
        self._topology: Final = topology
        self._position: Final = position
        self._reader: Final = reader
        self._writer: Final = writer
        self.open: Final[dict[SiteId, Open]] = {}

    # --- recovery ----------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Folds what the ledger has beyond the checkpoint, and finds the steps that were left open. Costs what is beyond
        and what is open. What an earlier drive of this process staged and never recorded is recorded first."""
        self._writer.append()
        for record in self._reader.read(after=self._position.now.sq, kinds=STEP_ENDS):
            self._fold(record)
        for step in self._reader.open_steps():
            if step != self._position.now.step(step.site) or self._position.now.settled(step.site):
                raise IntegrityError(
                    Code.LEDGER_CORRUPT,
                    f"the ledger has step {step} open, but the graph is at {self._position.now.step(step.site)}",
                    remedy="the ledger does not belong to this plan; keep both and ask whoever changed them",
                )
            opened = self.open[step.site] = Open(step=step, recorded=False, opened_at=None, resumed=True)
            self.go_on(opened)

    def go_on(self, opened: Open) -> None:
        """Makes ``opened`` the attempt that the ledger has open, for a step that parked or that an earlier process began."""
        started = self._reader.last(frozenset({StepAttemptStarted.KIND}), opened.step)
        opened.resumed = True
        if started is not None and isinstance(started.event, StepAttemptStarted):
            opened.recorded, opened.started = True, started.seq
            opened.opened_at, opened.input = ObjectId(started.event.savepoint), Digest(started.event.input)

    def close_out(self) -> None:
        """Records as superseded what a closing left unfinished, once nothing of it is in flight; an open question is not
        waited for. Repeats while closings follow from closings."""
        while sites := to_supersede(self._topology, self._position.now, self._in_flight()):
            now = self._position.now
            drafts = []
            for site in sites:
                attempt = ATTEMPT if self.open.pop(site, None) else None
                reason = "a loop went back before it was answered" if attempt else "a loop went back before it ran"
                drafts.append(Draft(event=StepSuperseded(reason=reason), step=now.step(site), attempt=attempt))
            self._append(drafts)

    def _in_flight(self) -> frozenset[SiteId]:
        """Open steps but for questions."""
        return frozenset(site for site in self.open if self._topology.sites[site].action.kind != "approval")

    # --- starts ------------------------------------------------------------------------------------------------------

    def admit(self, step: StepRef) -> Open | None:
        """Takes ``step`` as in flight; None when it may not start any more, since it waited for its turn meanwhile and a
        loop may have gone over it. An open attempt goes on even then, as it would have without the crash."""
        site = step.site
        if site in self.open:
            return self.open[site]
        now = self._position.now
        if now.step(site) != step or judge(self._topology, now, site) is not Readiness.READY:
            return None
        if self._reader.last(STEP_ENDS, step) is not None:
            raise IntegrityError(
                Code.WORKFLOW_STUCK,
                f"step {step} has an end in the ledger that the graph does not know",
                remedy="this is a defect of the Runner: report it with this message",
            )
        opened = Open(step=step, recorded=False, opened_at=None, resumed=False)
        self.open[site] = opened
        return opened

    def holds(self, opened: Open) -> bool:
        """Whether ``opened`` is in flight still; no more once it has its end, by whomever."""
        return self.open.get(opened.step.site) is opened

    def withdraw(self, opened: Open) -> None:
        """Undoes ``admit`` for a step of which nothing was recorded."""
        if not opened.recorded:
            self.open.pop(opened.step.site, None)

    def starts(self, opened: Open, savepoint: ObjectId, digest: Digest) -> tuple[Draft, ...]:
        """The drafts of the step's start; empty for an attempt that goes on. ``IntegrityError`` when that one was begun with
        something else than what ``digest`` stands for."""
        if opened.recorded:
            if opened.input not in (None, digest):
                raise IntegrityError(
                    Code.LEDGER_CORRUPT,
                    f"{opened.step} was begun with {opened.input}, and would go on with {digest}",
                    remedy="its inputs are frozen, so this is a defect of the Runner or a changed record: report it",
                )
            return ()
        started = StepAttemptStarted(savepoint=savepoint, input=digest)
        scheduled = () if opened.resumed else (Draft(event=StepScheduled(), step=opened.step),)
        return (*scheduled, Draft(event=started, step=opened.step, attempt=ATTEMPT))

    def start(self, opened: Open, savepoint: ObjectId, digest: Digest) -> None:
        """Stages the start: durable with the first effect's intent, or with the end."""
        self._writer.stage(*self.starts(opened, savepoint, digest))
        opened.recorded = True

    def note(self, opened: Open, *drafts: Draft) -> Record:
        """Records something of the step that is not its end; ``drafts`` hold its start unless it has been recorded. The last
        record."""
        records = self._writer.append(*drafts)
        opened.recorded = True
        return records[-1]

    # --- ends --------------------------------------------------------------------------------------------------------

    def complete(
        self, opened: Open, outcome: str, output: ValueRef | None, savepoint: ObjectId, before: Iterable[Draft] = ()
    ) -> None:
        """The step succeeded in ``outcome``; where that leads back once too often it ends ``budget-exhausted``."""
        drafts = [*before, *stored(opened.step, output)]
        broken = self._exhausted(opened.step.site, outcome, failed=False, retriable=False)
        if broken is not None:
            self._end(opened, self._over_budget(broken, output, savepoint), drafts)
            return
        taken = self._decision(opened.step.site, outcome)
        decided = [Draft(event=taken, step=opened.step, attempt=ATTEMPT)] if taken else []
        self._end(opened, StepCompleted(outcome=outcome, output=output, savepoint=savepoint), [*drafts, *decided])

    def fail(self, opened: Open, event: StepFailed, before: Iterable[Draft] = ()) -> None:
        """The step failed; a back route that is over budget is not taken."""
        drafts = [*before, *stored(opened.step, event.output, validated=False)]
        broken = self._exhausted(opened.step.site, event.outcome, failed=True, retriable=event.retriable)
        if broken is not None:
            event = self._over_budget(broken, event.output, ObjectId(event.savepoint))
        self._end(opened, event, drafts)

    def skip(self, site: SiteId, event: StepSkipped) -> None:
        """The step does not run at this visit."""
        self._append([Draft(event=event, step=self._position.now.step(site))])

    def end_all(self, ends: Iterable[tuple[Open, Event]]) -> None:
        """Ends open steps together, in one transaction: when the Delivery is cancelled or at its end."""
        drafts = []
        for opened, event in ends:
            attempt = ATTEMPT if opened.recorded else None
            scheduled = not opened.recorded and not opened.resumed
            drafts += [Draft(event=StepScheduled(), step=opened.step)] if scheduled else []
            drafts.append(Draft(event=event, step=opened.step, attempt=attempt))
            self.open.pop(opened.step.site, None)
        if drafts:
            self._append(drafts)

    def _end(self, opened: Open, event: StepCompleted | StepFailed, before: Iterable[Draft]) -> None:
        drafts = [*before, Draft(event=event, step=opened.step, attempt=ATTEMPT)]
        self._append(drafts, ended=opened.step.site)
        self.close_out()

    def _append(self, drafts: list[Draft], *, ended: SiteId | None = None) -> None:
        records = self._writer.append(*drafts)
        if ended is not None:
            self.open.pop(ended, None)
        for record in records:
            if record.event.KIND in STEP_ENDS:
                self._fold(record)

    def _fold(self, record: Record) -> None:
        self._position.apply(self._advance(record))

    def _advance(self, record: Record) -> Delta:
        return advance(self._topology, self._position.now, end_of(record))

    def _exhausted(self, site: SiteId, outcome: str, *, failed: bool, retriable: bool) -> SiteId | None:
        route = self._topology.route(site, outcome, failed=failed, retriable=retriable)
        return exhausted(self._topology, self._position.now, site, route, frozenset(self.open))

    def _over_budget(self, broken: SiteId, output: ValueRef | None, savepoint: ObjectId) -> StepFailed:
        budget = self._topology.sites[broken].budget_visits
        return StepFailed(
            outcome=words.BUDGET_EXHAUSTED,
            code=words.BUDGET_EXHAUSTED,
            message=f"going back would open {broken} again, and its budget of visits, {budget}, is spent",
            retriable=False,
            output=output,
            savepoint=savepoint,
        )

    def _decision(self, site: SiteId, outcome: str) -> DecisionTaken | None:
        if self._topology.sites[site].action.kind != "decision":
            return None
        route = self._topology.route(site, outcome, failed=False, retriable=False)
        return DecisionTaken(case=outcome, target=route.target if route else "")

    def finished(self) -> SiteId | None:
        """The step that ends the Delivery, if one does."""
        return final(self._position.now)


def stored(step: StepRef | None, output: ValueRef | None, *, validated: bool = True) -> list[Draft]:
    """The entries that stand before an end which names ``output``."""
    if output is None:
        return []
    drafts = [Draft(event=ArtifactStored(digest=output.digest, bytes=output.bytes), step=step)] if output.stored else []
    return [*drafts, Draft(event=OutputValidated(digest=output.digest), step=step)] if validated else drafts
