"""The door: activation -> plan. Pure, trusts nothing, and gives the same plan digest on every machine."""

from collections.abc import Mapping

from runner.contract import limits
from runner.contract import plan as plans
from runner.contract.activation import FORMAT, Activation, Step, identity_of
from runner.contract.canonical import FrozenJson, digest, parse
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.ids import DeliveryId, Digest, SiteId
from runner.contract.model import read_model
from runner.contract.plan import Edge, Plan, Route, Site
from runner.interpreter.closure import check
from runner.interpreter.topology import Topology, numbered, topology

__all__ = ["check", "interpret", "plan_of"]


def interpret(document: bytes | Activation) -> tuple[Activation, Plan]:
    """The activation and the plan it means. ``CallerError``: ``activation-invalid`` with every finding when it is not a
    whole and closed activation, ``activation-tampered`` when it is not the one that was admitted."""
    activation = _read(document) if isinstance(document, bytes) else document
    if not isinstance(activation, Activation):
        raise _unreadable(f"it is a {type(document).__name__}, neither an activation nor bytes")
    if identity_of(activation.to_json()) != activation.binding_identity:
        raise CallerError(
            Code.ACTIVATION_TAMPERED,
            f"the activation of {activation.delivery} was changed after it was admitted: its binding identity does not fit",
            remedy="admit the package again instead of editing the activation",
        )
    found = check(activation)
    if found:
        raise _invalid(found)
    return activation, plan_of(activation)


def _read(document: bytes) -> Activation:
    if len(document) > limits.ACTIVATION_BYTES_MAX:
        raise _unreadable(f"it is larger than {limits.ACTIVATION_BYTES_MAX} bytes")
    try:
        value = parse(document)
    except (ValueError, RecursionError) as error:
        raise _unreadable(str(error)[:300]) from None
    declared = value.get("format") if isinstance(value, Mapping) else None
    if declared != FORMAT:
        raise _unreadable(f"its format is {declared!r:.80}; this Runner reads {FORMAT!r}")
    model = read_model(Activation, value)
    if not isinstance(model, Activation):
        raise _invalid(model)
    return model


def _unreadable(why: str) -> CallerError:
    return CallerError(Code.ACTIVATION_INVALID, f"this is not an activation: {why}", remedy="make one with admission")


def _invalid(found: tuple[Finding, ...]) -> CallerError:
    count = f"{len(found)} problems" if len(found) > 1 else "a problem"
    remedy = "mend what is listed, or admit the package again"
    return CallerError(Code.ACTIVATION_INVALID, f"the activation has {count}", remedy=remedy, findings=found)


def plan_of(activation: Activation) -> Plan:
    """The plan of an activation that ``check`` finds nothing wrong with. (``ValueError`` for cyclic needs.)"""
    steps = activation.workflow.steps
    graph = topology(steps)
    if not isinstance(graph, Topology):
        raise ValueError("the needs are cyclic")
    sites = _sites(steps, graph)
    targets = sorted({target for _, target in graph.back})
    reopens = tuple((sites[t].id, tuple(sites[n].id for n in graph.downstream(t))) for t in targets)
    content: FrozenJson = {
        "format": plans.FORMAT,
        "delivery": activation.delivery,
        "activation": activation.binding_identity,
        "sites": tuple(_site_json(site) for site in sites),
        "reopens": reopens,
        "output": activation.workflow.output.to_json() if activation.workflow.output is not None else None,
        "input": activation.input,
    }
    return Plan(
        delivery=DeliveryId(activation.delivery),
        activation=Digest(activation.binding_identity),
        sites=sites,
        reopens=reopens,
        output=activation.workflow.output,
        input=activation.input,
        digest=digest(content),
    )


def _sites(steps: tuple[Step, ...], graph: Topology) -> tuple[Site, ...]:
    numbers = numbered(steps)
    routed: list[list[Edge]] = [[] for _ in steps]
    for source, step in enumerate(steps):
        entering: dict[str, list[str]] = {}
        for route in step.routes:
            entering.setdefault(route.to, []).append(route.outcome)
        for target, outcomes in entering.items():
            if target in numbers and (source, numbers[target]) not in graph.back:
                routed[numbers[target]].append(Edge(source=SiteId(step.id), outcomes=tuple(outcomes)))
    return tuple(
        Site(
            id=SiteId(step.id),
            action=step.action,
            edges=(*(Edge(source=SiteId(need)) for need in step.needs), *routed[number]),
            successors=tuple(SiteId(steps[t].id) for t in graph.successors[number]),
            routes=tuple(_route(route.outcome, route.to, number, numbers, graph) for route in step.routes),
            when=step.when,
            budget_visits=step.budget_visits,
            attempts_max=step.attempts_max,
            timeout_s=step.timeout_s,
            expect_changes=step.expect_changes,
        )
        for number, step in enumerate(steps)
    )


def _route(outcome: str, to: str, source: int, numbers: dict[str, int], graph: Topology) -> Route:
    back = to in numbers and (source, numbers[to]) in graph.back
    return Route(outcome=outcome, target=SiteId(to), back=back)


def _site_json(site: Site) -> FrozenJson:
    return {
        "id": site.id,
        "action": site.action.to_json(),
        "edges": tuple({"source": e.source, "outcomes": e.outcomes} for e in site.edges),
        "successors": site.successors,
        "routes": tuple({"outcome": r.outcome, "target": r.target, "back": r.back} for r in site.routes),
        "when": site.when,
        "budget_visits": site.budget_visits,
        "attempts_max": site.attempts_max,
        "timeout_s": site.timeout_s,
        "expect_changes": site.expect_changes,
    }
