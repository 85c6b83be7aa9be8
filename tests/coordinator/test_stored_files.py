"""What stands under the state root is hostile: damaged, swapped, or something else than a file. Nothing hangs on it, nothing
is repeated because of it, and each refusal names the path."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from runner.contract.errors import CallerError, Code, EnvironmentFault, IntegrityError
from runner.contract.ids import DeliveryId
from runner.contract.layout import DeliveryLayout, delivery_layout, leases_dir
from runner.contract.outcomes import Settled
from runner.coordinator import fence
from runner.coordinator.inspection import inspect_delivery, list_deliveries
from runner.ledger import has_ledger
from tests.coordinator.fakes import House
from tests.coordinator.test_execute import die
from tests.ledger.fakes import StillClock

ONE = DeliveryId("one")


@pytest.fixture
async def layout(house: House) -> DeliveryLayout:
    """A Delivery whose driver died in the middle."""
    await die(house, "host.plan")
    return delivery_layout(house.state, ONE)


def no_ledger(layout: DeliveryLayout) -> None:
    layout.store.mkdir()
    layout.ledger.unlink()


def first_record_lost(layout: DeliveryLayout) -> None:
    with closing(sqlite3.connect(layout.ledger, isolation_level=None)) as db:
        db.execute("DELETE FROM records WHERE seq = 1")


def link(layout: DeliveryLayout) -> None:
    layout.ledger.rename(layout.root / "elsewhere")
    layout.ledger.symlink_to("elsewhere")


def pipe(layout: DeliveryLayout) -> None:
    layout.ledger.unlink()
    os.mkfifo(layout.ledger)


def text(layout: DeliveryLayout) -> None:
    layout.ledger.write_text("hello")


@pytest.mark.parametrize("damage", [no_ledger, first_record_lost, link, pipe, text])
async def test_a_damaged_ledger_stops_everybody(
    house: House, layout: DeliveryLayout, damage: Callable[[DeliveryLayout], None]
) -> None:
    """inspect, execute and cancel say so with its path; nothing is driven and no effect is repeated."""
    damage(layout)
    before = dict(house.world.effects)
    coordinator = house.coordinator()
    for act in (
        lambda: coordinator.inspect(ONE),
        lambda: coordinator.execute(house.activation()),
        lambda: coordinator.cancel(ONE),
    ):
        with pytest.raises(IntegrityError, match=r"ledger\.sqlite") as caught:
            await act()
        assert caught.value.code is Code.LEDGER_CORRUPT and caught.value.remedy
    assert dict(house.world.effects) == before


@pytest.mark.parametrize("column", ["payload = '{}'", "kind = 'step.skipped'", "hash = zeroblob(32)", "at = 'now'"])
async def test_nothing_is_published_over_a_damaged_record(house: House, layout: DeliveryLayout, column: str) -> None:
    """A resumed driver reads only what it needs; before it publishes, it has looked at every record."""
    with closing(sqlite3.connect(layout.ledger, isolation_level=None)) as db:
        done = db.execute(f"UPDATE records SET {column} WHERE seq = 2").rowcount
    assert done == 1
    with pytest.raises(IntegrityError, match="record 2"):
        await house.coordinator().execute(house.activation())
    assert not house.world.effects["published"]


async def test_a_copy_is_not_the_delivery(house: House, layout: DeliveryLayout) -> None:
    """A Delivery's directory under another name: cancelling it does not drive the one it was copied from."""
    shutil.copytree(layout.root, delivery_layout(house.state, DeliveryId("two")).root)
    driven = house.world.effects["rooms closed"]
    with pytest.raises(IntegrityError, match="another Delivery"):
        await house.coordinator().cancel(DeliveryId("two"))
    assert house.world.effects["rooms closed"] == driven
    assert isinstance(await house.coordinator().execute(house.activation()), Settled)


@pytest.mark.parametrize("content", ["pipe", "[" * 100_000, "x" * 10_000_000])
def test_an_owner_file_that_nobody_can_read(tmp_path: Path, content: str) -> None:
    """Looking neither hangs nor fails: who drives it is then not known."""
    layout = DeliveryLayout(tmp_path / "one")
    layout.root.mkdir()
    if content == "pipe":
        os.mkfifo(layout.owner)
    else:
        layout.owner.write_text(content)
    assert fence.read_holder(layout) is None and fence.live_driver(layout) is None
    held = fence.acquire(layout, StillClock())
    assert isinstance(held, fence.Fence)
    assert fence.live_driver(layout) is not None
    held.release()


async def test_a_lease_that_is_no_file(house: House, layout: DeliveryLayout) -> None:
    """It is said with its path; nothing waits for it."""
    (file,) = leases_dir(house.state).glob("*-*")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(EnvironmentFault, match=file.name) as caught:
        await house.coordinator().execute(house.activation())
    assert caught.value.code is Code.STATE_UNWRITABLE
    file.unlink()
    assert isinstance(await house.coordinator().execute(house.activation()), Settled)


def test_a_state_root_that_cannot_be_one(tmp_path: Path) -> None:
    """A path too long for a directory is the machine's refusal, not a crash; a file in its place holds no Deliveries."""
    endless = tmp_path / ("x" * 300)
    for look in (
        lambda: list_deliveries(endless),
        lambda: inspect_delivery(endless, ONE),
        lambda: has_ledger(delivery_layout(endless, ONE)),
    ):
        with pytest.raises(EnvironmentFault, match="File name too long"):
            look()
    (tmp_path / "file").touch()
    assert list_deliveries(tmp_path / "file") == ()
    with pytest.raises(CallerError, match="no Delivery one"):
        inspect_delivery(tmp_path / "file", ONE)
