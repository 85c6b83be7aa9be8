"""Commands that do their worst, in whole Deliveries: slow ones, ones that leave daemons, ones that print anything."""

import asyncio
from pathlib import Path

from runner import Busy, RunnerFactory, Settled
from runner.contract.activation import RouteTo
from runner.contract.ids import DeliveryId
from runner.contract.scope import READ_ONLY
from tests.delivery.world import World, command

LINE_BYTES = 10_000_000
DAEMON = "setsid sh -c 'echo $$ > {pids}; while :; do sleep 1; done' & wait"
"""In a session of its own. Its pid is told through a file or a pipe."""


def is_running(pid: int) -> bool:
    """Whether it can still do something; a zombie cannot."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_timed_out_attempt_is_dead_before_anything_else_starts(world: World) -> None:
    """The step that its timeout leads to finds none of its processes, daemons included, and none of its
    files."""
    pids = world.root / "pids"
    pids.touch()
    slow = f"echo half > src/half; echo $$ >> '{pids}'; " + DAEMON.format(pids=f"'{world.root}/daemon'")
    alive = f"cat $(sed 's:.*:/proc/&/status:' '{pids}' '{world.root}/daemon') 2> /dev/null | grep '^State:.[RSDT]'"
    look = f"! {alive} && test ! -e src/half"
    activation = world.activation(
        command("slow", "sh", "-c", slow, timeout_s=0.5, routes=(RouteTo(outcome="timeout", to="look"),)),
        command("look", "sh", "-c", look, scope=READ_ONLY),
    )
    settlement = await world.settle(activation)
    assert str(settlement.outcome) == "completed"


async def test_a_cancel_ends_sessions_of_their_own(world: World) -> None:
    """Cancelled from another Runner, a command with a daemon in a session of its own leaves no process."""
    pids = world.pipe("pids")
    activation = world.activation(command("hang", "sh", "-c", DAEMON.format(pids=f"'{pids}'")))
    running = asyncio.create_task(world.execute(activation))
    daemon = int(await asyncio.to_thread(pids.read_text))
    async with RunnerFactory(world.config()).open() as other:
        await other.cancel(DeliveryId("d1"))
    ended = await running
    assert isinstance(ended, Settled)
    assert (str(ended.settlement.outcome), is_running(daemon)) == ("cancelled", False)


async def test_a_slow_step_is_not_started_again_while_it_lives(world: World) -> None:
    """However often somebody executes meanwhile: each is told who drives, and the step starts once."""
    begun, gate = world.pipe("begun"), world.pipe("gate")
    slow = f"echo x >> '{world.root}/starts'; echo 1 > '{begun}'; cat '{gate}'"
    activation = world.activation(command("slow", "sh", "-c", slow))
    running = asyncio.create_task(world.execute(activation))
    await world.begun(begun, running)
    others = [await world.execute(activation) for _ in range(3)]
    await asyncio.to_thread(gate.write_text, "go")
    assert isinstance(await running, Settled)
    assert [type(other) for other in others] == [Busy] * 3
    assert (world.root / "starts").read_text() == "x\n"


async def test_nul_bytes_and_a_line_without_an_end(world: World) -> None:
    """What a command prints is kept within bounds, is readable, and harms nothing: the step succeeds, its record verifies."""
    prints = f"import sys; o = sys.stdout.buffer; o.write(b'a\\0b' + b'x' * {LINE_BYTES} + b'\\0end')"
    activation = world.activation(command("print", "python3", "-c", prints, scope=READ_ONLY))
    settlement = await world.settle(activation)
    assert str(settlement.outcome) == "completed"
    stored = sum(path.stat().st_size for path in world.state.rglob("*") if path.is_file())
    assert stored < LINE_BYTES / 2
    assert b"\0end" not in b"".join(path.read_bytes() for path in world.state.rglob("artifacts/**/*") if path.is_file())
    assert RunnerFactory(world.config()).open_records().verify(DeliveryId("d1")).ok
