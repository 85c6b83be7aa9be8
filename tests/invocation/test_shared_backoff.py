"""The pause after a rate limit or an overload, kept by every Delivery and process under one state root."""

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from runner.contract.layout import backoff_file
from runner.contract.ports import Completed, Failed
from runner.invocation.shared_backoff import SHARED_S_MAX, SharedBackoff
from tests.invocation.conftest import Make
from tests.invocation.fakes import Delivery, completes, fails

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def later(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def another(delivery: Delivery, tmp: Path) -> Delivery:
    """A Delivery of its own, in a process of its own, under the same state root."""
    tmp.mkdir()
    other = Delivery(tmp, opened=False)
    other.state_root, other.clock.time = delivery.state_root, delivery.clock.time
    other.open()
    return other


@pytest.mark.parametrize("status", [429, 503])
async def test_another_process_keeps_the_pause(make: Make, tmp_path: Path, status: int) -> None:
    """Before its call leaves; then it goes on, and nothing of its work is lost."""
    delivery, other = make(), None
    delivery.script.turns = [fails(http_status=status, retry_after_s=200.0)]
    try:
        said = await delivery.invocation.invoke(delivery.dispatch(attempts_max=1))
        assert isinstance(said, Failed)
        other = another(delivery, tmp_path / "other")
        other.clock.time += 50.0
        other.script.turns = [completes()]
        assert isinstance(await other.invocation.invoke(other.dispatch()), Completed)
        assert other.clock.slept == [pytest.approx(150.0)]
    finally:
        if other is not None:
            other.close()


async def test_too_long_a_pause_suspends_the_others_without_a_call(make: Make, tmp_path: Path) -> None:
    """With what is left of it."""
    delivery = make()
    delivery.script.turns = [fails(http_status=429, retry_after_s=1_000.0)]
    await delivery.invocation.invoke(delivery.dispatch())
    other = another(delivery, tmp_path / "other")
    try:
        other.clock.time += 400.0
        said = await other.invocation.invoke(other.dispatch())
        assert isinstance(said, Failed)
        assert said.code == "backing-off"
        assert said.suspend_s == pytest.approx(600.0)
        assert other.script.sent == []
        assert other.clock.slept == []
    finally:
        other.close()


@pytest.mark.parametrize("signals", [{"http_status": 500}, {"http_status": 401}, {"error_code": "connection"}])
async def test_nothing_else_sets_it(make: Make, signals: dict[str, Any]) -> None:
    """A dead connection is this process's; a refused key is for a person to mend."""
    delivery = make()
    delivery.script.turns = [fails(**signals)] * 3
    await delivery.invocation.invoke(delivery.dispatch())
    assert not backoff_file(delivery.state_root, "fake").exists()


def test_it_is_kept_and_only_prolonged(tmp_path: Path) -> None:
    """By whoever reads the file; a shorter pause does not end a longer one; then it is over."""
    path = backoff_file(tmp_path, "p")
    SharedBackoff(path).extend(100.0, NOW)
    SharedBackoff(path).extend(5.0, later(10))
    assert SharedBackoff(path).left_s(later(40)) == 60.0
    SharedBackoff(path).extend(100.0, later(50))
    assert SharedBackoff(path).left_s(later(60)) == 90.0
    assert SharedBackoff(path).left_s(later(151)) == 0.0
    assert [p.name for p in path.parent.iterdir()] == ["p.json"]


def test_a_clock_that_was_set_back_makes_nobody_wait(tmp_path: Path) -> None:
    """A pause from the future is none; a clock that is a little behind waits no longer than the pause."""
    shared = SharedBackoff(backoff_file(tmp_path, "p"))
    shared.extend(100.0, NOW)
    assert shared.left_s(later(-3_600)) == 0.0
    assert shared.left_s(later(-5)) == 100.0


def test_no_endpoint_stops_everybody_for_ever(tmp_path: Path) -> None:
    """Whatever it asks for."""
    shared = SharedBackoff(backoff_file(tmp_path, "p"))
    shared.extend(1e9, NOW)
    assert shared.left_s(NOW) == SHARED_S_MAX


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 1_024,
        json.dumps({"until": "never", "pause_s": 5}).encode(),
        json.dumps({"until": "2026-01-01T00:01:00", "pause_s": 90}).encode(),
        json.dumps({"until": "2026-01-01T00:01:00+00:00", "pause_s": None}).encode(),
        b'{"until": "2026-01-01T00:01:00+00:00", "pause_s": NaN}',
        b'{"until": "2026-01-01T00:01:00+00:00", "pause_s": Infinity}',
        b'{"until": "9999-12-31T00:01:00+00:00", "pause_s": 1e308}',
    ],
)
def test_a_damaged_file_says_nothing(tmp_path: Path, content: bytes) -> None:
    """And is replaced by the next pause."""
    path = backoff_file(tmp_path, "p")
    path.parent.mkdir()
    path.write_bytes(content)
    assert SharedBackoff(path).left_s(NOW) == 0.0
    SharedBackoff(path).extend(9.0, NOW)
    assert SharedBackoff(path).left_s(NOW) == 9.0


def test_what_is_no_file_is_not_waited_on(tmp_path: Path) -> None:
    """A pipe nobody writes to, a link elsewhere, a directory in the way: no pause, no error."""
    for name, make in (("pipe", os.mkfifo), ("link", lambda p: p.symlink_to("/dev/zero")), ("dir", Path.mkdir)):
        path = backoff_file(tmp_path, name)
        path.parent.mkdir(exist_ok=True)
        make(path)
        assert SharedBackoff(path).left_s(NOW) == 0.0
        SharedBackoff(path).extend(9.0, NOW)
    SharedBackoff(tmp_path / "no" / "such" / "place.json").extend(9.0, NOW)
