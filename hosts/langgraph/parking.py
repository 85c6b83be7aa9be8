"""Steps that wait for something outside while the rest goes on, and how the drive ends when only they are left."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable
from typing import Final

from hosts.langgraph.readiness import Topology
from hosts.langgraph.waits import seconds_left
from runner.contract.ids import SiteId
from runner.contract.outcomes import OpenWait
from runner.contract.ports import HostSuspended

DETAIL_CHARS_MAX: Final = 2_000


class Parking:
    """The parked steps of one drive. Each is open in the ledger."""

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self._parked: Final[dict[SiteId, HostSuspended]] = {}

    def __contains__(self, site: object) -> bool:
        return site in self._parked

    def __bool__(self) -> bool:
        return bool(self._parked)

    def park(self, site: SiteId, report: HostSuspended) -> None:
        """``site`` waits for what ``report`` says."""
        self._parked[site] = report

    @property
    def holds_worktree(self) -> bool:
        """Whether an open attempt is parked on the worktree: another step's savepoint would come between it and the one
        that it returns to."""
        return any(self._topology.sites[site].uses_workspace for site in self._parked)

    @property
    def waits(self) -> dict[SiteId, OpenWait]:
        """The questions that parked steps wait with."""
        return {site: report.waits[0] for site, report in self._parked.items() if report.waits}

    def keep(self, open_sites: Collection[SiteId]) -> None:
        """Forgets the steps that are not open any more: a loop went over them."""
        for site in [s for s in self._parked if s not in open_sites]:
            del self._parked[site]

    def release(self, due: Callable[[OpenWait], bool]) -> tuple[SiteId, ...]:
        """Takes out the steps whose question is ``due``: answered, or over."""
        released = tuple(site for site, wait in self.waits.items() if due(wait))
        for site in released:
            del self._parked[site]
        return released

    def suspended(self, now: dt.datetime) -> HostSuspended:
        """All that the Delivery waits for, as one boundary: questions first, in declaration order, and the nearest time at
        which to go on."""
        reports = tuple(self._parked[site] for site in self._topology.sites if site in self._parked)
        waits = tuple(wait for report in reports for wait in report.waits)
        if not waits:
            return min(reports, key=lambda report: report.resume_in_s or 0.0)
        approvals = any(wait.kind == "approval" for wait in waits)
        kind = "approval" if approvals else "interaction"
        first = next(report for report in reports if any(wait.kind == kind for wait in report.waits))
        detail = first.detail if len(waits) == 1 else f"open questions: {', '.join(wait.wait for wait in waits)}"
        return HostSuspended(
            reason="wait" if approvals else "interaction",
            detail=detail[:DETAIL_CHARS_MAX],
            step=first.step,
            resume_in_s=min(_times(reports, now), default=None),
            waits=waits,
        )


def _times(reports: Iterable[HostSuspended], now: dt.datetime) -> Iterable[float]:
    for report in reports:
        if report.resume_in_s is not None:
            yield report.resume_in_s
        yield from (left for wait in report.waits if (left := seconds_left(wait, now)) is not None)
