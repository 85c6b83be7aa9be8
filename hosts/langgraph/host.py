"""The door: ``open_host`` gives a ``WorkflowHost`` over one Delivery's plan, ledger and checkpoints."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from langsmith import tracing_context

from hosts.langgraph.assembly import Neighbours, assemble
from hosts.langgraph.checkpoints import LEDGER_SEQ, CheckpointStore, LedgerSaver
from hosts.langgraph.drive import Drive, Graph
from hosts.langgraph.lowering import Wheel, lower, thread
from hosts.langgraph.readiness import Snapshot, Topology
from hosts.langgraph.state import Position, read_state
from hosts.langgraph.winding import Asked
from runner.contract import limits
from runner.contract.config import Isolation
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import OwnerRetired
from runner.contract.ids import Digest
from runner.contract.outcomes import Reason, Retirement
from runner.contract.ports import (
    ActionInvocation,
    Boundary,
    Case,
    Clock,
    LedgerWriter,
    Operations,
    Workspaces,
)
from runner.contract.records import Draft


class LangGraphHost:
    """``ports.WorkflowHost`` on LangGraph. One drive at a time."""

    def __init__(
        self,
        *,
        case: Case,
        writer: LedgerWriter,
        workspaces: Workspaces,
        invocation: ActionInvocation,
        operations: Operations,
        clock: Clock,
        isolation: Isolation,
        steps_max: int,
        checkpoint_every: int = limits.CHECKPOINT_EVERY_SUPERSTEPS,
    ) -> None:
        """``writer`` is the host's pen. At most ``steps_max`` steps run at once. Opens nothing; see ``open_host``."""
        self._case: Final = case
        self._writer: Final = writer
        self._neighbours: Final = Neighbours(
            case=case,
            writer=writer,
            workspaces=workspaces,
            invocation=invocation,
            operations=operations,
            clock=clock,
            isolation=isolation,
            steps_max=steps_max,
            checkpoint_every=checkpoint_every,
        )
        self._topology: Final = Topology(case.plan)
        self._checkpoints: Final = CheckpointStore(case.layout.checkpoints)
        self._wheel: Final = Wheel()
        self._asked: Final = Asked()
        self._graph: Graph | None = None
        self._drive: Drive | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def drive(self) -> Boundary:
        """See ``ports.WorkflowHost``. Cancelled, it ends what runs, leaves every attempt open, and only then lets the
        ``CancelledError`` travel on. ``IntegrityError`` for a checkpoint that is ahead of the ledger or does not hold."""
        if self._drive is not None:
            raise IntegrityError(
                Code.ILLEGAL_TRANSITION, "the host is being driven already", remedy="wait for the first drive"
            )
        self._loop = asyncio.get_running_loop()
        self._asked.abort = False
        work = asyncio.ensure_future(self._driven())
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError as error:
                cancelled = error
                self._asked.abort = True
                self._wake()
        if cancelled is not None:
            raise cancelled from work.exception()
        return work.result()

    async def _driven(self) -> Boundary:
        with tracing_context(enabled=False):
            saver = await self._checkpoints.open()
            position = Position(await self._stored(saver))
            if self._graph is None:
                self._graph = lower(self._case.plan, self._wheel).compile(saver)
            self._drive = self._wheel.driver = assemble(
                self._neighbours, self._topology, position, self._graph, self._asked
            )
            try:
                return await self._drive.run()
            finally:
                self._drive = self._wheel.driver = None

    async def _stored(self, saver: LedgerSaver) -> Snapshot:
        """The checkpoint's state, or an empty one."""
        found = await saver.aget_tuple(thread(self._case.plan))
        if found is None:
            return Snapshot()
        snapshot = read_state(found.checkpoint["channel_values"], self._topology)
        metadata: Any = found.metadata
        head = self._case.ledger.head()
        if max(snapshot.sq, metadata[LEDGER_SEQ]) > head:
            raise IntegrityError(
                Code.CHECKPOINT_AHEAD,
                f"the checkpoint stands for ledger sequence {snapshot.sq}, but the ledger ends at {head}",
                remedy="the ledger was cut or replaced: restore the Delivery's directory from a backup",
            )
        return snapshot

    def stop(self) -> None:
        """See ``ports.WorkflowHost``. Model calls are cut short and their attempts stay open; a command that has begun is
        waited for, since it could not be resumed."""
        self._asked.stop = True
        self._wake()

    def cancel(self, reason: Reason) -> None:
        """See ``ports.WorkflowHost``. The first reason stands."""
        self._asked.cancel = self._asked.cancel or reason
        self._wake()

    def answered(self, wait: str) -> None:
        """See ``ports.WorkflowHost``. An answer to nothing that is open is ignored."""
        self._asked.answered = True
        self._wake()

    def _wake(self) -> None:
        loop, drive = self._loop, self._drive
        if loop is not None and drive is not None and not loop.is_closed():
            loop.call_soon_threadsafe(drive.wake)

    async def retire(self, authorization: Digest) -> Retirement:
        """Deletes the checkpoints and records the fact. The same authorization replays it; another is refused."""
        fact = Retirement(owner="host", authorization=authorization)
        for record in self._case.ledger.read(kinds=frozenset({OwnerRetired.KIND})):
            if isinstance(record.event, OwnerRetired) and record.event.retirement.owner == "host":
                if record.event.retirement != fact:
                    raise IntegrityError(
                        Code.AUTHORIZATION_FOREIGN,
                        "the host was retired under another authorization",
                        remedy="retire with the authorization that the ledger records",
                    )
                return fact
        await self._checkpoints.delete()
        self._graph = None
        self._writer.append(Draft(event=OwnerRetired(retirement=fact)))
        return fact

    async def close(self) -> None:
        """Frees what is open; deletes nothing. Idempotent."""
        self._graph = None
        await self._checkpoints.close()


@asynccontextmanager
async def open_host(
    *,
    case: Case,
    writer: LedgerWriter,
    workspaces: Workspaces,
    invocation: ActionInvocation,
    operations: Operations,
    clock: Clock,
    isolation: Isolation,
    steps_max: int,
) -> AsyncIterator[LangGraphHost]:
    """A host for the length of the context. The checkpoint database is opened by the first drive."""
    host = LangGraphHost(
        case=case,
        writer=writer,
        workspaces=workspaces,
        invocation=invocation,
        operations=operations,
        clock=clock,
        isolation=isolation,
        steps_max=steps_max,
    )
    try:
        yield host
    finally:
        await host.close()
