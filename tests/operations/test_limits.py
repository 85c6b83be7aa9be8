"""What a contained command uses, and what is left of it: bounded, and nothing."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hosts.operations.boundary import Containment
from runner.contract.config import Boundary
from tests.operations.conftest import Bench
from tests.operations.fakes import HeldClock

Alive = Callable[[str], list[int]]
Bounded = Callable[..., Bench]
MIB = 1 << 20


@pytest.fixture
def bounded(plain: Bench, bwrap: str) -> Bounded:
    """A bench whose commands are contained within some bounds."""

    def make(**bounds: Any) -> Bench:
        plain.containment = Containment(bwrap=bwrap, boundary=Boundary(**bounds))
        return plain

    return make


def _env(path: Path) -> dict[str, str]:
    return {"RUNNER_TEST_MARKER": f"marker-{path.name}"}


async def test_fork_bomb(bounded: Bounded, alive: Alive, tmp_path: Path) -> None:
    """Ended as a whole soon after it has more processes than it may, as root too, and it is said why."""
    bench = bounded(processes=32)
    result = await bench.sh("b() { b | b & }; b; sleep 1000", env=_env(tmp_path))
    assert (result.end, result.status) == ("signal", signal.SIGKILL)
    assert "boundary.processes" in result.message
    assert alive(_env(tmp_path)["RUNNER_TEST_MARKER"]) == []


async def test_memory_of_one(bounded: Bounded) -> None:
    """One process that asks for more than it may have is refused by the system, at once."""
    bench = bounded(memory_bytes=64 * MIB)
    result = await bench.runner().command(bench.request(sys.executable, "-c", f"x = bytearray({128 * MIB})"))
    assert (result.end, result.status) == ("exit", 1) and "MemoryError" in result.stderr


async def test_memory_of_many(bounded: Bounded) -> None:
    """Processes that each keep within the bound do not get around it together."""
    bench = bounded(memory_bytes=96 * MIB)
    program = f"import os, signal\nfor _ in range(5): os.fork()\nx = b'x' * {32 * MIB}\nsignal.pause()"
    result = await bench.runner().command(bench.request(sys.executable, "-c", program))
    assert (result.end, result.status) == ("signal", signal.SIGKILL)
    assert "boundary.memory_bytes" in result.message


async def test_memory_that_is_shared_counts_once(bounded: Bounded) -> None:
    """Children that share what their parent holds are no bomb."""
    bench = bounded(memory_bytes=96 * MIB)
    program = (
        f"import os, time\nx = b'x' * {40 * MIB}\nchildren = [os.fork() for _ in range(1)]\n"
        "for _ in range(3): children.append(os.fork() if children[-1] else 0)\n"
        "time.sleep(0.5)"
    )
    assert (await bench.runner().command(bench.request(sys.executable, "-c", program))).end == "exit"


async def test_cpu_time(bounded: Bounded) -> None:
    """All processes together, the ended ones included."""
    bench = bounded(cpu_s=1)
    result = await bench.sh("while :; do :; done & while :; do :; done")
    assert (result.end, result.status) == ("signal", signal.SIGKILL)
    assert "boundary.cpu_s" in result.message


async def test_disk_filler(bounded: Bounded) -> None:
    """A file ends at its bound, and what is not the worktree is memory that is bounded as well."""
    bench = bounded(memory_bytes=48 * MIB, file_bytes=4 * MIB)
    assert (await bench.sh("exec head -c 9M /dev/zero > big")).end == "signal"
    assert (bench.worktree / "big").stat().st_size == 4 * MIB
    for place in ("$TMPDIR", "$HOME", "/dev/shm"):
        fill = f"for n in 1 2 3 4; do head -c 3M /dev/zero > {place}/$n || exit 3; done"
        result = await bench.sh(fill)
        assert (result.end, result.status) == ("exit", 3) and "No space left" in result.stderr
    (bench.worktree / "big").unlink()


async def test_output_flood_of_something_that_cannot_be_told_to_end(
    bounded: Bounded, held_clock: HeldClock, alive: Alive, tmp_path: Path
) -> None:
    """Bounded, and ended by its timeout, with the whole tree, whatever it ignores."""
    bench = bounded()
    script = "trap '' TERM; (trap '' TERM; setsid yes flood >&2) & echo ready; yes flood"
    runner = bench.runner(clock=held_clock, grace_s=0.1)
    work = asyncio.create_task(runner.command(bench.request("sh", "-c", script, env=_env(tmp_path))))
    await bench.shown.seen("flood")
    held_clock.strike.set()
    result = await work
    assert (result.end, result.truncated) == ("timeout", True)
    assert alive(_env(tmp_path)["RUNNER_TEST_MARKER"]) == []


async def test_what_is_left_writing_in_the_background(bounded: Bounded, alive: Alive, tmp_path: Path) -> None:
    """It has ended before the step has, so the verdict sees everything that it ever wrote."""
    bench = bounded()
    script = "setsid sh -c 'trap \"\" TERM; while :; do echo x >> more; done' & while [ ! -s more ]; do :; done"
    assert (await bench.sh(script, env=_env(tmp_path))).end == "exit"
    assert alive(_env(tmp_path)["RUNNER_TEST_MARKER"]) == []


async def test_killing_what_is_above_gains_nothing(bounded: Bounded) -> None:
    """Process 1 inside cannot be killed or stopped from there: the command goes on and ends as it would."""
    result = await bounded().sh("kill -KILL $PPID; kill -STOP $PPID; echo on; exit 5")
    assert (result.end, result.status, result.stdout) == ("exit", 5, "on\n")


DRIVER = """
import asyncio, sys
from pathlib import Path
from typing import Any
from hosts.operations.boundary import Containment
from runner.contract.config import Boundary
from tests.operations.conftest import Bench

bench = Bench(Path(sys.argv[1]))
bench.containment = Containment(bwrap=sys.argv[3], boundary=Boundary())
script = "trap '' TERM; setsid sleep 1000 & echo up > up; sleep 1000"
asyncio.run(bench.sh(script, env={"RUNNER_TEST_MARKER": sys.argv[2]}))
"""


async def test_driver_killed(plain: Bench, alive: Alive, tmp_path: Path, bwrap: str) -> None:
    """SIGKILL of the driver takes everything inside along."""
    marker = _env(tmp_path)["RUNNER_TEST_MARKER"]
    driver = await asyncio.create_subprocess_exec(sys.executable, "-c", DRIVER, str(plain.worktree), marker, bwrap)
    while not (plain.worktree / "up").exists():
        assert driver.returncode is None
        await asyncio.sleep(0.01)
    driver.kill()
    await driver.wait()
    async with asyncio.timeout(20):
        while alive(marker):  # noqa: ASYNC110 - processes of nobody give no event
            await asyncio.sleep(0.01)
