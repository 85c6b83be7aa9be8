"""One drive of the graph: from where ledger and checkpoint are, to the next stable boundary.

Order of things. The checkpoint's state is read and the ledger beyond it folded in, so the position is exact before a node is
entered. Interrupted attempts go on first. Then LangGraph enters nodes, each of which asks ``enter``; steps run as tasks of
the pump. Nothing ever raises through LangGraph, and it is never cancelled: whatever ends the drive is a flag that every node
obeys, so supersteps end by themselves and the tasks are then dealt with here.
"""

import asyncio
from typing import Any, Final

from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt

from hosts.langgraph.ending import Ending
from hosts.langgraph.handlers import Handlers, Report
from hosts.langgraph.journal import Journal
from hosts.langgraph.lowering import thread
from hosts.langgraph.parking import Parking
from hosts.langgraph.pump import Pump
from hosts.langgraph.readiness import SKIPS, Readiness, Topology, judge, startable, unfinished
from hosts.langgraph.state import Position
from hosts.langgraph.waits import Bell, first_answer, seconds_left
from hosts.langgraph.winding import Winding
from runner.contract.activation import ApprovalAction, DecisionAction
from runner.contract.canonical import thaw
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepSkipped
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import OpenWait
from runner.contract.plan import Plan, Site
from runner.contract.ports import Boundary, Clock, HostIntervention, HostStopped, HostSuspended, LedgerReader

Graph = CompiledStateGraph[Any, Any, Any, Any]


