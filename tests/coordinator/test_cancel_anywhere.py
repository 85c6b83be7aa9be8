"""A cancel at every phase of a Delivery, from another process as it were; deadlines; a clock that goes backwards."""

import datetime as dt

import pytest

from runner.contract import events
from runner.contract.layout import delivery_layout
from runner.contract.outcomes import CancelAck, Outcome, Reason, Suspended
from runner.contract.ports import Boundary, HostSuspended
from runner.coordinator import fence
from runner.ledger import create_or_open, open_reader
from tests.coordinator.asking import ONE, leave_uncertain, recorded, suspend
from tests.coordinator.fakes import FakeHost, House
from tests.coordinator.test_death import POINTS
from tests.coordinator.test_execute import die, kinds, settled
from tests.ledger.fakes import StillClock


@pytest.mark.parametrize("made", ["directory", "fence", "ledger"])
async def test_before_it_was_accepted(house: House, made: str) -> None:
    """Its driver died before it could record anything: the wish is kept, inspect says accepting, and the Delivery is
    cancelled as soon as it is executed, before any step."""
    layout = delivery_layout(house.state, ONE)
    layout.root.mkdir(parents=True)
    if made != "directory":
        held = fence.acquire(layout, house.clock)
        assert isinstance(held, fence.Fence)
        held.release()
    if made == "ledger":
        create_or_open(layout, clock=house.clock).close()
    for _ in range(2):
        assert await house.coordinator().cancel(ONE) == CancelAck(delivery=ONE, disposition="requested")
    assert (await house.coordinator().inspect(ONE)).phase == "accepting"
    settlement = settled(await house.coordinator().execute(house.activation()))
    assert (settlement.outcome, settlement.reason) == (Outcome.CANCELLED, Reason.CANCEL_REQUESTED)
    assert house.world.effects["plan@1"] == 0


async def test_while_a_driver_begins(house: House) -> None:
    """It holds the fence and has not recorded anything: the wish is kept for it."""
    layout = delivery_layout(house.state, ONE)
    held = fence.acquire(layout, house.clock)
    assert isinstance(held, fence.Fence)
    create_or_open(layout, clock=house.clock).close()
    assert (await house.coordinator().cancel(ONE)).disposition == "requested"
    held.release()
    assert settled(await house.coordinator().execute(house.activation())).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("point", POINTS)
async def test_after_dying_anywhere(house: House, point: str) -> None:
    """Cancelled where it died: settled as cancelled before the terminal was recorded, too late after it, and kept for the next
    execute before its acceptance; every effect that was, was once, and executing again says the same."""
    await die(house, point)
    ack = await house.coordinator().cancel(ONE)
    again = settled(await house.coordinator().execute(house.activation()))
    late = POINTS.index(point) > POINTS.index("invocation.conclude")
    early = point == "custody.baseline"
    assert ack.disposition == ("too-late" if late else "requested" if early else "settled")
    assert again.outcome is (Outcome.COMPLETED if late else Outcome.CANCELLED)
    assert ack.settlement in (None, again)
    assert set(house.world.effects.values()) == {1}


async def test_without_its_providers(house: House) -> None:
    """A secret that is lost meanwhile keeps nobody from cancelling: no provider is looked at for it, now or later."""
    await suspend(house, "first")
    checked = house.world.checked
    assert (await house.coordinator().cancel(ONE)).disposition == "settled"
    settled(await house.coordinator().execute(house.activation()))
    assert house.world.checked == checked


async def test_while_suspended(house: House) -> None:
    """Nobody drives it: it is settled at once, and the wait is not open any more."""
    await suspend(house, "first")
    ack = await house.coordinator().cancel(ONE)
    assert ack.disposition == "settled"
    assert (await house.coordinator().inspect(ONE)).waits == ()


async def test_while_it_comes_to_rest(house: House) -> None:
    """Asked after the host had decided to suspend: settled all the same, not left for some later execute."""

    async def suspends(host: FakeHost) -> Boundary:
        if host.cancelled is not None:
            return await host.work()
        assert (await house.coordinator().cancel(ONE)).disposition == "requested"
        return HostSuspended(reason="quota", detail="", step=None, resume_in_s=60)

    house.world.script = suspends
    assert settled(await house.coordinator().execute(house.activation())).outcome is Outcome.CANCELLED


async def test_during_an_intervention(house: House) -> None:
    """It waits for the same answer as everything else, and is recorded once."""
    await leave_uncertain(house, "c1")
    for _ in range(2):
        assert (await house.coordinator().cancel(ONE)).disposition == "requested"
    assert len(recorded(house, events.CancelRequested)) == 1
    assert (await house.coordinator().inspect(ONE)).phase == "needs-intervention"


async def test_while_it_is_settled(house: House) -> None:
    """The terminal is recorded and the driver closes: too late, and nothing changes."""
    acks: list[CancelAck] = []

    async def proposes(host: FakeHost) -> Boundary:
        boundary = await host.work()
        host.world.die_at = "custody.publish"
        return boundary

    house.world.script = proposes
    with pytest.raises(Exception, match=r"custody\.publish"):
        await house.coordinator().execute(house.activation())
    house.world.die_at = ""
    acks.append(await house.coordinator().cancel(ONE))
    assert acks == [CancelAck(delivery=ONE, disposition="too-late")]
    assert settled(await house.coordinator().execute(house.activation())).outcome is Outcome.COMPLETED
    assert "cancel.requested" not in kinds(house)


async def test_a_deadline_that_passed_while_nothing_ran(house: House) -> None:
    """Applied by the next execute, before anything is driven."""
    clock = StillClock()
    house.clock = clock
    document = house.activation(timeout_s=3_600)

    async def suspends(host: FakeHost) -> Boundary:
        return HostSuspended(reason="approval", detail="", step=None, resume_in_s=None)

    house.world.script = suspends
    assert isinstance(await house.coordinator().execute(document), Suspended)
    clock.moment += dt.timedelta(hours=2)
    house.world.script = None
    settlement = settled(await house.coordinator().execute(document))
    assert (settlement.outcome, settlement.reason) == (Outcome.CANCELLED, Reason.DELIVERY_TIMEOUT)
    assert house.world.effects["plan@1"] == 0


async def test_a_clock_that_goes_backwards(house: House) -> None:
    """Times are for people: the order is the sequence, the deadline does not fire, and the settlement is the same."""
    expected = settled(await House(root=house.root / "whole").coordinator().execute(house.activation(timeout_s=60)))
    clock = StillClock()
    house.clock = clock

    async def jumps(host: FakeHost) -> Boundary:
        clock.moment -= dt.timedelta(days=400)
        return await host.work()

    house.world.script = jumps
    house.world.die_at = "host.plan"
    with pytest.raises(Exception, match=r"host\.plan"):
        await house.coordinator().execute(house.activation(timeout_s=60))
    house.world.die_at = ""
    settlement = settled(await house.coordinator().execute(house.activation(timeout_s=60)))
    assert settlement.to_bytes() == expected.to_bytes()
    with open_reader(delivery_layout(house.state, ONE)) as reader:
        records = list(reader.read())
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert records[-1].at < records[0].at
    assert set(house.world.effects.values()) == {1}
