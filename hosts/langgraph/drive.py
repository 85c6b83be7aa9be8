"""One drive of the graph: from where ledger and checkpoint are, to the next stable boundary.

Order of things. The checkpoint's state is read and the ledger beyond it folded in, so the position is exact before a node is
entered. Interrupted attempts go on first. Then LangGraph enters nodes, each of which asks ``enter``; steps run as tasks of
the pump. Nothing ever raises through LangGraph, and it is never cancelled: whatever ends the drive is a flag that every node
obeys, so supersteps end by themselves and the tasks are then dealt with here.
"""

import asyncio
import contextvars
from typing import Any, Final

from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command

from hosts.langgraph.ending import Ending
from hosts.langgraph.handlers import Handlers, Report
from hosts.langgraph.journal import Journal
from hosts.langgraph.lowering import thread
from hosts.langgraph.pump import Pump
from hosts.langgraph.readiness import SKIPS, Readiness, Topology, judge, startable, unfinished
from hosts.langgraph.state import Position
from hosts.langgraph.winding import Winding
from runner.contract import limits
from runner.contract.activation import DecisionAction
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepSkipped
from runner.contract.ids import SiteId, StepRef
from runner.contract.plan import Plan, Site
from runner.contract.ports import Boundary, HostIntervention, HostStopped, HostSuspended

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
        graph: Graph,
        winding: Winding,
        steps_max: int,
        checkpoint_every: int = limits.CHECKPOINT_EVERY_SUPERSTEPS,
    ) -> None:
        self._plan: Final = plan
        self._topology: Final = topology
        self._position: Final = position
        self._journal: Final = journal
        self._handlers: Final = handlers
        self._ending: Final = ending
        self._graph: Final = graph
        self._winding: Final = winding
        self._checkpoint_every: Final = checkpoint_every
        # Copied outside any node, with tracing off: steps inherit neither LangGraph's variables nor a tracer.
        self._pump: Final = Pump(contextvars.copy_context())
        self._gate: Final = asyncio.Lock()
        self._slots: Final = asyncio.Semaphore(steps_max)
        self._gate_shut = False
        self._parked: Final[dict[SiteId, HostSuspended]] = {}
        self._steps: Final[dict[SiteId, StepRef]] = {}
        """The step that each task was started for."""
        self._segment = -1

    def wake(self) -> None:
        """Something was asked: nodes and waits look again."""
        self._pump.news()

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
        return min(self._parked.values(), key=lambda parked: parked.resume_in_s or 0.0)

    # --- LangGraph ---------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Starts what was interrupted, before anything else: at most one such attempt holds the worktree, and it must be
        the first at the gate (tasks start in the order of their creation)."""
        for opened in tuple(self._journal.open.values()):
            self._start(self._topology.sites[opened.step.site])

    async def _until_quiet(self) -> None:
        """Enters the graph until nothing can move: all finished, winding down, or only parked steps left."""
        entered_at = -1
        while not self._winding.on:
            now = self._position.now
            goto = [s for s in startable(self._topology, now) if s not in self._parked]
            goto = list(dict.fromkeys((*self._pump.running, *goto)))
            if not goto or (now.sq == entered_at and not self._pump.running):
                break
            entered_at = now.sq
            update, _ = self._position.flush()
            await self._enter_graph(Command(update=update, goto=goto))
        left = unfinished(self._topology, self._position.now)
        if left and not self._winding.on and not self._parked:
            raise IntegrityError(
                Code.WORKFLOW_STUCK,
                f"no step can run, and these have not ended: {', '.join(left[:20])}",
                remedy="this is a defect of the Runner: report it with this message and the activation",
            )

    async def _enter_graph(self, first: Command[Any]) -> None:
        entry: Command[Any] | None = first
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
        if control is not None and superstep - self._segment >= self._checkpoint_every:
            control.request_drain("checkpoint")
        again = False
        try:
            if site not in self._pump.running and not self._winding.on:
                self._judge(self._topology.sites[site])
            if site in self._pump.running and not self._winding.on:
                again = not await self._pump.wait(site, superstep) or self._take(site)
        except Exception as error:
            self._winding.fail(error)
            self._pump.news()
        return self._answer(site, again=again and not self._winding.on)

    def _answer(self, site: SiteId, *, again: bool) -> Command[Any] | None:
        update, woken = self._position.flush()
        if woken:
            self._pump.news()
        goto = [*woken, site] if again and site not in woken else list(woken)
        return Command(update=update, goto=goto) if update or goto else None

    # --- steps -------------------------------------------------------------------------------------------------------

    def _judge(self, site: Site) -> None:
        readiness = judge(self._topology, self._position.now, site.id)
        if readiness in SKIPS:
            self._journal.skip(site.id, StepSkipped(reason=SKIPS[readiness]))
        elif readiness is Readiness.READY and site.id not in self._parked:
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

    async def _step(self, site: Site, step: StepRef) -> None:
        """The task of one step: its turn at the worktree, a slot, then its handler."""
        if not site.uses_workspace:
            await self._in_slot(site, step)
            return
        async with self._gate:
            await self._in_slot(site, step)

    async def _in_slot(self, site: Site, step: StepRef) -> None:
        async with self._slots:
            if self._winding.on or (site.uses_workspace and self._gate_shut):
                return
            opened = self._journal.admit(step)
            if opened is None:
                return
            report = await self._handlers.perform(opened, site)
            self._report(site, report)

    def _report(self, site: Site, report: Report) -> None:
        match report:
            case HostSuspended():
                self._parked[site.id] = report
                # Another step's savepoint would come between this open attempt and the one it returns to.
                self._gate_shut = self._gate_shut or site.uses_workspace
            case HostIntervention():
                self._winding.intervention = self._winding.intervention or report
            case None:
                pass
