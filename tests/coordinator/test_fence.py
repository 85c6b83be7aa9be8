"""One live driver per Delivery, one open Delivery per worktree."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from runner.contract.errors import Code, EnvironmentFault
from runner.contract.ids import DeliveryId
from runner.contract.layout import DeliveryLayout, delivery_layout, leases_dir
from runner.contract.outcomes import Busy
from runner.contract.ports import Boundary
from runner.coordinator import fence, lease
from tests.coordinator.fakes import FakeHost, House
from tests.coordinator.test_execute import die, kinds, settled
from tests.ledger.fakes import StillClock

HOLD = """
import asyncio, sys
from pathlib import Path
from runner.clock import SystemClock
from tests.coordinator.fakes import House
async def hold(host):
    print("driving", flush=True)
    await host.woken.wait()
    return await host.work()
house = House(root=Path(sys.argv[1]), clock=SystemClock())
house.world.script = hold
result = asyncio.run(house.coordinator().execute(house.activation()))
print(result.settlement.outcome, flush=True)
"""


async def held_elsewhere(house: House) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(house.root), stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"driving\n"
    return process


async def test_busy_with_another_process(house: House) -> None:
    """A live driver in another process: Busy names it and nothing is written; killed, the Delivery goes on here."""
    process = await held_elsewhere(house)
    try:
        before = kinds(house)
        busy = await house.coordinator().execute(house.activation())
        assert isinstance(busy, Busy)
        assert (busy.host, busy.pid) == (socket.gethostname(), process.pid)
        assert busy.since.endswith("Z")
        assert kinds(house) == before
        state = await house.coordinator().inspect(busy.delivery)
        assert (state.phase, state.driver) == ("running", f"{socket.gethostname()}:{process.pid}")
    finally:
        process.kill()
        await process.wait()
    state = await house.coordinator().inspect(busy.delivery)
    assert (state.phase, state.driver) == ("suspended", None)
    settled(await house.coordinator().execute(house.activation()))


async def test_a_cancel_reaches_the_driver_of_another_process(house: House) -> None:
    """The live driver takes the wish from its inbox and settles; the canceller is told that it was asked for."""
    process = await held_elsewhere(house)
    ack = await house.coordinator().cancel(DeliveryId("one"))
    assert ack.disposition == "requested"
    out, _ = await process.communicate()
    assert out == b"cancelled\n"
    again = await house.coordinator().cancel(DeliveryId("one"))
    assert again.disposition == "too-late"
    assert again.settlement is not None


async def test_busy_within_one_process(house: House) -> None:
    """Two executes of one Delivery at once, of one coordinator or of two: one drives, the others are told."""
    first, second = house.coordinator(), house.coordinator()

    async def hold(host: FakeHost) -> Boundary:
        for other in (first, second):
            assert isinstance(await other.execute(house.activation()), Busy)
        return await host.work()

    house.world.script = hold
    settled(await first.execute(house.activation()))


async def test_two_deliveries_at_once(house: House, tmp_path: Path) -> None:
    """Deliveries in worktrees of their own do not wait for each other."""
    other = House(root=tmp_path / "other")
    coordinator = house.coordinator()
    met = asyncio.Barrier(2)

    async def meet(host: FakeHost) -> Boundary:
        await met.wait()
        return await host.work()

    house.world.script = meet
    results = await asyncio.gather(
        coordinator.execute(house.activation()), coordinator.execute(other.activation("two"))
    )
    assert {settled(result).delivery for result in results} == {"one", "two"}


async def test_one_open_delivery_per_worktree(house: House) -> None:
    """A second Delivery is refused by name and leaves nothing behind; once the first has settled it may run."""
    await die(house, "host.plan")
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="Delivery one works") as caught:
            await house.coordinator().execute(house.activation("two"))
        assert caught.value.code is Code.WORKTREE_LEASED
    assert not delivery_layout(house.state, DeliveryId("two")).root.exists()
    settled(await house.coordinator().execute(house.activation()))
    settled(await house.coordinator().execute(house.activation("two")))


def test_a_worktree_is_its_inode(house: House) -> None:
    """Another path to the same directory is the same worktree; a holder that was never accepted and is gone is stale."""
    (house.root / "link").symlink_to(house.worktree)
    one, two = DeliveryId("one"), DeliveryId("two")
    layout = delivery_layout(house.state, one)
    held = fence.acquire(layout, StillClock())
    assert isinstance(held, fence.Fence)
    lease.take(house.state, one, house.worktree)
    lease.take(house.state, one, house.root / "link")
    with pytest.raises(EnvironmentFault):
        lease.take(house.state, two, house.root / "link")
    held.release()
    lease.take(house.state, two, house.root / "link")
    lease.release(house.state, one)
    (file,) = leases_dir(house.state).glob("*-*")
    assert file.read_text() == "two"
    lease.release(house.state, two)
    assert list(leases_dir(house.state).glob("*-*")) == []


async def test_a_missing_worktree(house: House) -> None:
    """A clear environment fault with the path, and nothing written for a Delivery that never began."""
    gone = house.activation()
    house.worktree.rmdir()
    with pytest.raises(EnvironmentFault, match="worktree") as caught:
        await house.coordinator().execute(gone)
    assert caught.value.code is Code.WORKTREE_MISSING
    assert not house.state.exists()


async def test_a_baseline_that_is_refused_gives_the_worktree_back(house: House) -> None:
    """A Delivery that cannot begin was not accepted, and does not keep others from the worktree."""
    await die(house, "custody.baseline")
    assert kinds(house) == []
    assert (await house.coordinator().inspect(DeliveryId("one"))).phase == "accepting"
    settled(await house.coordinator().execute(house.activation("two")))
    settled(await house.coordinator().execute(house.activation()))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}', "\x00" * 50])
def test_the_owner_file_decides_nothing(tmp_path: Path, content: str) -> None:
    """Damaged or missing, the fence holds all the same, and who holds it is said to be unknown."""
    layout = DeliveryLayout(tmp_path / "one")
    held = fence.acquire(layout, StillClock())
    assert isinstance(held, fence.Fence)
    layout.owner.write_text(content)
    busy = fence.acquire(layout, StillClock())
    assert busy == Busy(delivery=DeliveryId("one"), host="unknown", pid=0, since="unknown")
    assert fence.live_driver(layout) is None
    held.release()
    again = fence.acquire(layout, StillClock())
    assert isinstance(again, fence.Fence)
    again.release()


def test_a_driver_is_alive_only_if_everything_fits(tmp_path: Path) -> None:
    """A process id that was given out again, another boot or another machine is not the driver."""
    layout = DeliveryLayout(tmp_path / "one")
    held = fence.acquire(layout, StillClock())
    assert isinstance(held, fence.Fence)
    assert fence.live_driver(layout) == f"{socket.gethostname()}:{os.getpid()}"
    true = json.loads(layout.owner.read_text())
    for wrong in ({"started": "1"}, {"boot": "b"}, {"host": "h"}, {"pid": 2**22 + 1}, {"pid": -1}, {"pid": 10**30}):
        layout.owner.write_text(json.dumps({**true, **wrong}))
        assert fence.live_driver(layout) is None, wrong
    held.release()
