"""Which Deliveries go, from their ages, ends and sizes alone."""

import datetime as dt

import pytest

from runner.contract.kept import Retention
from runner.coordinator.retention import Settled, chosen

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def settled(name: str, days: float, *, good: bool = True, size: int = 10) -> Settled:
    return Settled(delivery=name, settled_at=NOW - dt.timedelta(days=days), good=good, bytes=size)


SOME = (settled("new", 1), settled("bad", 90, good=False), settled("older", 60), settled("old", 40))


@pytest.mark.parametrize(
    ("policy", "go"),
    [
        (Retention(), []),
        (Retention(keep_count=0), ["older", "old"]),
        (Retention(keep_count=2), ["older"]),
        (Retention(keep_count=0, keep_days=50), ["older"]),
        (Retention(keep_count=0, failed=True), ["bad", "older", "old"]),
        (Retention(keep_count=0, keep_days=1000, max_bytes=20), ["older", "old"]),
        (Retention(keep_count=0, keep_days=1000, max_bytes=20, failed=True), ["bad", "older"]),
        (Retention(keep_count=3, keep_days=1000, max_bytes=0), []),
        (Retention(keep_count=0, keep_days=1000, max_bytes=40), []),
    ],
)
def test_the_oldest_go_first_and_only_as_many_as_needed(policy: Retention, go: list[str]) -> None:
    """Count protects before age, age before size; what ended badly only goes when it is asked for."""
    found = chosen(SOME, policy, NOW)
    assert [name for name, (goes, _) in found.items() if goes] == go
    assert set(found) == {one.delivery for one in SOME} and all(why for _, why in found.values())
