"""A command that is cut short by its driver's end, of whatever kind, is no more and no less known than its effect allows."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from runner import NeedsIntervention, RunnerFactory, Settled
from runner.contract.activation import Activation, CommandAction, EffectClass, Step
from runner.contract.events import ProcessStarted
from runner.contract.ids import DeliveryId
from runner.contract.scope import EVERYTHING
from tests.delivery.world import World

ONE = DeliveryId("d1")

DRIVER = """
import asyncio, sys
from pathlib import Path
from runner.contract.activation import Activation
from tests.delivery.world import World

asyncio.run(World(Path(sys.argv[1])).execute(Activation.model_validate_json(sys.stdin.read())))
"""


def hanging(world: World, effect: EffectClass) -> Activation:
    """A command that notes each of its starts outside the worktree, writes half a file, says so, and hangs the first time."""
    script = (
        f"echo x >> '{world.root}/starts'; echo x > src/half; test -e '{world.root}/again' && exit 0;"
        f" touch '{world.root}/again'; echo 1 > '{world.root}/begun'; sleep 1000"
    )
    return world.activation(
        Step(id="c", action=CommandAction(run=("sh", "-c", script), scope=EVERYTHING, effect=effect))
    )


def starts(world: World) -> int:
    return len((world.root / "starts").read_text().splitlines())


async def cut_short(world: World, activation: Activation, how: str) -> None:
    """The command is in the middle of its work; then its driver's task is cancelled, or its driver is killed."""
    begun = world.root / "begun"
    if how == "cancelled":
        running = asyncio.create_task(world.execute(activation))
        while not begun.exists():
            assert not running.done(), await running
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return
    driver = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRIVER, str(world.root), stdin=asyncio.subprocess.PIPE
    )
    assert driver.stdin is not None
    driver.stdin.write(activation.model_dump_json().encode())
    driver.stdin.close()
    while not begun.exists():
        assert driver.returncode is None
        await asyncio.sleep(0.01)
    driver.kill()
    assert await driver.wait() == -signal.SIGKILL


@pytest.mark.parametrize("how", ["cancelled", "killed"])
async def test_an_outside_effect_is_asked_about(world: World, how: str) -> None:
    """Not run again: a person says what happened, and what becomes of the half of a file that it wrote. Nothing of it still
    runs when that is asked."""
    activation = hanging(world, "external")
    await cut_short(world, activation, how)
    result = await world.execute(activation)
    assert isinstance(result, NeedsIntervention) and starts(world) == 1
    (effect,) = result.effects
    process = next(r.event for r in world.records() if isinstance(r.event, ProcessStarted))
    assert not Path(f"/proc/{process.guard}/fd/0").exists() and os.getpid() != process.guard
    records = RunnerFactory(world.config()).open_records()
    records.resolve(ONE, effect.call, "happened", 0, "me")
    asked = await world.execute(activation)
    assert isinstance(asked, NeedsIntervention) and "src/half" in asked.detail
    records.resolve(ONE, "", "discard", None, "me")
    settled = await world.execute(activation)
    assert isinstance(settled, Settled) and settled.settlement.outcome == "completed"
    assert starts(world) == 1 and not (world.worktree / "src" / "half").exists()


@pytest.mark.parametrize("how", ["cancelled", "killed"])
async def test_a_workspace_effect_starts_over(world: World, how: str) -> None:
    """The files go back and it runs again, without a person."""
    activation = hanging(world, "workspace")
    await cut_short(world, activation, how)
    settled = await world.execute(activation)
    assert isinstance(settled, Settled) and settled.settlement.outcome == "completed"
    assert starts(world) == 2
