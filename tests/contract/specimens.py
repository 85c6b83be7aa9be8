"""Valid values of the contract to start a test from."""

from runner.contract.activation import (
    Activation,
    AgentAction,
    CommandAction,
    DecisionAction,
    Executor,
    GenerateAction,
    RouteTo,
    Step,
    Target,
    Workflow,
    Workspace,
    seal,
)
from runner.contract.canonical import digest
from runner.contract.scope import EVERYTHING, Scope

DIGEST = digest("specimen")
OBJECT = "a" * 40
OTHER_OBJECT = "b" * 40

STEPS = (
    Step(
        id="implement",
        action=AgentAction(
            executor="coder",
            prompt="{{ input.task }}",
            scope=Scope(kind="patterns", patterns=("src/**",)),
            result_schema={"type": "object"},
        ),
        budget_visits=3,
    ),
    Step(id="tests", needs=("implement",), action=CommandAction(run=("true",), scope=EVERYTHING)),
    Step(
        id="pick",
        needs=("tests",),
        action=DecisionAction(on="{{ steps.tests.outcome }}", default="other"),
        routes=(RouteTo(outcome="success", to="summary"), RouteTo(outcome="other", to="failed")),
    ),
    Step(id="summary", action=GenerateAction(executor="coder", prompt="sum up", result_schema={"type": "object"})),
)


def activation() -> Activation:
    """A sealed activation with one step of every kind."""
    return seal(
        delivery="specimen",
        admitted_at="2026-01-01T00:00:00Z",
        workflow=Workflow(name="specimen", input_schema={"type": "object"}, steps=STEPS),
        executors=(Executor(role="coder", provider="recorded", version="1", descriptor=DIGEST, model="m"),),
        workspace=Workspace(worktree="/worktree", base_commit=OBJECT, base_tree=OTHER_OBJECT),
        target=Target(ref="refs/heads/runner/specimen", expected="absent"),
        input={"task": "mend it", "limit": 3},
    )
