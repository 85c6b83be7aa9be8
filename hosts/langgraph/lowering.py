"""Plan -> ``StateGraph``: one node per site, named by its id, its destinations declared.

No native joins, conditional edges or sends: they are wrong for ``needs`` (they miss skipped sources and re-opened ones, or
fire twice). A node asks the running drive what is to be done about its site, and goes where there is news; each node that
is gone to judges for itself. Nodes are callable objects: closures cost LangGraph 0.9 ms each to compile.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl, Runtime
from langgraph.types import Command

from hosts.langgraph.state import GraphState
from runner.contract.ids import TERMINALS, SiteId
from runner.contract.plan import Plan, Site

RECURSION_LIMIT: Final = 10**9
"""LangGraph's own bound restarts with every entry and bounds nothing; budgets are ours."""


class Driver(Protocol):
    """Whoever drives the graph now."""

    async def enter(self, site: SiteId, superstep: int, control: RunControl | None) -> Command[Any] | None:
        """What node ``site`` answers in ``superstep``. Never raises: what goes wrong ends the drive, not the node."""
        ...


class Wheel:
    """The compiled graph's hold on the drive of the moment: the graph is compiled once per host."""

    def __init__(self) -> None:
        self.driver: Driver | None = None


class SiteNode:
    """One site's node."""

    def __init__(self, site: SiteId, wheel: Wheel) -> None:
        self._site: Final = site
        self._wheel: Final = wheel

    async def __call__(self, state: GraphState, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        """Asks the driver. The state is what LangGraph shows; the driver's position is never behind it."""
        if self._wheel.driver is None:
            return None
        return await self._wheel.driver.enter(self._site, config["metadata"]["langgraph_step"], runtime.control)


def lower(plan: Plan, wheel: Wheel) -> StateGraph[Any, Any, Any, Any]:
    """The graph of ``plan``, not yet compiled."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(GraphState)
    for site in plan.sites:
        node: Any = SiteNode(site.id, wheel)
        graph.add_node(site.id, node, destinations=_destinations(plan, site))
        if not site.edges:
            graph.add_edge(START, site.id)
    return graph


def _destinations(plan: Plan, site: Site) -> Any:
    """Targets with the outcomes that lead there, for LangGraph's own tools; they route nothing."""
    labels: dict[str, list[str]] = {successor: [] for successor in site.successors}
    for route in site.routes:
        target = END if route.target in TERMINALS else route.target
        outcome = f"{route.outcome} ({route.target})" if route.target in TERMINALS else route.outcome
        labels.setdefault(target, []).append(outcome)
    return {target: ", ".join(outcomes) or None for target, outcomes in labels.items()} or (END,)


def thread(plan: Plan) -> RunnableConfig:
    """The one thread of a Delivery."""
    configurable: Mapping[str, str] = {"thread_id": plan.delivery}
    return {"recursion_limit": RECURSION_LIMIT, "configurable": dict(configurable)}
