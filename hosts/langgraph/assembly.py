"""One drive, put together: who writes, who decides, who acts."""

import contextvars
from dataclasses import dataclass
from pathlib import Path

from hosts.langgraph.approvals import Approvals
from hosts.langgraph.attempts import Attempts
from hosts.langgraph.commands import Commands
from hosts.langgraph.conclusions import Conclusions
from hosts.langgraph.course import Course
from hosts.langgraph.drive import Drive, Graph
from hosts.langgraph.ending import Ending
from hosts.langgraph.handlers import Handlers
from hosts.langgraph.journal import Journal
from hosts.langgraph.parking import Parking
from hosts.langgraph.pump import Pump
from hosts.langgraph.readiness import Topology
from hosts.langgraph.resolution import Resolver
from hosts.langgraph.state import Position
from hosts.langgraph.waits import Bell
from hosts.langgraph.winding import Asked, Winding
from runner.contract.config import Isolation
from runner.contract.ports import ActionInvocation, Case, Clock, LedgerWriter, Operations, Workspaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """What a host is given."""

    case: Case
    writer: LedgerWriter
    workspaces: Workspaces
    invocation: ActionInvocation
    operations: Operations
    clock: Clock
    isolation: Isolation
    steps_max: int
    checkpoint_every: int


def assemble(given: Neighbours, topology: Topology, position: Position, graph: Graph, asked: Asked) -> Drive:
    """A drive from ``position``. Called outside any node, with tracing off: steps inherit neither LangGraph's variables nor a
    tracer."""
    case, reader, artifacts = given.case, given.case.ledger, given.case.ledger.artifacts
    journal = Journal(topology=topology, position=position, reader=reader, writer=given.writer)
    winding = Winding(asked, journal)
    resolver = Resolver(
        plan=case.plan,
        reader=reader,
        artifacts=artifacts,
        worktree=Path(case.activation.workspace.worktree),
        isolation=given.isolation,
    )
    attempts = Attempts(workspaces=given.workspaces, journal=journal, keep=winding.keeps_attempts)
    course = Course(
        reader=reader,
        artifacts=artifacts,
        position=position,
        journal=journal,
        attempts=attempts,
        resolver=resolver,
        conclusions=Conclusions(journal=journal, attempts=attempts, artifacts=artifacts),
    )
    parking, bell, pump = Parking(topology), Bell(), Pump(contextvars.copy_context())
    approvals = Approvals(
        course,
        delivery=case.plan.delivery,
        bridge=case.waits,
        clock=given.clock,
        parking=parking,
        asked=asked.inquired,
        bell=bell,
        news=pump.news,
    )
    commands = Commands(course, given.operations)
    handlers = Handlers(course, invocation=given.invocation, commands=commands, approvals=approvals)
    ending = Ending(
        plan=case.plan,
        topology=topology,
        position=position,
        journal=journal,
        attempts=attempts,
        resolver=resolver,
        reader=reader,
        writer=given.writer,
        artifacts=artifacts,
    )
    return Drive(
        plan=case.plan,
        topology=topology,
        position=position,
        journal=journal,
        handlers=handlers,
        ending=ending,
        parking=parking,
        bell=bell,
        pump=pump,
        clock=given.clock,
        reader=reader,
        graph=graph,
        winding=winding,
        steps_max=given.steps_max,
        checkpoint_every=given.checkpoint_every,
    )
