"""Why an execute ended with the Delivery open: recorded once, shown while it is so, and kept to."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from runner.contract.events import DeliverySuspended, InterventionNeeded, StepScheduled
from runner.contract.ids import DeliveryId, SiteId, StepRef
from runner.contract.layout import delivery_layout
from runner.contract.outcomes import DeliveryState, ExecuteResult, Outcome, Reason, Settled, Suspended, Suspension
from runner.contract.ports import Boundary, HostSuspended
from runner.contract.records import Draft
from runner.coordinator.inspection import inspect_delivery
from runner.coordinator.verification import verify
from runner.ledger import open_reader
from tests.coordinator.fakes import FakeHost, House, interpret, started

ONE = DeliveryId("one")
STEP = StepRef(site=SiteId("plan"))


class MovableClock:
    """The time is what a test says; whoever polls the inbox sleeps for ever."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC) + dt.timedelta(seconds=self.ahead_s)

    def monotonic(self) -> float:
        return self.ahead_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(root=tmp_path, clock=MovableClock())
    made.world.script = down()
    return made


def tried(host: FakeHost) -> None:
    begun = STEP in host.case.ledger.open_steps()
    host.writer.append(*([] if begun else [Draft(event=StepScheduled(), step=STEP)]), started(STEP))


def down(
    detail: str = "no connection", *, tries: bool = True, resume_in_s: float = 60.0
) -> Callable[[FakeHost], Awaitable[Boundary]]:
    """A step whose endpoint is down; it records a try each time, or nothing."""

    async def suspend(host: FakeHost) -> Boundary:
        if host.cancelled is not None:
            return host.proposal(Outcome.CANCELLED, host.cancelled)
        if tries:
            tried(host)
        return HostSuspended(reason="transient", detail=detail, step=STEP, resume_in_s=resume_in_s)

    return suspend


def at(house: House, seconds: float) -> None:
    assert isinstance(house.clock, MovableClock)
    house.clock.ahead_s = seconds


def suspensions(house: House) -> list[DeliverySuspended]:
    with open_reader(delivery_layout(house.state, ONE)) as reader:
        return [r.event for r in reader.read() if isinstance(r.event, DeliverySuspended)]


def head(house: House) -> int:
    with open_reader(delivery_layout(house.state, ONE)) as reader:
        return reader.head()


async def execute(house: House, *, early: bool = False) -> ExecuteResult:
    return await house.coordinator().execute(house.activation(), early=early)


async def look(house: House) -> DeliveryState:
    return await house.coordinator().inspect(ONE)


async def test_it_is_recorded_and_shown(house: House) -> None:
    """Why, which step, and from when on another execute is worth it."""
    await execute(house)
    said = DeliverySuspended(
        reason="transient", detail="no connection", step="plan@1", not_before="2026-03-01T12:01:00Z"
    )
    assert suspensions(house) == [said]
    state = await look(house)
    assert state.phase == "suspended"
    assert state.suspended == Suspension.model_validate(said.model_dump())
    verified = verify(delivery_layout(house.state, ONE), interpret, ())
    assert {check.name: check.ok for check in verified.checks}["order"], verified


async def test_before_its_time_nothing_is_driven(house: House) -> None:
    """The same answer again, and the ledger stays as it is."""
    first = await execute(house)
    before = head(house)
    at(house, 59.0)
    assert await execute(house) == first
    assert (head(house), house.world.points.count("host.drive")) == (before, 1)
    at(house, 60.0)
    again = await execute(house)
    assert isinstance(again, Suspended)
    assert again.not_before == "2026-03-01T12:02:00Z"
    assert house.world.points.count("host.drive") == 2


async def test_early_is_tried_all_the_same(house: House) -> None:
    """Somebody mended what was wrong and does not want to wait."""
    await execute(house)
    house.world.script = None
    assert isinstance(await execute(house, early=True), Settled)


async def test_what_was_left_for_it_is_taken_before_its_time(house: House) -> None:
    """A cancel does not wait for an endpoint."""
    await execute(house)
    ack = await house.coordinator().cancel(ONE)
    assert ack.disposition == "settled"


async def test_its_time_may_run_out_meanwhile(tmp_path: Path) -> None:
    """The Delivery's own timeout comes before the endpoint's pause."""
    house = House(root=tmp_path, clock=MovableClock())
    house.world.script = down(resume_in_s=3_600.0)
    timed = house.activation(timeout_s=100.0)
    await house.coordinator().execute(timed)
    at(house, 200.0)
    ended = await house.coordinator().execute(timed)
    assert isinstance(ended, Settled)
    assert ended.settlement.reason is Reason.DELIVERY_TIMEOUT


async def test_the_clock_was_set_back(house: House) -> None:
    """Nobody waits for a day that was there already."""
    await execute(house)
    at(house, -86_400.0)
    await execute(house)
    assert house.world.points.count("host.drive") == 2


async def test_looking_again_writes_nothing(house: House) -> None:
    """Polled by the minute for the same reason, a ledger does not grow; another reason is news."""
    house.world.script = down(tries=False)
    await execute(house)
    before = head(house)
    for n in range(1, 4):
        at(house, n * 100.0)
        assert isinstance(await execute(house), Suspended)
    assert (head(house), house.world.points.count("host.drive")) == (before, 4)
    house.world.script = down("no such host", tries=False)
    at(house, 900.0)
    await execute(house)
    assert [event.detail for event in suspensions(house)] == ["no connection", "no such host"]


async def test_while_somebody_drives_it_is_not_shown(house: House) -> None:
    """From the moment that an execute has taken it up; nor after one that died."""
    await execute(house)
    seen: list[DeliveryState] = []

    async def works(host: FakeHost) -> Boundary:
        seen.append(inspect_delivery(house.state, ONE))
        tried(host)
        seen.append(inspect_delivery(house.state, ONE))
        raise RuntimeError("killed")

    house.world.script = works
    with pytest.raises(RuntimeError):
        await execute(house, early=True)
    seen.append(await look(house))
    assert [(state.phase, state.suspended) for state in seen] == [
        ("running", None),
        ("running", None),
        ("suspended", None),
    ]


async def test_after_an_intervention_that_went_away(house: House) -> None:
    """The endpoint is what it waits for now."""

    async def asks(host: FakeHost) -> Boundary:
        host.case.ledger.writer("coordinator").append(Draft(event=InterventionNeeded(reason="edited", detail="x")))
        raise RuntimeError("killed")

    house.world.script = asks
    with pytest.raises(RuntimeError):
        await execute(house)
    house.world.script = down(tries=False)
    await execute(house)
    assert (await look(house)).phase == "suspended"
