"""inspect reads the steps and the few records that matter; it says the same as a pass over everything."""

from collections.abc import Awaitable, Callable

import pytest

from runner.contract.ports import Boundary, HostIntervention
from runner.coordinator import inspect_delivery
from runner.coordinator.fence import live_driver
from runner.coordinator.inspection import fold
from runner.coordinator.journal import essentials
from runner.ledger import create_or_open, open_reader
from tests.coordinator.asking import ONE, A, answer, layout, leave_uncertain, resolve, suspend
from tests.coordinator.fakes import FakeHost, House
from tests.coordinator.test_execute import die
from tests.ledger.fakes import StillClock, completed, savepoint, scheduled, site, started


async def killed(house: House) -> None:
    await leave_uncertain(house, "c1", "c2")


async def asked(house: House) -> None:
    await leave_uncertain(house, "c1", "c2")
    await house.coordinator().execute(house.activation())
    await house.coordinator().cancel(ONE)
    resolve(house, "c1", "did-not-happen")
    await house.coordinator().execute(house.activation())


async def waiting(house: House) -> None:
    await suspend(house, "first", "second")
    answer(house, "first", "approve")
    await suspend(house, "third")


async def edited(house: House) -> None:
    async def asks(host: FakeHost) -> Boundary:
        return HostIntervention(reason="foreign-edit", detail="x.py", step=A)

    house.world.script = asks
    await house.coordinator().execute(house.activation())
    house.world.script = None
    await die(house, "host.tests")


async def settling(house: House) -> None:
    await die(house, "custody.publish")


async def whole(house: House) -> None:
    await house.coordinator().execute(house.activation())


@pytest.mark.parametrize("scenario", [killed, asked, waiting, edited, settling, whole])
async def test_it_says_the_same(house: House, scenario: Callable[[House], Awaitable[None]]) -> None:
    """Whatever a Delivery is in: the state from the essential records is the state from all of them."""
    await scenario(house)
    place = layout(house)
    with open_reader(place) as reader:
        everything = fold(reader.read(), ONE, live_driver(place), "none")
    assert inspect_delivery(house.state, ONE) == everything


def test_it_reads_no_history(house: House) -> None:
    """Hundreds of finished steps more do not make it decode one record more."""
    seen: list[int] = []
    for many in (10, 300):
        place = layout(House(root=house.root / str(many)))
        ledger = create_or_open(place, clock=StillClock())
        ledger.writer("custody").append(savepoint())
        for visit in range(1, many + 1):
            step = site("a", visit)
            ledger.writer("host").append(scheduled(step), started(step), completed(step))
        ledger.close()
        with open_reader(place) as reader:
            seen.append(len(essentials(reader)))
            assert len(reader.steps()) == many
    assert seen == [2, 2]
