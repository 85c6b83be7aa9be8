"""Which step now, and where an outcome leads: pure functions of the plan and a snapshot of the graph.

A snapshot is a fold of the ledger's step ends in order: ``advance`` takes one end and answers with what it changes. The
same function serves a live run and a recovery, so a killed run cannot come to another graph than an undisturbed one.

Visits: a site's visit is one more than the times it was re-opened. Taking a back route *closes* the deciding step: from
then on nothing downstream of the target starts, what is in flight there is consumed (its routing no longer counts), the
rest is recorded as superseded, and once every step there has an end all are re-opened together. Two closings at once take
effect in the order of their ledger sequence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Literal, NamedTuple

from runner.contract import plan as words
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepCompleted, StepFailed, StepSkipped, StepSuperseded
from runner.contract.ids import TERMINALS, SiteId, StepRef
from runner.contract.plan import Edge, Plan, Route, Site
from runner.contract.records import Record

ENVIRONMENT_CHANGED: Final = "environment-changed"
"""The failure code that ends the Delivery whatever the routes say."""

NOT_RUN: Final = frozenset({words.SKIPPED, words.SUPERSEDED})


class Mark(NamedTuple):
    """How a site last ended. ``outcome`` is the one that routes (after fallbacks); ``ran`` is the last visit that ran."""

    visit: int
    outcome: str
    ran: int


ClosingKind = Literal["back", "end", "environment"]


class Closing(NamedTuple):
    """A step end that closes: by a back route, by an end of the Delivery, or by a changed environment."""

    visit: int
    seq: int
    kind: ClosingKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The graph at ledger sequence ``sq``: marks, re-openings, visits that count for a budget (those before the last
    re-opening) and closings by site. Read-only to everything here."""

    st: Mapping[SiteId, Mark] = field(default_factory=dict)
    ep: Mapping[SiteId, int] = field(default_factory=dict)
    us: Mapping[SiteId, int] = field(default_factory=dict)
    cl: Mapping[SiteId, Closing] = field(default_factory=dict)
    sq: int = 0

    def visit(self, site: SiteId) -> int:
        """The visit that is open or was last ended."""
        return self.ep.get(site, 0) + 1

    def settled(self, site: SiteId) -> bool:
        """Whether ``site`` has an end at its visit."""
        mark = self.st.get(site)
        return mark is not None and mark.visit >= self.visit(site)

    def has_run(self, site: SiteId) -> bool:
        """Whether ``site`` ran at its visit, and has its end."""
        return self.settled(site) and self.st[site].ran == self.st[site].visit

    def step(self, site: SiteId) -> StepRef:
        return StepRef(site=site, visit=self.visit(site))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one end changes, and the sites that may now have become ready."""

    st: Mapping[SiteId, Mark]
    ep: Mapping[SiteId, int]
    us: Mapping[SiteId, int]
    cl: Mapping[SiteId, Closing]
    sq: int
    woken: tuple[SiteId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A step's end as routing needs it."""

    step: StepRef
    outcome: str
    failed: bool
    retriable: bool
    ran: bool
    code: str
    seq: int


class Readiness(Enum):
    SETTLED = "settled"
    WAITING = "waiting"
    HELD = "held"
    READY = "ready"
    SKIP_NEEDS = "needs"
    SKIP_NOT_CHOSEN = "not-chosen"
    SKIP_BLOCKED = "blocked"


SKIPS: Final[Mapping[Readiness, Literal["needs", "not-chosen", "blocked"]]] = {
    Readiness.SKIP_NEEDS: "needs",
    Readiness.SKIP_NOT_CHOSEN: "not-chosen",
    Readiness.SKIP_BLOCKED: "blocked",
}


class Topology:
    """A plan indexed for look-up."""

    def __init__(self, plan: Plan) -> None:
        self.sites: Final[Mapping[SiteId, Site]] = {site.id: site for site in plan.sites}
        self.reopens: Final[Mapping[SiteId, tuple[SiteId, ...]]] = dict(plan.reopens)

    def route(self, site: SiteId, outcome: str, *, failed: bool, retriable: bool) -> Route | None:
        """The route that ``outcome`` takes: the exact one, else for failures the declared fallbacks."""
        by_outcome = {route.outcome: route for route in self.sites[site].routes}
        for candidate in _candidates(outcome, failed=failed, retriable=retriable):
            if candidate in by_outcome:
                return by_outcome[candidate]
        return None

    def back_target(self, snapshot: Snapshot, site: SiteId) -> SiteId | None:
        """Where the back route leads that the mark of ``site`` takes, if it takes one."""
        mark = snapshot.st.get(site)
        for route in self.sites[site].routes:
            if route.back and mark is not None and route.outcome == mark.outcome:
                return SiteId(route.target)
        return None

    def reopened_by(self, snapshot: Snapshot, site: SiteId) -> tuple[SiteId, ...]:
        """What the closing of ``site`` re-opens: empty unless its mark takes a back route."""
        target = self.back_target(snapshot, site)
        return () if target is None else self.reopens[target]


