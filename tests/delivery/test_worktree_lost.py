"""Whole Deliveries whose worktree is not what it was: edited before they began, or gone before they were cancelled."""

import asyncio
import shutil

import pytest

from runner import RunnerFactory
from runner.contract.errors import CallerError, Code, EnvironmentFault
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import CancelAck, Suspended
from tests.delivery.test_a_person_is_asked import approval, build
from tests.delivery.world import World, command, git

D1 = DeliveryId("d1")


async def cancel(world: World) -> CancelAck:
    async with RunnerFactory(world.config()).open() as runner:
        return await runner.cancel(D1)


def lose(world: World, what: str) -> None:
    shutil.rmtree(world.worktree)
    if what == "removed":
        git(world.repository, "worktree", "prune")
    if what == "replaced":
        world.worktree.mkdir()
        (world.worktree / "mine").write_text("precious\n")
    if what == "everything":
        shutil.rmtree(world.repository)


async def test_edited_before_it_began(world: World) -> None:
    """Refused without a record; once the edit is undone, the same activation is carried out."""
    activation = world.activation(build())
    (world.worktree / "README").write_text("edited\n")
    for _ in range(2):
        with pytest.raises(CallerError, match="README") as caught:
            await world.execute(activation)
        assert caught.value.code is Code.CORRELATION_MISMATCH
        assert world.kinds() == []
    git(world.worktree, "checkout", "README")
    assert (await world.settle(activation)).outcome == "completed"
    assert world.kinds()[:2] == ["delivery.accepted", "savepoint.taken"]


@pytest.mark.parametrize("what", ["removed", "replaced", "everything"])
async def test_cancelled_without_its_worktree(world: World, what: str) -> None:
    """An execute says that it is missing; a cancel settles all the same, with the result that was kept last."""
    activation = world.activation(build(), approval("ship", "build"))
    assert isinstance(await world.execute(activation), Suspended)
    lose(world, what)
    if what != "replaced":
        with pytest.raises(EnvironmentFault, match="worktree") as caught:
            await world.execute(activation)
        assert caught.value.code is Code.WORKTREE_MISSING
    ack = await cancel(world)
    assert ack.settlement is not None and ack.settlement.outcome == "cancelled"
    assert ack.settlement.result_commit != activation.workspace.base_commit
    assert (await world.settle(activation)).to_bytes() == ack.settlement.to_bytes()
    assert RunnerFactory(world.config()).open_records().verify(D1).ok
    if what != "everything":
        assert git(world.repository, "show", "refs/runner/d1/result:src/made.py") == "X"
    if what == "replaced":
        assert [path.name for path in world.worktree.iterdir()] == ["mine"]


@pytest.mark.parametrize("what", ["removed", "everything"])
async def test_cancelled_in_the_middle_of_a_step(world: World, what: str) -> None:
    """A step that was cut short with half its files written ends as cancelled; there is nothing to put back."""
    begun = world.pipe("begun")
    script = f"echo x > src/half; echo 1 > '{begun}'; sleep 1000"
    activation = world.activation(command("c", "sh", "-c", script))
    running = asyncio.create_task(world.execute(activation))
    await world.begun(begun, running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    lose(world, what)
    ack = await cancel(world)
    assert ack.settlement is not None and ack.settlement.outcome == "cancelled"
    assert ack.settlement.result_commit == activation.workspace.base_commit
    assert "step.failed" in world.kinds()
    assert RunnerFactory(world.config()).open_records().verify(D1).ok
