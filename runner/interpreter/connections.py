"""Do the connections between steps hold: names, needs, routes, loops? Pure."""

from collections.abc import Iterator, Sequence

from runner.contract import plan
from runner.contract.activation import Step
from runner.contract.errors import Finding
from runner.contract.ids import TERMINALS
from runner.interpreter.actions import outcomes
from runner.interpreter.topology import Topology, components, cycle_in, is_loop, numbered, reached


def name_findings(steps: Sequence[Step]) -> Iterator[Finding]:
    """Ids that stand twice or are reserved; needs and routes that lead nowhere or stand twice."""
    numbers = numbered(steps)
    for number, step in enumerate(steps):
        place = f"workflow.steps.{number}"
        if step.id in TERMINALS:
            problem = f"{step.id!r} is reserved: a route to it ends the Delivery"
            yield Finding(place=f"{place}.id", problem=problem, fix="choose another id")
        elif numbers[step.id] != number:
            yield Finding(place=f"{place}.id", problem=f"the id {step.id!r} stands twice", fix="choose another id")
        for index, need in enumerate(step.needs):
            if need not in numbers:
                yield _nowhere(f"{place}.needs.{index}", need, numbers)
            elif need in step.needs[:index]:
                yield Finding(place=f"{place}.needs.{index}", problem=f"{need!r} stands twice", fix="remove one")
        seen: set[str] = set()
        for route in step.routes:
            where = f"{place}.routes.{route.outcome}"
            if route.outcome in seen:
                yield Finding(place=where, problem=f"the outcome {route.outcome!r} is routed twice", fix="remove one")
            seen.add(route.outcome)
            if route.to not in numbers and route.to not in TERMINALS:
                yield _nowhere(where, route.to, numbers)


def _nowhere(place: str, target: str, numbers: dict[str, int]) -> Finding:
    if target in TERMINALS:
        return Finding(place=place, problem=f"{target!r} ends the Delivery; nothing can wait for it", fix="remove it")
    near = [name for name in numbers if name.startswith(target[:3])][:3] or list(numbers)[:5]
    return Finding(place=place, problem=f"there is no step {target!r}", fix=f"such as: {', '.join(near)}")


def need_cycle_findings(steps: Sequence[Step], cycles: Sequence[Sequence[int]]) -> Iterator[Finding]:
    """Steps that wait for each other."""
    for cycle in cycles:
        problem = f"its needs go round in a circle: {_path(steps, cycle)}"
        fix = "remove a need; to repeat steps use a route back and a budget"
        yield Finding(place=f"workflow.steps.{cycle[0]}.needs", problem=problem, fix=fix)


def loop_findings(steps: Sequence[Step], graph: Topology) -> Iterator[Finding]:
    """Loops that nothing bounds: what is left of the graph without the steps that have a budget must not hold a cycle."""
    free = [step.budget_visits is None for step in steps]
    whole = graph.everything
    open_edges = [[t for t in targets if free[t]] if free[s] else [] for s, targets in enumerate(whole)]
    for part in components(open_edges):
        if is_loop(part, open_edges):
            cycle = cycle_in(part, open_edges)
            inside = set(part)
            source, target = min((s, t) for s, t in graph.back if s in inside and t in inside)
            outcome = next(r.outcome for r in steps[source].routes if r.to == steps[target].id)
            problem = f"nothing bounds the loop {_path(steps, cycle)}"
            fix = "give a step on it 'budget: {visits: N}'"
            yield Finding(place=f"workflow.steps.{source}.routes.{outcome}", problem=problem, fix=fix)


def end_findings(steps: Sequence[Step], graph: Topology) -> Iterator[Finding]:
    """Steps from which every regular outcome leads back, so that only a spent budget could end the Delivery."""
    ends = [number for number, step in enumerate(steps) if _can_end(step, number, graph)]
    backwards: list[list[int]] = [[] for _ in steps]
    for source, targets in enumerate(graph.everything):
        for target in targets:
            backwards[target].append(source)
    live = set(reached(ends, backwards))
    for number, step in enumerate(steps):
        if number not in live and not graph.successors[number]:
            yield Finding(
                place=f"workflow.steps.{number}.routes",
                problem=f"every outcome of {step.id!r} leads back: the Delivery cannot end here",
                fix="route one outcome forward or to completed, incomplete or failed",
            )


def _can_end(step: Step, number: int, graph: Topology) -> bool:
    if any(route.to in TERMINALS for route in step.routes):
        return True
    if graph.successors[number]:
        return False
    possible = outcomes(step, may_exhaust=False)
    routed = {route.outcome for route in step.routes}
    return possible is not None and bool(possible - plan.FAILING - routed)


def outcome_findings(step: Step, number: int, graph: Topology | None) -> Iterator[Finding]:
    """Routes for outcomes that the step cannot have: they would silently never be taken."""
    exhausts = graph is None or number in graph.deciders
    possible = outcomes(step, may_exhaust=exhausts)
    refused = (
        plan.RESERVED_OUTCOMES - {plan.FAILURE, plan.NONRETRYABLE} - ({plan.BUDGET_EXHAUSTED} if exhausts else set())
    )
    for route in step.routes:
        if route.outcome in refused if possible is None else route.outcome not in possible:
            problem = f"a step of kind {step.action.kind!r} like this one never ends as {route.outcome!r}"
            if route.outcome == plan.BUDGET_EXHAUSTED:
                problem = "only a step with a route back can end as 'budget-exhausted'"
            fix = "its outcomes are: " + ", ".join(sorted(possible)) if possible else "name one of its cases"
            yield Finding(place=f"workflow.steps.{number}.routes.{route.outcome}", problem=problem, fix=fix)


def _path(steps: Sequence[Step], cycle: Sequence[int]) -> str:
    shown = [steps[number].id for number in cycle]
    middle = shown if len(shown) <= 8 else [*shown[:5], "...", *shown[-2:]]
    return " -> ".join([*middle, shown[0]])
