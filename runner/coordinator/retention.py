"""Which Deliveries go: whole, settled ones, the oldest first. Pure."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from runner.contract.kept import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One that could go."""

    delivery: str
    settled_at: dt.datetime
    good: bool
    """It completed, and its result is where it was wanted."""
    bytes: int


def chosen(settled: Iterable[Settled], policy: Retention, now: dt.datetime) -> dict[str, tuple[bool, str]]:
    """For each, oldest first, whether it goes, and why."""
    oldest_first = sorted(settled, key=lambda one: (one.settled_at, one.delivery))
    newest = {one.delivery for one in oldest_first[max(0, len(oldest_first) - policy.keep_count) :]}
    left = sum(one.bytes for one in oldest_first)
    found: dict[str, tuple[bool, str]] = {}
    for one in oldest_first:
        days = (now - one.settled_at) / dt.timedelta(days=1)
        if not one.good and not policy.failed:
            found[one.delivery] = (False, "it did not complete and publish; --failed takes it too")
        elif one.delivery in newest:
            found[one.delivery] = (False, f"one of the {policy.keep_count} newest")
        elif days > policy.keep_days:
            found[one.delivery] = (True, f"settled {days:.0f} days ago")
        elif policy.max_bytes is not None and left > policy.max_bytes:
            found[one.delivery] = (True, f"all together took more than {policy.max_bytes} bytes")
        else:
            found[one.delivery] = (False, f"settled {days:.0f} days ago")
        left -= one.bytes if found[one.delivery][0] else 0
    return found
