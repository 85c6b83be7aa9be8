"""One Delivery under its fence: accept it, drive its host to the next boundary, mind its inbox meanwhile, close it."""

import asyncio
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from runner.contract import limits
from runner.contract.activation import Activation
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.events import DeliveryAccepted, InterventionNeeded
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import (
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Suspended,
    UncertainEffect,
)
from runner.contract.plan import Plan
from runner.contract.ports import (
    Assembly,
    Boundary,
    Bridge,
    Case,
    Clock,
    HostIntervention,
    HostStopped,
    HostSuspended,
    Rooms,
    TerminalProposal,
    WorkflowHost,
)
from runner.contract.records import Record
from runner.contract.text import excerpt
from runner.coordinator import children, lease
from runner.coordinator.closing import Closing
from runner.coordinator.correlation import check_activation, check_meaning
from runner.coordinator.joining import ended, in_thread
from runner.coordinator.journal import Journal, accepted_in, only_ends, remaining_in, settled_in, terminal_facts
from runner.coordinator.observation import Observation
from runner.coordinator.origin import take_over
from runner.coordinator.recovery import EFFECT_UNKNOWN, describe, uncertain
from runner.coordinator.settlement import DETAIL_CHARS_MAX, decide, winding_reason
from runner.coordinator.suspending import as_event, still_suspended, suspended_at
from runner.coordinator.taking import Inbox
from runner.ledger import create_or_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is the same for every Delivery of one coordinator."""

    state_root: Path
    assembly: Assembly
    clock: Clock
    observation: Observation
    meaning: FrozenJson
    meaning_digest: str
    runner_version: str
    waits: Bridge
    interactions: Bridge


class StopSwitch:
    """Asks one execute to stop at its next boundary, before or after its host exists. Thread- and signal-safe."""

    def __init__(self) -> None:
        self.pulled = False
        self._host: WorkflowHost | None = None

    def pull(self) -> None:
        self.pulled = True
        if self._host is not None:
            self._host.stop()

    def attach(self, host: WorkflowHost) -> None:
        # First the host, then the question: a pull at any moment is seen by one of the two.
        self._host = host
        if self.pulled:
            host.stop()


async def drive_to_boundary(
    *, setting: Setting, activation: Activation, plan: Plan, layout: DeliveryLayout, stop: StopSwitch, early: bool
) -> ExecuteResult:
    """Accepts or continues the Delivery, whose fence the caller holds; before the time that its suspension names only if
    ``early``. The ledger is closed on every way out."""
    ledger = await in_thread(create_or_open, layout, clock=setting.clock)
    try:
        ledger.subscribe(setting.observation.record)
        case = Case(
            activation=activation,
            plan=plan,
            layout=layout,
            ledger=ledger,
            progress=setting.observation,
            waits=setting.waits,
            interactions=setting.interactions,
        )
        return await _Drive(setting, case, stop, early).run()
    finally:
        await in_thread(ledger.close)


class _Drive:
    def __init__(self, setting: Setting, case: Case, stop: StopSwitch, early: bool) -> None:
        self._setting = setting
        self._case = case
        self._activation = case.activation
        self._plan = case.plan
        self._ledger = case.ledger
        self._stop = stop
        self._early = early
        self._journal = Journal(case.ledger)

    async def run(self) -> ExecuteResult:
        accepted = await in_thread(self._accept)
        if isinstance(accepted, Settled):
            return accepted
        if accepted is None:
            return await self._begin()
        facts = await in_thread(terminal_facts, self._ledger)
        if facts.proposed is not None and not facts.rooms_needed:
            return await self._close(None)
        left = await in_thread(remaining_in, self._ledger)
        await in_thread(children.end_left_over, left.processes)
        inbox = await in_thread(self._inbox, accepted)
        if facts.proposed is None:
            await inbox.take()
            blocked = await in_thread(self._screen, inbox)
            if blocked is not None:
                return blocked
        async with self._setting.assembly.rooms(self._case) as rooms:
            if facts.proposed is None:
                stopped = await self._to_boundary(rooms, inbox)
                if stopped is not None:
                    return stopped
            return await self._close(rooms)

    async def _begin(self) -> ExecuteResult:
        """A Delivery that was not accepted yet: it is together with its first savepoint, so that nothing is recorded of one
        whose worktree is not what was admitted."""
        async with self._setting.assembly.rooms(self._case) as rooms:
            if self._stop.pulled:
                return self._interrupted()
            accepted = await in_thread(self._first, rooms)
            inbox = await in_thread(self._inbox, accepted)
            await inbox.take()
            return await self._to_boundary(rooms, inbox) or await self._close(rooms)

    def _first(self, rooms: Rooms) -> Record:
        """Acceptance and baseline, one transaction. When the worktree is refused the lease goes back, so that it is not kept
        from others by a Delivery that cannot begin."""
        try:
            taken_over = take_over(
                state_root=self._setting.state_root,
                activation=self._activation,
                plan=self._plan,
                layout=self._case.layout,
                ledger=self._ledger,
                assembly=self._setting.assembly,
            )
            self._journal.stage(self._acceptance())
            self._journal.stage_all(taken_over)
            rooms.custody.baseline()
            accepted = accepted_in(self._ledger)
        except BaseException:
            if accepted_in(self._ledger) is None:
                lease.release(self._setting.state_root, self._plan.delivery)
            raise
        if accepted is None:
            raise IntegrityError(
                Code.LEDGER_ORDER,
                f"{self._plan.delivery}: its baseline left no fact in the ledger",
                remedy="this is a defect of the Runner: report it with this message",
            )
        return accepted[1]

    def _accept(self) -> Record | Settled | None:
        """Correlates again, now that nobody else can write, and leases the worktree; None for a Delivery that is new."""
        found = accepted_in(self._ledger)
        if found is not None:
            check_activation(found[0], self._plan)
            settlement = settled_in(self._ledger)
            if settlement is not None:
                return Settled(settlement=settlement)
            check_meaning(found[0], self._plan, self._setting.meaning, self._setting.meaning_digest)
        if terminal_facts(self._ledger).worktree_needed:
            self._lease()
        return found[1] if found else None

    def _lease(self) -> None:
        """A worktree that is gone stops only what still needs one."""
        try:
            lease.take(self._setting.state_root, self._plan.delivery, Path(self._activation.workspace.worktree))
        except EnvironmentFault as fault:
            if fault.code is not Code.WORKTREE_MISSING or not only_ends(self._ledger, self._ledger.inbox()):
                raise

    def _inbox(self, accepted: Record) -> Inbox:
        timeout_s = self._activation.limits.delivery_timeout_s
        deadline = None
        if timeout_s is not None:
            deadline = dt.datetime.fromisoformat(accepted.at) + dt.timedelta(seconds=timeout_s)
        return Inbox(journal=self._journal, clock=self._setting.clock, deadline=deadline)

    def _acceptance(self) -> DeliveryAccepted:
        return DeliveryAccepted(
            activation=self._plan.activation,
            plan=self._plan.digest,
            meaning=self._setting.meaning_digest,
            meaning_text=self._setting.meaning,
            runner_version=self._setting.runner_version,
            document=self._ledger.artifacts.put(self._activation.to_json()),
        )

    def _screen(self, inbox: Inbox) -> NeedsIntervention | Suspended | None:
        """Before anything is driven: effects that a driver before this one began and whose end nobody saw. A cancel does
        not make them known either, so it waits for the same answer. Then a suspension whose time has not come, unless
        there is a question that a bridge could answer."""
        left = inbox.left
        effects = uncertain(left.asked)
        if effects:
            return self._ask(EFFECT_UNKNOWN, describe(effects), effects)
        if self._early or left.waits:
            return None
        return still_suspended(self._plan.delivery, self._ledger, self._setting.clock.now())

    def _ask(self, reason: str, detail: str, effects: tuple[UncertainEffect, ...]) -> NeedsIntervention:
        detail = excerpt(detail, DETAIL_CHARS_MAX)
        self._journal.ask_once(InterventionNeeded(reason=reason, detail=detail))
        return NeedsIntervention(delivery=self._plan.delivery, reason=reason, detail=detail, effects=effects)

    async def _to_boundary(self, rooms: Rooms, inbox: Inbox) -> ExecuteResult | None:
        """Drives to the next boundary; None when that was the end, whose terminal is then recorded."""
        if self._stop.pulled:
            return self._interrupted()
        boundary = await self._rest(rooms.host, inbox)
        match boundary:
            case TerminalProposal():
                await self._propose(rooms, boundary, inbox)
                return None
            case HostSuspended():
                return await in_thread(self._suspended, boundary)
            case HostIntervention(reason=reason, detail=detail, step=step):
                left = await in_thread(remaining_in, self._ledger)
                return await in_thread(self._ask, reason, f"{step}: {detail}", uncertain(left.asked))
            case HostStopped():
                return self._interrupted()
            case _:
                assert_never(boundary)

    async def _rest(self, host: WorkflowHost, inbox: Inbox) -> Boundary:
        """The boundary at which the host stays. What was recorded while it came to rest may let it go on, so it is driven
        again: nobody is told that it waits for an answer that is there, or that it is suspended when it was cancelled."""
        while True:
            before = inbox.recorded
            boundary = await self._drive(host, inbox)
            if not isinstance(boundary, HostSuspended | HostIntervention):
                return boundary
            await inbox.take()
            if inbox.recorded == before:
                return boundary

    async def _drive(self, host: WorkflowHost, inbox: Inbox) -> Boundary:
        """The host and the inbox side by side. Both have ended when this returns or raises."""
        if inbox.wind is not None:
            host.cancel(winding_reason(inbox.wind))
        self._stop.attach(host)
        work = asyncio.create_task(host.drive())
        watch = asyncio.create_task(self._watch(host, inbox))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and watch.exception() is None:
                await asyncio.wait({work})
        finally:
            await _both_ended(work, watch)
        if watch.done() and not watch.cancelled():
            watch.result()  # When the inbox cannot be read, nobody could cancel any more: the drive has been ended.
        return work.result()

    async def _watch(self, host: WorkflowHost, inbox: Inbox) -> None:
        """Until everything winds up; then nothing in the inbox matters any more."""
        while not await self._tell(host, inbox):
            await self._setting.clock.sleep(limits.INBOX_POLL_S)

    async def _tell(self, host: WorkflowHost, inbox: Inbox) -> bool:
        """Takes what is in the inbox, tells the host of what was recorded; whether everything winds up."""
        for wait in await inbox.take():
            host.answered(wait)
        if inbox.wind is None:
            return False
        host.cancel(winding_reason(inbox.wind))
        return True

    async def _propose(self, rooms: Rooms, proposal: TerminalProposal, inbox: Inbox) -> None:
        await inbox.take()
        completing = proposal.outcome is Outcome.COMPLETED and inbox.wind is None
        findings = await rooms.invocation.conclude() if completing else ()
        await in_thread(self._journal.record, decide(proposal, inbox.wind, findings))

    async def _close(self, rooms: Rooms | None) -> Settled:
        closing = Closing(state_root=self._setting.state_root, plan=self._plan, journal=self._journal, rooms=rooms)
        return Settled(settlement=await closing.settle())

    def _suspended(self, boundary: HostSuspended) -> Suspended:
        found = suspended_at(boundary, self._plan.delivery, self._setting.clock.now())
        self._journal.suspend(as_event(found))
        return found

    def _interrupted(self) -> Interrupted:
        detail = "stopped at a step boundary as asked; execute the same activation to go on"
        return Interrupted(delivery=self._plan.delivery, detail=detail)


async def _both_ended(work: asyncio.Task[Any], watch: asyncio.Task[Any]) -> None:
    try:
        await ended(watch)
    finally:
        await ended(work)
