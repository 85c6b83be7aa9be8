"""Whatever a command starts, and however it ends, nothing of it runs afterwards."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operations.conftest import Bench
from tests.operations.fakes import HeldClock

Alive = Callable[[str], list[int]]

DAEMON = """
import os, signal
for _ in range(2):                      # the classic double fork, with a session of its own
    if os.fork(): os._exit(0)
    os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("daemon-up", "w").close()
while True: signal.pause()
"""
AWAIT_DAEMON = f"{sys.executable} daemon.py; while [ ! -e daemon-up ]; do sleep 0.01; done"


def _env(marker: str) -> dict[str, str]:
    return {"RUNNER_TEST_MARKER": marker}


@pytest.fixture
def marker(tmp_path: Path) -> str:
    return f"marker-{os.getpid()}-{tmp_path.name}"


async def test_background_process_does_not_hang_the_step(bench: Bench, alive: Alive, marker: str) -> None:
    """It keeps the pipes open after the command has exited: it is ended, and the exit status is the command's."""
    result = await bench.sh("sleep 1000 & echo done; exit 4", env=_env(marker))
    assert (result.end, result.status, result.stdout) == ("exit", 4, "done\n")
    assert alive(marker) == []


async def test_daemon_is_found(bench: Bench, alive: Alive, marker: str) -> None:
    """A double fork into a session of its own that ignores TERM does not get away."""
    (bench.worktree / "daemon.py").write_text(DAEMON)
    result = await bench.sh(AWAIT_DAEMON, env=_env(marker))
    assert (result.end, result.status) == ("exit", 0)
    assert alive(marker) == []


async def test_tree_of_sessions(bench: Bench, alive: Alive, marker: str) -> None:
    """Children of killed children come to the supervisor and are ended too, to any depth."""
    nested = "setsid sh -c 'setsid sh -c \"setsid sleep 1000 & sleep 1000\" & sleep 1000' & echo up"
    assert (await bench.sh(nested, env=_env(marker))).stdout == "up\n"
    assert alive(marker) == []


async def test_timeout_is_told_apart(bench: Bench, held_clock: HeldClock, alive: Alive, marker: str) -> None:
    """A process that is ended by its timeout is a timeout, though it exits by itself on TERM."""
    runner = bench.runner(clock=held_clock)
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    work = asyncio.create_task(runner.command(bench.request("/bin/sh", "-c", script, env=_env(marker))))
    await bench.shown.seen("ready")
    held_clock.strike.set()
    result = await work
    assert (result.end, result.status, result.stdout) == ("timeout", 0, "ready\nbye\n")
    assert bench.ledger.kinds == ["tool.called", "process.started", "tool.succeeded"]
    assert alive(marker) == []


async def test_ignoring_term(bench: Bench, held_clock: HeldClock, alive: Alive, marker: str) -> None:
    """TERM, the grace, then KILL: to the whole tree."""
    runner = bench.runner(clock=held_clock, grace_s=0.1)
    script = "trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done"
    work = asyncio.create_task(runner.command(bench.request("/bin/sh", "-c", script, env=_env(marker))))
    await bench.shown.seen("ready")
    held_clock.strike.set()
    result = await work
    assert (result.end, result.status) == ("timeout", signal.SIGKILL)
    assert alive(marker) == []


async def test_stopped_process(bench: Bench, held_clock: HeldClock, alive: Alive, marker: str) -> None:
    """A process that stopped itself is ended like any other."""
    runner = bench.runner(clock=held_clock, grace_s=0.1)
    work = asyncio.create_task(runner.command(bench.request("sh", "-c", "echo ready; kill -STOP $$", env=_env(marker))))
    await bench.shown.seen("ready")
    held_clock.strike.set()
    assert (await work).end == "timeout"
    assert alive(marker) == []


async def test_cancelled(bench: Bench, alive: Alive, marker: str) -> None:
    """The cancellation travels on when everything has ended; more of them change nothing. What the command had done by then
    is as unknown as after a crash, and no result pretends to know."""
    script = "trap 'echo > told; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    work = asyncio.create_task(bench.runner().command(bench.request("sh", "-c", script, env=_env(marker))))
    await bench.shown.seen("ready")
    work.cancel()
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert alive(marker) == []
    assert (bench.worktree / "told").exists()
    assert bench.ledger.kinds == ["tool.called", "process.started"]