class Drive:
    """See the module. Used once."""

    def __init__(
        self,
        *,
        plan: Plan,
        topology: Topology,
        position: Position,
        journal: Journal,
        handlers: Handlers,
        ending: Ending,
        parking: Parking,
        bell: Bell,
        pump: Pump,
        clock: Clock,
        reader: LedgerReader,
        graph: Graph,
        winding: Winding,
        steps_max: int,
        checkpoint_every: int,
    ) -> None:
        self._plan: Final = plan
        self._topology: Final = topology
        self._position: Final = position
        self._journal: Final = journal
        self._handlers: Final = handlers
        self._ending: Final = ending
        self._parking: Final = parking
        self._bell: Final = bell
        self._clock: Final = clock
        self._reader: Final = reader
        self._graph: Final = graph
        self._winding: Final = winding
        self._checkpoint_every: Final = checkpoint_every
        self._pump: Final = pump
        self._gate: Final = asyncio.Lock()
        self._slots: Final = asyncio.Semaphore(steps_max)
        self._steps: Final[dict[SiteId, StepRef]] = {}
        """The step that each task was started for."""
        self._segment = -1
        self._released: Final[list[SiteId]] = []
        """Sites that were started again, and whose nodes are to be gone to."""
        self._armed = False
        """Whether parked questions are to be shown by the thread."""

    def wake(self) -> None:
        """Something was asked: nodes and waits look again."""
        self._pump.news()
        self._bell.ring()

    # --- the boundary ------------------------------------------------------------------------------------------------

    async def run(self) -> Boundary:
        """Drives to the boundary. Whatever was started has ended when it returns or raises."""
        self._journal.catch_up()
        try:
            if not self._winding.on:
                self._journal.close_out()
                self._resume()
                await self._until_quiet()
        except Exception as error:
            self._winding.fail(error)
        self._winding.fail(await self._pump.drain(lambda site: self._winding.cuts(self._topology.sites[site])))
        if self._winding.fault is not None:
            raise self._winding.fault
        return await self._boundary()

    async def _boundary(self) -> Boundary:
        asked = self._winding.asked
        if asked.abort:
            return HostStopped()
        if asked.cancel is not None:
            return await self._ending.cancelled(asked.cancel)
        if self._winding.finished is not None:
            return await self._ending.finished()
        if self._winding.intervention is not None:
            return self._winding.intervention
        if not unfinished(self._topology, self._position.now):
            return await self._ending.nothing_left()
        if asked.stop:
            asked.stop = False
            return HostStopped()
        return self._parking.suspended(self._clock.now())

    # --- LangGraph ---------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Starts what was interrupted, before anything else: at most one such attempt holds the worktree, and it must be
        the first at the gate (tasks start in the order of their creation)."""
        for opened in tuple(self._journal.open.values()):
            self._start(self._topology.sites[opened.step.site])

    async def _until_quiet(self) -> None:
        """Enters the graph until nothing can move: all finished, winding down, or only parked steps left, whose questions
        the thread then shows."""
        entered_at, shown = -1, frozenset[str]()
        while not self._winding.on:
            self._release()
            now = self._position.now
            goto = [s for s in startable(self._topology, now) if s not in self._parking]
            goto = list(dict.fromkeys((*self._pump.running, *goto)))
            waits = self._parking.waits
            if goto and (now.sq != entered_at or self._pump.running):
                entered_at = now.sq
                await self._enter_graph(goto)
            elif waits and shown != (open_now := frozenset(wait.wait for wait in waits.values())):
                shown = open_now
                await self._enter_graph(list(waits), armed=True)
            else:
                break
        left = unfinished(self._topology, self._position.now)
        if left and not self._winding.on and not self._parking:
            raise IntegrityError(
                Code.WORKFLOW_STUCK,
                f"no step can run, and these have not ended: {', '.join(left[:20])}",
                remedy="this is a defect of the Runner: report it with this message and the activation",
            )

    def _release(self) -> None:
        """Starts parked steps whose question was answered or whose time is over. Costs nothing while nothing is parked."""
        if not self._parking:
            return
        self._parking.keep(self._journal.open)
        now, answered, self._winding.asked.answered = self._clock.now(), self._winding.asked.answered, False

        def due(wait: OpenWait) -> bool:
            return seconds_left(wait, now) == 0.0 or (answered and first_answer(self._reader, wait) is not None)

        for site in self._parking.release(due):
            self._start(self._topology.sites[site])
            self._released.append(site)

    async def _enter_graph(self, goto: list[SiteId], *, armed: bool = False) -> None:
        self._armed = armed
        update, _ = self._position.flush()
        entry: Command[Any] | None = Command(update=update, goto=goto)
        while True:
            control = RunControl()
            self._segment = -1
            stream = self._graph.astream(
                entry, thread(self._plan), stream_mode="updates", durability="exit", control=control
            )
            try:
                async for _ in stream:
                    pass
            except GraphDrained:
                entry = None
                continue
            return

    async def enter(self, site: SiteId, superstep: int, control: RunControl | None) -> Command[Any] | None:
        """See ``lowering.Driver``."""
        self._pump.enter(superstep)
        self._segment = superstep if self._segment < 0 else self._segment
        if self._armed and site in self._parking.waits:
            return self._show(site, superstep)
        if control is not None and superstep - self._segment >= self._checkpoint_every:
            control.request_drain("checkpoint")
        again = False
        try:
            if not self._winding.on:
                self._release()
            if site not in self._pump.running and not self._winding.on:
                self._judge(self._topology.sites[site])
            if site in self._pump.running and not self._winding.on:
                again = not await self._pump.wait(site, superstep) or self._take(site)
        except Exception as error:
            self._winding.fail(error)
            self._pump.news()
        return self._answer(site, again=again and not self._winding.on)

    def _show(self, site: SiteId, superstep: int) -> Command[Any]:
        """Interrupts, so that the thread shows the question of ``site``; a superstep later than asked, as LangGraph keeps
        interrupts only with a checkpoint that is newer than the one it began from."""
        if superstep > self._segment:
            interrupt(thaw(self._parking.waits[site].to_json()))
        return Command(goto=[site])

    def _answer(self, site: SiteId, *, again: bool) -> Command[Any] | None:
        update, woken = self._position.flush()
        if woken:
            self._pump.cancel(self._is_moot)
            self._pump.news()
        goto = list(dict.fromkeys((*woken, *self._released, *((site,) if again else ()))))
        self._released.clear()
        return Command(update=update, goto=goto) if update or goto else None

    # --- steps -------------------------------------------------------------------------------------------------------

    def _judge(self, site: Site) -> None:
        readiness = judge(self._topology, self._position.now, site.id)
        if readiness in SKIPS:
            self._journal.skip(site.id, StepSkipped(reason=SKIPS[readiness]))
        elif readiness is Readiness.READY and site.id not in self._parking:
            if self._handlers.settled_by_condition(site):
                return
            if isinstance(site.action, DecisionAction):
                self._handlers.decide(site, site.action)
            else:
                self._start(site)

    def _start(self, site: Site) -> None:
        step = self._steps[site.id] = self._position.now.step(site.id)
        self._pump.start(site.id, lambda: self._step(site, step))

    def _take(self, site: SiteId) -> bool:
        """Takes the finished task of ``site``; True when a loop went over it while it waited for its turn, so that the
        site must be judged again: whoever woke it for the new visit found it busy."""
        raised = self._pump.take(site)
        if raised is not None:
            self._winding.fail(raised)
            self._pump.news()
        now = self._position.now
        return self._steps.pop(site) != now.step(site) and not now.settled(site)

    def _is_moot(self, site: SiteId) -> bool:
        """Whether the task of ``site`` asks a question that a loop went over."""
        now, asks = self._position.now, self._topology.sites[site].action.kind == "approval"
        return asks and (self._steps.get(site) != now.step(site) or now.settled(site))

    async def _step(self, site: Site, step: StepRef) -> None:
        """The task of one step: its turn at the worktree, a slot, then its handler. A question takes no slot."""
        if isinstance(site.action, ApprovalAction):
            await self._perform(site, step)
            return
        if not site.uses_workspace:
            await self._in_slot(site, step)
            return
        async with self._gate:
            await self._in_slot(site, step)

    async def _in_slot(self, site: Site, step: StepRef) -> None:
        async with self._slots:
            if not (site.uses_workspace and self._parking.holds_worktree):
                await self._perform(site, step)

    async def _perform(self, site: Site, step: StepRef) -> None:
        opened = None if self._winding.on else self._journal.admit(step)
        if opened is not None:
            self._report(site, await self._handlers.perform(opened, site))

    def _report(self, site: Site, report: Report) -> None:
        match report:
            case HostSuspended():
                self._parking.park(site.id, report)
                # Whoever is being asked sleeps no longer than the nearest of all open questions lasts.
                self._bell.ring()
            case HostIntervention():
                self._winding.intervention = self._winding.intervention or report
            case None:
                pass
