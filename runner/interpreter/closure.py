"""Does everything in a workflow resolve? All problems in one pass, each at its dotted activation path. Pure.

*Every path reaches a terminal* means: needs and forward routes form no cycle, and every cycle that a back route closes passes
a step whose visits are bounded. So every run is finite, and ends at a terminal, at a step without successors, or at a
failure that nobody routed. What remains to be found statically is a step whose every regular outcome leads back: from there
a Delivery could only end by exhausting a budget.
"""

from collections.abc import Iterable

from runner.contract.activation import Activation, AgentAction, GenerateAction, Workflow
from runner.contract.errors import Finding
from runner.interpreter.actions import action_findings
from runner.interpreter.connections import (
    end_findings,
    loop_findings,
    name_findings,
    need_cycle_findings,
    outcome_findings,
)
from runner.interpreter.references import expression_findings
from runner.interpreter.schemas import schema_findings, value_findings
from runner.interpreter.surroundings import executor_findings, surrounding_findings, tool_findings
from runner.interpreter.topology import Topology, topology


def check(activation: Activation) -> tuple[Finding, ...]:
    """Every problem of an activation that has the right shape; empty when it may be interpreted."""
    workflow = activation.workflow
    roles, tools = (e.role for e in activation.executors), (t.name for t in activation.tools)
    found = [*check_workflow(workflow, roles, tools), *tool_findings(activation.tools)]
    found += executor_findings(activation.executors, used_roles(workflow))
    found += surrounding_findings(activation)
    if not any(f.place.startswith("workflow.input_schema") for f in found):
        found += value_findings(workflow.input_schema, activation.input, "input")
    return tuple(found)


def used_roles(workflow: Workflow) -> frozenset[str]:
    """The roles that steps act through."""
    return frozenset(s.action.executor for s in workflow.steps if isinstance(s.action, AgentAction | GenerateAction))


def check_workflow(
    workflow: Workflow, roles: Iterable[str], tools: Iterable[str] = (), *, partial: frozenset[int] = frozenset()
) -> tuple[Finding, ...]:
    """Every problem inside a workflow whose ``roles`` will have executors and whose ``tools`` are declared. Steps numbered in ``partial`` are known not to
    be what their author wrote: they take part in the graph, but nothing is said about their actions and expressions."""
    steps, known_roles, known_tools = workflow.steps, frozenset(roles), frozenset(tools)
    made = topology(steps)
    graph = made if isinstance(made, Topology) else None
    found = [*name_findings(steps)]
    if isinstance(made, Topology):
        found += [*loop_findings(steps, made), *end_findings(steps, made)]
    else:
        found += need_cycle_findings(steps, made)
    for number, step in enumerate(steps):
        if number not in partial:
            found += action_findings(step, f"workflow.steps.{number}.action", known_roles, known_tools)
            found += outcome_findings(step, number, graph)
    found += expression_findings(workflow, graph, partial)
    found += schema_findings(workflow.input_schema, "workflow.input_schema")
    if workflow.output is not None and workflow.output.json_schema is not None:
        found += schema_findings(workflow.output.json_schema, "workflow.output.json_schema")
    return tuple(found)