def _candidates(outcome: str, *, failed: bool, retriable: bool) -> Iterable[str]:
    yield outcome
    if not failed or outcome not in (words.TIMEOUT, words.FAILURE):
        return
    if outcome == words.TIMEOUT:
        yield words.FAILURE
    if not retriable:
        yield words.NONRETRYABLE


# --- ready, skipped, blocked -----------------------------------------------------------------------------------------


def judge(topology: Topology, snapshot: Snapshot, site_id: SiteId) -> Readiness:
    """What is to be done about ``site_id`` now."""
    if snapshot.settled(site_id):
        return Readiness.SETTLED
    if held(topology, snapshot, site_id):
        return Readiness.HELD
    edges = topology.sites[site_id].edges
    if not all(snapshot.settled(edge.source) for edge in edges):
        return Readiness.WAITING
    return _by_edges(snapshot, edges)


def _by_edges(snapshot: Snapshot, edges: tuple[Edge, ...]) -> Readiness:
    needs = [snapshot.st[edge.source].outcome for edge in edges if edge.outcomes is None]
    routes = [(edge.outcomes, snapshot.st[edge.source].outcome) for edge in edges if edge.outcomes is not None]
    if any(outcome in words.FAILING for outcome in needs):
        return Readiness.SKIP_BLOCKED
    if routes:
        if any(outcome in taken for taken, outcome in routes):
            return Readiness.READY
        chose = any(outcome not in NOT_RUN for _, outcome in routes)
        return Readiness.SKIP_NOT_CHOSEN if chose else Readiness.SKIP_NEEDS
    if needs and all(outcome in NOT_RUN for outcome in needs):
        return Readiness.SKIP_NEEDS
    return Readiness.READY


def startable(topology: Topology, snapshot: Snapshot) -> tuple[SiteId, ...]:
    """Sites that could run or be skipped now, in declaration order."""
    waiting = (Readiness.SETTLED, Readiness.WAITING, Readiness.HELD)
    return tuple(s for s in topology.sites if judge(topology, snapshot, s) not in waiting)


def unfinished(topology: Topology, snapshot: Snapshot) -> tuple[SiteId, ...]:
    """Sites without an end at their visit, in declaration order."""
    return tuple(s for s in topology.sites if not snapshot.settled(s))


def something_succeeded(topology: Topology, snapshot: Snapshot) -> bool:
    """Whether a step without successors succeeded, which is what makes a finished Delivery ``completed``."""
    return any(
        snapshot.settled(site.id) and snapshot.st[site.id].outcome not in words.FAILING | NOT_RUN
        for site in topology.sites.values()
        if not site.successors
    )


# --- closings --------------------------------------------------------------------------------------------------------


def closings(snapshot: Snapshot) -> tuple[SiteId, ...]:
    """Steps whose back route is being taken, by ledger sequence."""
    found = [(c.seq, s) for s, c in snapshot.cl.items() if c.kind == "back" and c.visit == snapshot.visit(s)]
    return tuple(site for _, site in sorted(found))


def final(snapshot: Snapshot) -> SiteId | None:
    """The step whose end ends the Delivery; a changed environment before anything else, then the earliest."""
    ends = [(c.kind != "environment", c.seq, s) for s, c in snapshot.cl.items() if c.kind != "back"]
    return min(ends)[2] if ends else None


def held(topology: Topology, snapshot: Snapshot, site: SiteId) -> bool:
    """Whether ``site`` may not start because something that contains it is closing."""
    if not snapshot.cl:
        return False
    if final(snapshot) is not None:
        return True
    return any(site in topology.reopened_by(snapshot, closer) for closer in closings(snapshot))


def to_supersede(topology: Topology, snapshot: Snapshot, in_flight: frozenset[SiteId]) -> tuple[SiteId, ...]:
    """The steps that must be recorded as superseded so that the earliest closing can re-open; empty while something in
    it is in flight, or when nothing closes."""
    if final(snapshot) is not None:
        return ()
    for closer in closings(snapshot):
        group = topology.reopened_by(snapshot, closer)
        return () if in_flight.intersection(group) else tuple(s for s in group if not snapshot.settled(s))
    return ()


def exhausted(
    topology: Topology, snapshot: Snapshot, site: SiteId, route: Route | None, running: frozenset[SiteId]
) -> SiteId | None:
    """The step whose visits budget forbids that ``site``, one of the ``running``, takes ``route`` back, or None. A step that
    is itself being closed routes nowhere, so it exhausts nothing. A closing that is announced and not yet done opens a
    visit that the next one goes over before anything of it runs: it is not counted."""
    if route is None or not route.back or held(topology, snapshot, site):
        return None
    group = topology.reopens[SiteId(route.target)]
    counted = spent(topology, snapshot, group, running)
    for target in group:
        budget = topology.sites[target].budget_visits
        if budget is not None and snapshot.us.get(target, 0) + (target in counted) + 1 > budget:
            return target
    return None


