"""Takeover and left-over children: real processes, and none touched that is not the very one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.contract.errors import CallerError, Code
from runner.contract.events import ProcessStarted
from runner.contract.outcomes import Busy
from runner.coordinator import children, fence, processes
from runner.coordinator.takeover import take_over
from tests.coordinator.asking import ONE, layout
from tests.coordinator.fakes import House
from tests.coordinator.test_execute import settled

DRIVER = """
import asyncio, signal, subprocess, sys
from pathlib import Path
from runner.clock import SystemClock
from runner.contract import events
from runner.contract.records import Draft
from runner.coordinator import processes
from tests.coordinator.asking import A, begin
from tests.coordinator.fakes import House
how = sys.argv[2]
if how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
async def hold(host):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
    if how == "recorded":
        await begin(host)
        found = processes.look(child.pid)
        started = f"{processes.boot_id()}:{found.started}"
        event = events.ProcessStarted(call="c1", pid=child.pid, start_time=started, group=child.pid)
        host.case.ledger.writer("operations").append(Draft(event=event, step=A, attempt=1))
    print(child.pid, flush=True)
    await asyncio.Event().wait()
house = House(root=Path(sys.argv[1]), clock=SystemClock())
house.world.script = hold
asyncio.run(house.coordinator().execute(house.activation()))
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def driven(house: House, how: str) -> tuple[asyncio.subprocess.Process, processes.Process]:
    """Another process that drives, and what it started."""
    driver = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRIVER, str(house.root), how, stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
    )
    assert driver.stdout is not None
    child = processes.look(int(await driver.stdout.readline()))
    assert child is not None
    return driver, child


@pytest.mark.parametrize("how", ["running", "stopped", "deaf"])
async def test_a_live_driver_is_ended_with_all_it_started(house: House, how: str) -> None:
    """Running, stopped, or deaf to TERM: it is never overtaken, but ended on request with its children; then the fence is
    free and the Delivery goes on."""
    driver, child = await driven(house, how)
    if how == "stopped":
        driver.send_signal(signal.SIGSTOP)
    assert isinstance(await house.coordinator().execute(house.activation()), Busy)
    taken = await asyncio.to_thread(take_over, layout(house), 0.2, 0.1)
    assert {driver.pid, child.pid} <= set(taken.ended)
    assert await driver.wait() == (-signal.SIGKILL if how == "deaf" else -signal.SIGTERM)
    assert not processes.lives(child)
    settled(await house.coordinator().execute(house.activation()))


async def test_what_a_dead_driver_left_running(house: House) -> None:
    """Killed with SIGKILL, its recorded child still runs: the next execute ends it before anything is driven, by itself."""
    driver, child = await driven(house, "recorded")
    driver.kill()
    await driver.wait()
    assert processes.lives(child)
    seen: list[bool] = []
    house.world.on_rooms = lambda case: seen.append(processes.lives(child))
    house.world.script = None
    settled(await house.coordinator().execute(house.activation()))
    assert seen == [False]


def test_only_the_very_same_process_is_ended(sleeper: subprocess.Popen[bytes]) -> None:
    """Process id, boot, start time and group: with one of them wrong, it is somebody else and is not touched."""
    found = processes.look(sleeper.pid)
    assert found is not None
    boot = processes.boot_id()
    wrong = [
        ProcessStarted(call="c", pid=sleeper.pid, start_time=f"{boot}:1", group=sleeper.pid),
        ProcessStarted(call="c", pid=sleeper.pid, start_time=f"other:{found.started}", group=sleeper.pid),
        ProcessStarted(call="c", pid=sleeper.pid, start_time=found.started, group=sleeper.pid),
        ProcessStarted(call="c", pid=sleeper.pid, start_time="", group=sleeper.pid),
        ProcessStarted(call="c", pid=sleeper.pid, start_time=f"{boot}:{found.started}", group=1),
        ProcessStarted(call="c", pid=os.getpid(), start_time=f"{boot}:{found.started}", group=os.getpgrp()),
        ProcessStarted(call="c", pid=-1, start_time=f"{boot}:{found.started}", group=-1),
        ProcessStarted(call="c", pid=0, start_time=f"{boot}:{found.started}", group=0),
        ProcessStarted(call="c", pid=10**30, start_time=f"{boot}:{found.started}", group=10**30),
    ]
    assert children.end_left_over(wrong) == ()
    assert sleeper.poll() is None
    ours = processes.look(os.getpid())
    assert ours is not None
    assert not processes.send(ours, signal.SIGKILL)


def test_one_that_ends_by_itself_is_left_to_it(sleeper: subprocess.Popen[bytes]) -> None:
    """It is waited for; nothing is signalled."""
    found = processes.look(sleeper.pid)
    assert found is not None
    recorded = ProcessStarted(
        call="c", pid=found.pid, start_time=f"{processes.boot_id()}:{found.started}", group=found.group
    )
    assert children.identified(recorded) == found
    sleeper.kill()
    assert children.end_left_over([recorded]) == ()


def refused(house: House) -> str:
    with pytest.raises(CallerError) as caught:
        take_over(layout(house))
    assert caught.value.code is Code.TAKEOVER_REFUSED
    assert caught.value.remedy
    return caught.value.message


async def test_whom_nobody_takes_over_from(house: House, sleeper: subprocess.Popen[bytes]) -> None:
    """This very process, another host, a process that is not the recorded one, or nobody knows who: refused with the
    reason, and nothing is ended."""
    held = fence.acquire(layout(house), house.clock)
    assert isinstance(held, fence.Fence)
    assert "cannot be ended from here" in refused(house)
    true = json.loads(layout(house).owner.read_text())
    layout(house).owner.write_text(json.dumps({**true, "host": "elsewhere"}))
    assert "on elsewhere drives it" in refused(house)
    for wrong in ({"started": "1"}, {"boot": "b"}, {"pid": sleeper.pid}):
        layout(house).owner.write_text(json.dumps({**true, **wrong}))
        assert "is not the one" in refused(house)
    layout(house).owner.write_text("{}")
    assert "does not say by whom" in refused(house)
    assert sleeper.poll() is None
    held.release()


async def test_nobody_drives(house: House) -> None:
    """Nothing is ended; without any Delivery of that name it is unknown, and nothing is made."""
    with pytest.raises(CallerError) as caught:
        take_over(layout(house))
    assert caught.value.code is Code.DELIVERY_UNKNOWN
    assert not house.state.exists()
    settled(await house.coordinator().execute(house.activation()))
    assert (take_over(layout(house)).ended, take_over(layout(house)).delivery) == ((), ONE)
