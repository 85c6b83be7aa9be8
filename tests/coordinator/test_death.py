"""Dying anywhere: executed again, the same settlement."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.contract.layout import leases_dir
from tests.coordinator.fakes import House
from tests.coordinator.test_execute import die, settled

POINTS = [
    "custody.baseline",
    "host.drive",
    "host.plan",
    "host.tests",
    "invocation.conclude",
    "custody.settle_interrupted",
    "custody.preserve",
    "custody.preserved",
    "custody.publish",
    "custody.asked",
    "custody.moved",
    "custody.published",
    "host.retire",
    "host.retired",
    "invocation.retire",
    "invocation.retired",
    "custody.retire",
    "custody.retired",
]


async def test_the_points_are_all_there_are(house: House) -> None:
    """The list of points to die at is the list of points that a Delivery passes."""
    await house.coordinator().execute(house.activation())
    assert house.world.points == POINTS


@pytest.mark.parametrize("point", POINTS)
async def test_dying_anywhere_settles_the_same(house: House, tmp_path: Path, point: str) -> None:
    """Died at any point and executed again: the bytes of an undisturbed run, each effect once, no lease left, and once
    the terminal is recorded the host is not driven again."""
    expected = settled(await House(root=tmp_path / "whole").coordinator().execute(house.activation()))
    await die(house, point)
    assert settled(await house.coordinator().execute(house.activation())).to_bytes() == expected.to_bytes()
    assert set(house.world.effects.values()) == {1}
    if POINTS.index(point) > POINTS.index("invocation.conclude"):
        assert house.world.points.count("host.drive") == 1
    assert [path.name for path in leases_dir(house.state).iterdir()] == [".lock"]


def test_killed_after_any_record_settles_the_same(tmp_path: Path) -> None:
    """SIGKILL right after the n-th durable record, for every n that a Delivery reaches: the same settlement bytes."""
    command = [sys.executable, "-m", "tests.coordinator.kill_everywhere", str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path.cwd())
    report = json.loads(done.stdout)
    assert report["kills"] == report["records"] > 15
    assert report["settlements"] == 1
    assert report["leases"] == 0
