"""Forward and back routes against a naive oracle, on random graphs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.contract.activation import Step
from runner.interpreter.closure import check
from runner.interpreter.interpret import plan_of
from runner.interpreter.topology import Topology, topology
from tests.interpreter.build import activation, command


@st.composite
def workflows(draw: st.DrawFn) -> list[Step]:
    """Steps with arbitrary needs and routes, some with budgets."""
    count = draw(st.integers(1, 8))
    names = [f"s{n}" for n in range(count)]
    some = st.sampled_from(names)
    return [
        command(
            name,
            *draw(st.lists(some, max_size=2, unique=True)),
            routes=draw(st.dictionaries(st.sampled_from(["success", "failure", "timeout"]), some, max_size=3)),
            visits=draw(st.sampled_from([None, 2])),
        )
        for name in names
    ]


def before(edges: set[tuple[str, str]], first: str, second: str) -> bool:
    """The oracle: plain search."""
    found, waiting = {first}, [first]
    while waiting:
        here = waiting.pop()
        for source, target in edges:
            if source == here and target not in found:
                found.add(target)
                waiting.append(target)
    return second in found


@settings(max_examples=150, deadline=None)
@given(workflows())
def test_routes_are_classified_as_the_rule_says(steps: list[Step]) -> None:
    """Needs first, then routes in declaration order; a route to itself or to an ancestor leads back and adds no edge."""
    edges = {(need, step.id) for step in steps for need in step.needs}
    graph = topology(steps)
    cyclic = any(before(edges, target, source) for source, target in edges)
    assert isinstance(graph, Topology) != cyclic
    if not isinstance(graph, Topology):
        return
    back = set()
    for step in steps:
        for route in step.routes:
            if before(edges, route.to, step.id):
                back.add((step.id, route.to))
            else:
                edges.add((step.id, route.to))
    assert {(steps[s].id, steps[t].id) for s, t in graph.back} == back
    assert {(steps[s].id, steps[t].id) for s, targets in enumerate(graph.successors) for t in targets} == edges
    places = {steps[number].id: place for place, number in enumerate(graph.order)}
    assert all(places[source] < places[target] for source, target in edges)
    for one in range(len(steps)):
        for two in range(len(steps)):
            expected = one != two and before(edges, steps[one].id, steps[two].id)
            assert graph.precedes(one, two) == expected


@settings(max_examples=150, deadline=None)
@given(workflows())
def test_a_loop_is_found_exactly_when_nothing_bounds_it(steps: list[Step]) -> None:
    """A finding about an unbounded loop appears if and only if some cycle has no step with a budget."""
    if not isinstance(topology(steps), Topology):
        return
    free = {step.id for step in steps if step.budget_visits is None}
    edges = {(n, s.id) for s in steps for n in s.needs} | {(s.id, r.to) for s in steps for r in s.routes}
    inside = {(source, target) for source, target in edges if source in free and target in free}
    unbounded = any(before(inside, target, source) for source, target in inside)
    found = check(activation(*steps))
    assert any("nothing bounds the loop" in f.problem for f in found) == unbounded


@settings(max_examples=80, deadline=None)
@given(workflows())
def test_a_plan_repeats_the_graph(steps: list[Step]) -> None:
    """Edges, successors, back routes and what they re-open tell one story."""
    if not isinstance(topology(steps), Topology):
        return
    plan = plan_of(activation(*steps))
    forward = {(edge.source, site.id) for site in plan.sites for edge in site.edges}
    assert forward == {(site.id, target) for site in plan.sites for target in site.successors}
    reopened = dict(plan.reopens)
    assert set(reopened) == {route.target for site in plan.sites for route in site.routes if route.back}
    for target, sites in reopened.items():
        assert set(sites) == {site.id for site in plan.sites if before(set(forward), target, site.id)}