async def test_cancelled_before_the_start(bench: Bench) -> None:
    """Nothing is started any more, and that is what the ledger says."""
    work = asyncio.create_task(bench.sh("touch ran"))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not (bench.worktree / "ran").exists()
    assert bench.ledger.kinds == ["tool.called", "tool.failed"]


@pytest.mark.parametrize("kill", ["$PPID", "$(ps -o ppid= -p $PPID)", "$PPID $(ps -o ppid= -p $PPID)"])
async def test_killing_the_supervisors(plain: Bench, alive: Alive, marker: str, kill: str) -> None:
    """A command that kills its supervisor, the guard, or both gains nothing: its group is ended, the step has an answer."""
    result = await plain.sh(f"sleep 1000 & kill -KILL {kill}; sleep 1000", env=_env(marker))
    assert (result.end, result.status) == ("signal", signal.SIGKILL)
    assert "supervisor" in result.message
    await _gone(alive, marker)


@pytest.mark.parametrize("kill", ["$PPID", "$(ps -o ppid= -p $PPID)"])
async def test_a_killed_supervisors_orphans_are_found(plain: Bench, alive: Alive, marker: str, kill: str) -> None:
    """Daemons in sessions of their own, too, when one of the two processes above them is killed: the other ends them."""
    (plain.worktree / "daemon.py").write_text(DAEMON)
    result = await plain.sh(f"{AWAIT_DAEMON}; kill -KILL {kill}; sleep 1000", env=_env(marker))
    assert result.end == "signal"
    assert alive(marker) == []


@pytest.mark.parametrize("stop", ["$PPID", "$PPID $(ps -o ppid= -p $PPID)"])
async def test_stopped_supervisors(plain: Bench, held_clock: HeldClock, alive: Alive, marker: str, stop: str) -> None:
    """A command that stops those above it is still ended by its timeout."""
    runner = plain.runner(clock=held_clock)
    script = f"(sleep 0.1; echo ready) & kill -STOP {stop}; sleep 1000"
    work = asyncio.create_task(runner.command(plain.request("sh", "-c", script, env=_env(marker))))
    await plain.shown.seen("ready")
    held_clock.strike.set()
    assert (await work).end == "timeout"
    assert alive(marker) == []


async def test_everything_at_once(bench: Bench, held_clock: HeldClock, alive: Alive, marker: str) -> None:
    """Endless output, no ear for TERM, a daemon in another session that floods the same pipe: ended, and bounded."""
    (bench.worktree / "daemon.py").write_text(DAEMON.replace("signal.pause()", "print('x' * 9999)"))
    runner = bench.runner(clock=held_clock, grace_s=0.1)
    script = f"trap '' TERM; echo ready; {AWAIT_DAEMON}; yes flood & yes flood >&2"
    work = asyncio.create_task(runner.command(bench.request("sh", "-c", script, env=_env(marker))))
    await bench.shown.seen("flood")
    held_clock.strike.set()
    result = await work
    assert (result.end, result.status, result.truncated) == ("timeout", signal.SIGKILL, True)
    assert max(len(result.stdout), len(result.stderr)) < 5000
    assert alive(marker) == []


DRIVER = """
import asyncio, sys
from pathlib import Path
from tests.operations.conftest import Bench
from tests.operations.test_nothing_left import AWAIT_DAEMON

bench = Bench(Path(sys.argv[1]))
daemon = f"{AWAIT_DAEMON}; trap '' TERM; setsid sleep 1000 & echo up > up; sleep 1000"
asyncio.run(bench.sh(daemon, env={"RUNNER_TEST_MARKER": sys.argv[2]}))
"""


async def test_driver_killed(plain: Bench, alive: Alive, marker: str) -> None:
    """SIGKILL of the driver leaves nothing: the supervisor sees the closed socket."""
    (plain.worktree / "daemon.py").write_text(DAEMON)
    driver = await asyncio.create_subprocess_exec(sys.executable, "-c", DRIVER, str(plain.worktree), marker)
    while not (plain.worktree / "up").exists():
        assert driver.returncode is None
        await asyncio.sleep(0.01)
    assert alive(marker)
    driver.kill()
    await driver.wait()
    await _gone(alive, marker)


async def _gone(alive: Alive, marker: str) -> None:
    """Nothing with the marker runs any more; the promise is 3 s, a loaded machine may need longer to show it."""
    async with asyncio.timeout(20):
        while alive(marker):  # noqa: ASYNC110 - processes of nobody give no event
            await asyncio.sleep(0.01)
