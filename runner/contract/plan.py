"""What the interpreter makes of an activation: sites, edges, loops. Frozen; equal activations give equal plan digests.

Edges. A site is entered by *needs* edges and by *route* edges. A need is taken when its source succeeded, blocked when it
failed, open to neither when it was skipped. A route edge is taken when its source ended with one of the edge's outcomes.
A site runs when every in-edge is settled at its visit, none is blocked, and: with route edges, at least one of those is
taken; without, it has no edges or at least one is taken. Otherwise it is skipped.
"""

from dataclasses import dataclass
from typing import Final, Literal

from runner.contract.activation import Action, Output
from runner.contract.canonical import FrozenJson
from runner.contract.ids import DeliveryId, Digest, SiteId

FORMAT: Final = "runner.plan/1"

Terminal = Literal["completed", "incomplete", "failed"]

SUCCESS: Final = "success"
FAILURE: Final = "failure"
TIMEOUT: Final = "timeout"
SKIPPED: Final = "skipped"
SUPERSEDED: Final = "superseded"
CANCELLED: Final = "cancelled"
NONRETRYABLE: Final = "nonretryable-failure"
BUDGET_EXHAUSTED: Final = "budget-exhausted"
WAIT_EXPIRED: Final = "wait-expired"

FAILING: Final = frozenset({FAILURE, TIMEOUT, CANCELLED, NONRETRYABLE, BUDGET_EXHAUSTED, WAIT_EXPIRED})
"""Outcomes that count as failure; every other outcome of a step that ran counts as success."""
RESERVED_OUTCOMES: Final = FAILING | {SUCCESS, SKIPPED, SUPERSEDED, "continuation-invalid"}
"""A result schema may not use these as routing values of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where one outcome leads. ``back`` routes re-open the target and everything downstream of it."""

    outcome: str
    target: SiteId | Terminal
    back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One forward in-edge. ``outcomes`` is None for a need; for a route, the source outcomes that take it."""

    source: SiteId
    outcomes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    id: SiteId
    action: Action
    edges: tuple[Edge, ...] = ()
    successors: tuple[SiteId, ...] = ()
    """Targets of forward edges out of this site, in declaration order."""
    routes: tuple[Route, ...] = ()
    when: str | None = None
    budget_visits: int | None = None
    attempts_max: int = 3
    timeout_s: float | None = None
    expect_changes: bool = False

    @property
    def uses_workspace(self) -> bool:
        """Whether the site reads or writes the worktree; such steps run one at a time in one worktree."""
        return self.action.kind in ("agent", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    delivery: DeliveryId
    activation: Digest
    """The activation's binding identity."""
    sites: tuple[Site, ...]
    """In declaration order."""
    reopens: tuple[tuple[SiteId, tuple[SiteId, ...]], ...]
    """For each target of a back route: itself and everything downstream of it, in declaration order."""
    output: Output | None
    input: FrozenJson
    digest: Digest
    """Of everything above, in canonical form."""

    def site(self, site_id: SiteId) -> Site:
        """The site named ``site_id``; ``KeyError`` if there is none. Hosts keep a dict when they look up often."""
        for site in self.sites:
            if site.id == site_id:
                return site
        raise KeyError(site_id)
