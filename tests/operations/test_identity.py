"""Who a command is stands in the ledger before it does anything, and it does nothing if that cannot be written."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import ProcessStarted, ToolCalled, ToolFailed
from runner.contract.records import Record
from tests.operations.conftest import Bench
from tests.operations.fakes import MemoryLedger

Alive = Callable[[str], list[int]]


def stat(pid: int) -> list[str]:
    """Fields 3 and on of ``/proc/PID/stat``."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def matches(pid: int, start_time: str, group: int) -> bool:
    """The three-fold comparison that recovery makes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        fields = stat(pid)
    except OSError:
        return False
    return f"{boot}:{fields[19]}" == start_time and int(fields[2]) == group and fields[0] != "Z"


async def test_the_record_names_the_process(bench: Bench) -> None:
    """Intent and identity come together, in this order; then the process waits, leading its group, and has run nothing."""
    seen: list[tuple[bool, ...]] = []

    def look(record: Record) -> None:
        if isinstance(record.event, ProcessStarted):
            event = record.event
            own = Path(f"/proc/{event.pid}/cmdline").read_bytes().startswith(os.fsencode(sys.executable))
            guard = matches(event.guard, event.guard_start_time, event.guard)
            seen.append((matches(event.pid, event.start_time, event.group), event.pid == event.group, own, guard))

    bench.ledger.on_append = look
    result = await bench.sh("echo $$")
    assert seen == [(True, True, True, True)]
    called, started = (r.event for r in bench.ledger.records[:2])
    assert isinstance(called, ToolCalled) and isinstance(started, ProcessStarted)
    assert called.call == started.call
    # Inside it has another number: what the record names is process 1 there.
    assert int(result.stdout) == (started.pid if bench.containment is None else 2)


@pytest.mark.parametrize(("room", "appends"), [(0, []), (1, ["tool.called"])])
async def test_no_record_no_start(bench: Bench, alive: Alive, tmp_path: Path, room: int, appends: list[str]) -> None:
    """A ledger that refuses intent or identity: the error arrives, the held process is gone and has executed nothing."""
    bench.ledger = MemoryLedger(full_after=room)
    marker = f"marker-{os.getpid()}-{tmp_path.name}"
    with pytest.raises(EnvironmentFault) as caught:
        await bench.sh("touch ran", env={"RUNNER_TEST_MARKER": marker})
    assert caught.value.code is Code.DISK_FULL
    assert bench.ledger.kinds == appends
    assert not (bench.worktree / "ran").exists()
    assert alive(marker) == []


async def test_cancelled_while_it_is_recorded(bench: Bench) -> None:
    """A cancellation that comes during the append: the append ends, the process is not let go, and that is recorded."""
    at_it, go_on = threading.Event(), threading.Event()

    def hold(record: Record) -> None:
        if isinstance(record.event, ProcessStarted):
            at_it.set()
            assert go_on.wait(20)

    bench.ledger.on_append = hold
    work = asyncio.create_task(bench.sh("touch ran"))
    await asyncio.to_thread(at_it.wait)
    work.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not (bench.worktree / "ran").exists()
    started, failed = (r.event for r in bench.ledger.records[1:])
    assert isinstance(started, ProcessStarted) and isinstance(failed, ToolFailed)
    assert failed.message == "it was cancelled before it started"
    assert not matches(started.pid, started.start_time, started.group)


async def test_not_startable_is_recorded_after_its_identity(bench: Bench) -> None:
    """What cannot execute is known only once it tries: intent, identity, failure."""
    assert (await bench.runner().command(bench.request("no-such-program"))).end == "not-started"
    assert bench.ledger.kinds == ["tool.called", "process.started", "tool.failed"]


DRIVER = """
import asyncio, os, signal, sys
from pathlib import Path
from runner.contract.events import ProcessStarted
from tests.operations.conftest import Bench

bench = Bench(Path(sys.argv[1]))

def on_append(record):
    if isinstance(record.event, ProcessStarted):
        event = record.event
        (bench.worktree / "identity").write_text(f"{event.pid} {event.start_time} {event.group}")
        (bench.worktree / "guard").write_text(f"{event.guard} {event.guard_start_time} {event.guard}")
        if sys.argv[2] == "die":
            os.kill(os.getpid(), signal.SIGKILL)

bench.ledger.on_append = on_append
daemon = "setsid sleep 1000 &" if sys.argv[2] == "daemon" else ""
asyncio.run(bench.sh(f"trap '' TERM; {daemon} echo $PPID > ran.new; mv ran.new ran; sleep 1000 & wait"))
"""


async def drive(bench: Bench, how: str, marker: str) -> "asyncio.subprocess.Process":
    """A driver of its own; its supervisors inherit its environment, and so does the process that they hold."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRIVER, str(bench.worktree), how, env={**os.environ, "RUNNER_TEST_MARKER": marker}
    )


def identity(bench: Bench, name: str = "identity") -> tuple[int, str, int]:
    pid, start_time, group = (bench.worktree / name).read_text().split()
    return int(pid), start_time, int(group)


async def gone(still: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while still():  # noqa: ASYNC110 - processes of nobody give no event
            await asyncio.sleep(0.01)


async def test_driver_killed_between_record_and_release(plain: Bench, alive: Alive, tmp_path: Path) -> None:
    """SIGKILL right after the identity is durable: the held process never executes the command, and nothing stays."""
    marker = f"marker-{os.getpid()}-{tmp_path.name}"
    driver = await drive(plain, "die", marker)
    assert await driver.wait() == -signal.SIGKILL
    await gone(lambda: alive(marker) or matches(*identity(plain)))
    assert not (plain.worktree / "ran").exists()


async def test_the_guard_goes_last(plain: Bench, alive: Alive, tmp_path: Path) -> None:
    """SIGKILL of the driver: from the moment that the recorded guard has gone, nothing runs, daemons included."""
    marker = f"marker-{os.getpid()}-{tmp_path.name}"
    driver = await drive(plain, "daemon", marker)
    await gone(lambda: not (plain.worktree / "ran").exists())
    assert matches(*identity(plain, "guard"))
    driver.kill()
    await gone(lambda: matches(*identity(plain, "guard")))
    assert alive(marker) == []
    await driver.wait()


async def test_who_kills_them_all_leaves_one_that_matches(plain: Bench, alive: Alive, tmp_path: Path) -> None:
    """Driver, guard and supervisor killed: the command runs on, is what the record says, and its group is all of it."""
    marker = f"marker-{os.getpid()}-{tmp_path.name}"
    driver = await drive(plain, "live", marker)
    await gone(lambda: not (plain.worktree / "ran").exists())
    supervisor = int((plain.worktree / "ran").read_text())
    group = identity(plain)[2]
    above = [driver.pid, int(stat(supervisor)[1]), supervisor]
    try:
        # Stopped first: none may see the other die.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in above:
                os.kill(pid, number)
        await driver.wait()
        assert matches(*identity(plain))
    finally:
        os.killpg(group, signal.SIGKILL)
    await gone(lambda: alive(marker) or matches(*identity(plain)))
