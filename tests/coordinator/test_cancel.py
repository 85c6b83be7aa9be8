"""cancel, the Delivery's own deadline, inspect, and the list of Deliveries."""

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.ids import DeliveryId
from runner.contract.layout import delivery_layout
from runner.contract.outcomes import CancelAck, Outcome, Reason
from runner.contract.ports import Boundary
from runner.coordinator import fence, inspect_delivery, list_deliveries
from runner.coordinator.inspection import accepted_activation
from runner.ledger import create_or_open
from tests.coordinator.fakes import FakeHost, House
from tests.coordinator.test_execute import die, kinds, settled
from tests.ledger.fakes import StillClock

ONE = DeliveryId("one")


async def until_woken(host: FakeHost) -> Boundary:
    await host.woken.wait()
    return await host.work()


async def test_cancel_while_driving(house: House) -> None:
    """The driver takes the wish, records it once, and settles as cancelled without asking for publication."""
    acks: list[CancelAck] = []

    async def cancels(host: FakeHost) -> Boundary:
        acks.extend([await house.coordinator().cancel(ONE), await house.coordinator().cancel(ONE)])
        return await until_woken(host)

    house.world.script = cancels
    settlement = settled(await house.coordinator().execute(house.activation()))
    assert [ack.disposition for ack in acks] == ["requested", "requested"]
    assert (settlement.outcome, settlement.reason) == (Outcome.CANCELLED, Reason.CANCEL_REQUESTED)
    assert settlement.publication.disposition == "not-requested"
    assert kinds(house).count("cancel.requested") == 1
    assert house.world.effects["published"] == 0


async def test_cancel_without_a_driver(house: House) -> None:
    """Nobody drives it: cancel takes the fence and settles; later cancels and executes get the same settlement."""
    await die(house, "host.plan")
    ack = await house.coordinator().cancel(ONE)
    assert ack.disposition == "settled"
    assert ack.settlement is not None
    assert ack.settlement.outcome is Outcome.CANCELLED
    again = await house.coordinator().cancel(ONE)
    assert (again.disposition, again.settlement) == ("too-late", ack.settlement)
    assert settled(await house.coordinator().execute(house.activation())) == ack.settlement
    assert house.world.effects["tests@1"] == 0


async def test_a_cancel_that_comes_too_late(house: House) -> None:
    """Once the terminal is recorded, the wish changes nothing and says so."""
    await die(house, "custody.preserve")
    assert await house.coordinator().cancel(ONE) == CancelAck(delivery=ONE, disposition="too-late")
    assert settled(await house.coordinator().execute(house.activation())).outcome is Outcome.COMPLETED


async def test_a_recorded_cancel_survives_a_death(house: House) -> None:
    """Died after the wish was recorded: the next execute cancels, although nobody asks again."""

    async def cancels(host: FakeHost) -> Boundary:
        await house.coordinator().cancel(ONE)
        await host.woken.wait()
        host.world.at("cancelled")
        raise AssertionError

    house.world.script = cancels
    await die(house, "cancelled")
    house.world.script = None
    assert settled(await house.coordinator().execute(house.activation())).outcome is Outcome.CANCELLED


async def test_the_deadline_of_a_delivery(house: House) -> None:
    """Measured from the acceptance, also by a process that starts later."""
    clock = StillClock()
    house.clock = clock
    document = house.activation(timeout_s=3_600)

    async def waits(host: FakeHost) -> Boundary:
        clock.moment += dt.timedelta(seconds=1_800)
        await asyncio.sleep(0)
        host.world.at("half")
        raise AssertionError

    house.world.script, house.world.die_at = waits, "half"
    with pytest.raises(Exception, match="half"):
        await house.coordinator().execute(document)
    assert "cancel.requested" not in kinds(house)
    clock.moment += dt.timedelta(seconds=1_801)
    house.world.script = until_woken
    settlement = settled(await house.coordinator().execute(document))
    assert (settlement.outcome, settlement.reason) == (Outcome.CANCELLED, Reason.DELIVERY_TIMEOUT)


@pytest.mark.parametrize("name", ["..", "", "a b", "x" * 300, "ü", "a/b", "-a", "A", "a\n"])
async def test_hostile_names(house: House, name: str) -> None:
    """A name that cannot be a Delivery's is refused before it becomes a path."""
    for ask in (house.coordinator().inspect, house.coordinator().cancel):
        with pytest.raises(CallerError) as caught:
            await ask(DeliveryId(name))
        assert caught.value.code is Code.DELIVERY_ID_INVALID
    assert not house.state.exists()


async def test_unknown_deliveries(house: House) -> None:
    """Nothing is made up and nothing is created."""
    for ask in (house.coordinator().inspect, house.coordinator().cancel):
        with pytest.raises(CallerError) as caught:
            await ask(ONE)
        assert caught.value.code is Code.DELIVERY_UNKNOWN
    assert not house.state.exists()
    assert list_deliveries(house.state) == ()


async def test_phases_as_inspect_sees_them(house: House) -> None:
    """Accepting before the first record, running beside the driver, settling after the terminal, then settled."""
    layout = delivery_layout(house.state, ONE)
    held = fence.acquire(layout, StillClock())
    assert isinstance(held, fence.Fence)
    assert inspect_delivery(house.state, ONE).phase == "accepting"
    create_or_open(layout, clock=StillClock()).close()
    assert inspect_delivery(house.state, ONE).phase == "accepting"
    held.release()

    async def looks(host: FakeHost) -> Boundary:
        boundary = await host.work()
        state = await house.coordinator().inspect(ONE)
        assert (state.phase, state.outcome, state.isolation) == ("running", None, "none")
        assert [(step.step, step.state) for step in state.steps] == [("plan@1", "completed"), ("tests@1", "completed")]
        assert state.driver is not None
        return boundary

    house.world.script = looks
    await die(house, "custody.preserve")
    state = await house.coordinator().inspect(ONE)
    assert (state.phase, state.outcome, state.settlement) == ("settling", Outcome.COMPLETED, None)
    settlement = settled(await house.coordinator().execute(house.activation()))
    state = await house.coordinator().inspect(ONE)
    assert (state.phase, state.settlement, state.driver) == ("settled", settlement, None)
    assert state.records == len(kinds(house))
    assert accepted_activation(house.state, ONE) == canonical(house.activation().to_json())
    assert state.accepted_at and state.last_at >= max(step.since for step in state.steps)


async def test_the_list_opens_no_databases(house: House, tmp_path: Path) -> None:
    """Directories with a Delivery's name, in order, whatever is in them."""
    for name in ("b", "a", "not a name", "c"):
        (house.state / "deliveries" / name).mkdir(parents=True)
    (house.state / "deliveries" / "a" / "ledger.sqlite").write_text("damaged")
    (house.state / "deliveries" / "file").write_text("")
    assert list_deliveries(house.state) == ("a", "b", "c")
    with pytest.raises(IntegrityError, match="ledger"):
        inspect_delivery(house.state, "a")
    assert tmp_path == house.root