def spent(
    topology: Topology, snapshot: Snapshot, group: tuple[SiteId, ...], running: frozenset[SiteId] = frozenset()
) -> tuple[SiteId, ...]:
    """The steps of ``group`` for whose budgets the visit counts that a loop ends: those that ran, or are ``running``. In a
    pass in which none with a budget ran, those that were skipped: a pass that counted for nobody could be repeated for
    ever, where the step that goes back runs because of something outside the loop."""
    bounded = [s for s in group if topology.sites[s].budget_visits is not None]
    ran = tuple(s for s in bounded if s in running or snapshot.has_run(s))
    return ran or tuple(s for s in bounded if snapshot.settled(s) and snapshot.st[s].outcome == words.SKIPPED)


# --- the fold --------------------------------------------------------------------------------------------------------


def end_of(record: Record) -> End:
    """A ledger record of one of the step ends as an ``End``."""
    if record.step is None:
        raise IntegrityError(Code.LEDGER_CORRUPT, f"ledger record {record.seq} ends no step that it names")
    match record.event:
        case StepCompleted(outcome=outcome):
            return _end(record, record.step, outcome, ran=True)
        case StepFailed(outcome=outcome, code=code, retriable=retriable):
            return _end(record, record.step, outcome, ran=True, failed=True, retriable=retriable, code=code)
        case StepSkipped():
            return _end(record, record.step, words.SKIPPED)
        case StepSuperseded():
            return _end(record, record.step, words.SUPERSEDED)
        case other:
            raise IntegrityError(Code.LEDGER_CORRUPT, f"ledger record {record.seq} ({other.KIND}) is not a step's end")


def _end(
    record: Record,
    step: StepRef,
    outcome: str,
    *,
    ran: bool = False,
    failed: bool = False,
    retriable: bool = False,
    code: str = "",
) -> End:
    return End(step=step, outcome=outcome, failed=failed, retriable=retriable, ran=ran, code=code, seq=record.seq)


def advance(topology: Topology, snapshot: Snapshot, end: End) -> Delta:
    """What ``end`` changes. An end of a visit that is over changes nothing; one of a visit that was never opened is an
    ``IntegrityError``."""
    site, visit = end.step.site, end.step.visit
    if site not in topology.sites or visit > snapshot.visit(site):
        raise IntegrityError(
            Code.LEDGER_CORRUPT,
            f"the ledger ends step {end.step} at sequence {end.seq}, which the plan never opened",
            remedy="the ledger does not belong to this plan; keep both and ask whoever changed them",
        )
    if visit < snapshot.visit(site) or snapshot.settled(site):
        return Delta(st={}, ep={}, us={}, cl={}, sq=end.seq, woken=())
    route = topology.route(site, end.outcome, failed=end.failed, retriable=end.retriable) if end.ran else None
    before = snapshot.st.get(site)
    ran = visit if end.ran else (before.ran if before else 0)
    mark = Mark(visit, route.outcome if route else end.outcome, ran)
    kind = _closes(topology, snapshot, end, route)
    changed_cl = {site: Closing(visit, end.seq, kind)} if kind else {}
    after = replace(snapshot, st={**snapshot.st, site: mark}, cl={**snapshot.cl, **changed_cl})
    ep, us, targets = _reopen(topology, after)
    woken = dict.fromkeys((*topology.sites[site].successors, *targets))
    return Delta(st={site: mark}, ep=ep, us=us, cl=changed_cl, sq=end.seq, woken=tuple(woken))


def _closes(topology: Topology, snapshot: Snapshot, end: End, route: Route | None) -> ClosingKind | None:
    if end.failed and end.code == ENVIRONMENT_CHANGED:
        return "environment"
    if not end.ran or end.outcome == words.CANCELLED or held(topology, snapshot, end.step.site):
        return None
    if route is None:
        return "end" if end.failed else None
    if route.target in TERMINALS:
        return "end"
    return "back" if route.back else None


def _reopen(topology: Topology, snapshot: Snapshot) -> tuple[dict[SiteId, int], dict[SiteId, int], tuple[SiteId, ...]]:
    """Re-openings that are due, earliest closing first, the visits that count by then, and the targets."""
    ep: dict[SiteId, int] = {}
    us: dict[SiteId, int] = {}
    targets: list[SiteId] = []
    while final(snapshot) is None and (closers := closings(snapshot)):
        group = topology.reopened_by(snapshot, closers[0])
        if not all(snapshot.settled(s) for s in group):
            break
        us |= {s: snapshot.us.get(s, 0) + 1 for s in spent(topology, snapshot, group)}
        ep |= {s: snapshot.ep.get(s, 0) + 1 for s in group}
        # Everything else in the group is downstream of the target, so its sources wake it.
        target = topology.back_target(snapshot, closers[0])
        targets += [target] if target is not None else []
        snapshot = replace(snapshot, ep={**snapshot.ep, **ep}, us={**snapshot.us, **us})
    return ep, us, tuple(targets)
