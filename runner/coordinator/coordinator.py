"""The door: ``execute``, ``inspect`` and ``cancel`` Deliveries. Decides, records, performs; everything private stays behind.

The order of ``execute``: interpret, correlate (a settled Delivery is answered here), check the meaning, check the providers
(unless nothing begins any more), look at the worktree, take the fence, correlate again, lease, accept, screen, drive, close.
Up to the fence nothing is written.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from runner.contract import limits
from runner.contract.activation import Activation
from runner.contract.canonical import FrozenJson, canonical, digest
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import (
    Busy,
    CancelAck,
    DeliveryState,
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Settled,
    Suspended,
)
from runner.contract.plan import Plan
from runner.contract.ports import Assembly, Bridge, Clock, Observer
from runner.coordinator import fence, lease, tombstone
from runner.coordinator.correlation import check_activation, check_meaning
from runner.coordinator.driving import Setting, StopSwitch, drive_to_boundary
from runner.coordinator.inspection import inspect_delivery
from runner.coordinator.joining import ended, in_thread
from runner.coordinator.journal import accepted_in, only_ends, settled_in, terminal_facts
from runner.coordinator.leaving import leave_cancel
from runner.coordinator.observation import Observation
from runner.coordinator.origin import past_of
from runner.coordinator.wishes import CANCEL
from runner.ledger import FileArtifacts, create_or_open, has_ledger, open_reader

Interpret = Callable[[Activation | bytes], tuple[Activation, Plan]]
"""Pure; ``CallerError`` (``activation-invalid``, ``activation-tampered``) for what cannot be one."""

HANDOVER_POLLS: Final = 10
"""How often a cancel looks whether a driver that is coming or leaving has seen it, every ``limits.INBOX_POLL_S``."""
OBSERVER_CLOSE_S: Final = 1.0
"""How long ``close`` lets an observer hear what is still queued."""


class Coordinator:
    """Carries out Deliveries. One per Runner; any number of Deliveries at once, each in its own ``execute``."""

    def __init__(
        self,
        *,
        state_root: Path,
        assembly: Assembly,
        clock: Clock,
        observer: Observer | None,
        meaning: FrozenJson,
        isolation: str,
        runner_version: str,
        interpret: Interpret,
        waits: Bridge,
        interactions: Bridge,
    ) -> None:
        self._observation = Observation(observer)
        self._setting = Setting(
            state_root=state_root,
            assembly=assembly,
            clock=clock,
            observation=self._observation,
            meaning=meaning,
            meaning_digest=digest(meaning),
            runner_version=runner_version,
            waits=waits,
            interactions=interactions,
        )
        self._isolation = isolation
        self._interpret = interpret
        self._running: set[StopSwitch] = set()
        self._closed = False

    async def execute(self, activation: Activation | bytes, *, early: bool = False) -> ExecuteResult:
        """Starts, continues or replays the Delivery of ``activation``, up to its next stable boundary. ``early``: also before
        the time that its suspension names; otherwise that is then the answer, and nothing is driven.

        ``CallerError`` before any effect; ``EnvironmentFault`` leaves the Delivery open; ``IntegrityError`` when a stored
        fact does not hold. A cancelled task ends what runs, frees the fence, leaves the Delivery open and stays
        cancelled. Killed anywhere, the same call goes on and settles to the same bytes.
        """
        if self._closed:
            raise CallerError(
                Code.USAGE,
                "this Runner was closed: the context that it was opened in has ended",
                remedy="execute within 'async with factory.open() as runner'",
            )
        stop = StopSwitch()
        self._running.add(stop)
        try:
            return await self._execute(activation, stop, early)
        finally:
            self._running.discard(stop)

    async def inspect(self, delivery: DeliveryId) -> DeliveryState:
        """What is known of ``delivery``; disturbs no driver. ``CallerError`` (``delivery-unknown``)."""
        return await in_thread(inspect_delivery, self._setting.state_root, delivery, self._isolation)

    async def cancel(self, delivery: DeliveryId) -> CancelAck:
        """Cancels ``delivery``: a live driver is told through the inbox, else it is settled here and now.

        ``too-late`` when its terminal was decided before. ``requested`` also when it waits for a person, was not accepted
        yet, or could not be driven to its end now: the wish is durable and counts from then on. ``CallerError``
        (``delivery-unknown``).
        """
        name = delivery_id(delivery)
        layout = delivery_layout(self._setting.state_root, name)
        stone = await in_thread(tombstone.read, layout)
        if stone is not None:
            return CancelAck(delivery=name, disposition="too-late", settlement=stone.settlement)
        await self._made(layout)
        document = await in_thread(self._wish, layout)
        if isinstance(document, CancelAck):
            return document
        for _ in range(HANDOVER_POLLS):
            result = await self.execute(document)
            # A driver that was just leaving may not have seen the wish; one that stays takes it.
            if not isinstance(result, Busy) or not await in_thread(_waits_in_inbox, layout):
                break
            await self._setting.clock.sleep(limits.INBOX_POLL_S)
        match result:
            case Settled(settlement=settlement):
                if settlement.outcome is Outcome.CANCELLED:
                    return CancelAck(delivery=name, disposition="settled", settlement=settlement)
                return CancelAck(delivery=name, disposition="too-late", settlement=settlement)
            case Busy() | Suspended() | NeedsIntervention() | Interrupted():
                return CancelAck(delivery=name, disposition="requested")

    def stop(self) -> None:
        """Asks every running ``execute`` to stop at its next step boundary and answer ``Interrupted``. Thread- and
        signal-safe, idempotent; an ``execute`` that begins later is not asked."""
        for switch in tuple(self._running):
            switch.pull()

    async def close(self) -> None:
        """Lets the observer hear what is queued, for at most ``OBSERVER_CLOSE_S``. Call it when nothing runs any more; an
        ``execute`` after it is refused (``usage``)."""
        self._closed = True
        await in_thread(self._observation.close, OBSERVER_CLOSE_S)

    async def _execute(self, document: Activation | bytes, stop: StopSwitch, early: bool) -> ExecuteResult:
        activation, plan = await in_thread(self._interpret, document)
        layout = delivery_layout(self._setting.state_root, plan.delivery)
        settled = await in_thread(self._correlate, layout, plan)
        if settled is not None:
            return settled
        if not await in_thread(_only_ends, layout):
            self._setting.assembly.check(activation)
        if not await in_thread(has_ledger, layout):
            worktree = Path(activation.workspace.worktree)
            await in_thread(lease.check, self._setting.state_root, plan.delivery, worktree)
            if activation.origin is not None:
                await in_thread(past_of, self._setting.state_root, activation, plan, self._setting.assembly.fitting)
        held = await in_thread(fence.acquire, layout, self._setting.clock)
        if isinstance(held, Busy):
            return held
        try:
            return await _cancelled_once(
                drive_to_boundary(
                    setting=self._setting, activation=activation, plan=plan, layout=layout, stop=stop, early=early
                )
            )
        finally:
            held.release()

    def _correlate(self, layout: DeliveryLayout, plan: Plan) -> Settled | None:
        stone = tombstone.read(layout)
        if stone is not None:
            check_activation(stone.settlement, plan)
            return Settled(settlement=stone.settlement)
        if not has_ledger(layout):
            return None
        with open_reader(layout) as reader:
            found = accepted_in(reader)
            if found is None:
                return None
            check_activation(found[0], plan)
            settlement = settled_in(reader)
        if settlement is not None:
            return Settled(settlement=settlement)
        check_meaning(found[0], plan, self._setting.meaning, self._setting.meaning_digest)
        return None

    async def _made(self, layout: DeliveryLayout) -> None:
        """Sees to it that there is a ledger to leave a wish in. A driver that has only just begun is waited for; when it
        died before that, the ledger is made for it."""
        for _ in range(HANDOVER_POLLS):
            if await in_thread(has_ledger, layout) or not layout.root.is_dir():
                return
            held = await in_thread(fence.acquire, layout, self._setting.clock)
            if isinstance(held, fence.Fence):
                try:
                    (await in_thread(create_or_open, layout, clock=self._setting.clock)).close()
                finally:
                    held.release()
                return
            await self._setting.clock.sleep(limits.INBOX_POLL_S)

    def _wish(self, layout: DeliveryLayout) -> bytes | CancelAck:
        """Leaves the wish to cancel; the accepted activation, to go on with, or why there is nothing to go on with."""
        name = DeliveryId(layout.root.name)
        with open_reader(layout) as reader:
            facts = terminal_facts(reader)
            if facts.proposed is not None:
                return CancelAck(delivery=name, disposition="too-late", settlement=facts.settlement)
            leave_cancel(layout, self._setting.clock)
            found = accepted_in(reader)
        if found is None:
            return CancelAck(delivery=name, disposition="requested")
        document = FileArtifacts(layout.artifacts).get(found[0].document)
        if not isinstance(document, Mapping) or document.get("delivery") != name:
            # Going on with it would drive the Delivery that it was copied from.
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"{layout.root}: this is the record of another Delivery",
                remedy="a Delivery's directory keeps its name: move it back, or restore it from a backup",
            )
        return canonical(document)


def _only_ends(layout: DeliveryLayout) -> bool:
    """``only_ends`` of what is recorded. No provider is needed for that, so a lost secret keeps nobody from cancelling."""
    if not has_ledger(layout):
        return False
    with open_reader(layout) as reader:
        return only_ends(reader, reader.inbox())


def _waits_in_inbox(layout: DeliveryLayout) -> bool:
    with open_reader(layout) as reader:
        return any(item.kind == CANCEL for item in reader.inbox())


async def _cancelled_once(driving: Coroutine[Any, Any, ExecuteResult]) -> ExecuteResult:
    """``driving`` in a task of its own: however often the caller is cancelled, it is cancelled once, and its cleanup runs
    to the end before the fence is given back."""
    work = asyncio.create_task(driving)
    try:
        await asyncio.wait({work})
    finally:
        await ended(work)
    return work.result()
