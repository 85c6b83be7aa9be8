"""A plan as a picture in text, offline: Mermaid by LangGraph from the very graph that runs, or one line per step."""

from hosts.langgraph.lowering import Wheel, lower
from runner.contract.ids import TERMINALS
from runner.contract.plan import Plan, Site


def mermaid(plan: Plan) -> str:
    """The lowered graph as a Mermaid flowchart; needs no network."""
    drawn: str = lower(plan, Wheel()).compile().get_graph(xray=True).draw_mermaid()
    return drawn


def ascii(plan: Plan) -> str:
    """One block per step in declaration order: its kind, what it comes after, and where its outcomes lead."""
    return "\n".join(line for site in plan.sites for line in _block(site)) + "\n"


def _block(site: Site) -> list[str]:
    needs = [edge.source for edge in site.edges if edge.outcomes is None]
    routed = [f"{edge.source} ({', '.join(edge.outcomes)})" for edge in site.edges if edge.outcomes is not None]
    notes = [f"when {site.when}"] if site.when else []
    notes += [f"at most {site.budget_visits} visits"] if site.budget_visits else []
    lines = [f"[{site.id}] {site.action.kind}" + (f"  ({'; '.join(notes)})" if notes else "")]
    after = [*needs, *routed]
    lines += [f"  <- {', '.join(after)}"] if after else ["  <- start"]
    for route in site.routes:
        target = f"end: {route.target}" if route.target in TERMINALS else route.target
        lines.append(f"  {'^' if route.back else '-'}> {route.outcome}: {target}" + (" (again)" if route.back else ""))
    routes = {route.target for route in site.routes}
    plain = [s for s in site.successors if s not in routes]
    lines += [f"  -> {', '.join(plain)}"] if plain else []
    return lines
