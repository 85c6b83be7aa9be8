"""Everything resolves, or every problem is named in one pass at its dotted place."""

from typing import Any

import pytest

from runner.contract.activation import Activation, DecisionAction, Output, Step
from runner.contract.scope import READ_ONLY
from runner.interpreter.closure import check
from tests.interpreter.build import RESULT, activation, agent, command, executor, routed


def decision(name: str, *needs: str, on: str = "{{ true }}", routes: dict[str, str] | None = None, **more: Any) -> Step:
    action = DecisionAction(on=on, default=more.pop("default", None))
    return Step(id=name, needs=needs, routes=routed(routes), action=action, **more)


def with_result(schema: object, outcome: str | None = "verdict") -> Activation:
    return activation(agent("a", action={"result_schema": schema, "outcome": outcome}))


@pytest.mark.parametrize(
    ("made", "place", "problem"),
    [
        (activation(command("a"), command("a")), "workflow.steps.1.id", "stands twice"),
        (activation(command("failed")), "workflow.steps.0.id", "reserved"),
        (activation(command("a", "b")), "workflow.steps.0.needs.0", "no step 'b'"),
        (activation(command("a", "completed")), "workflow.steps.0.needs.0", "nothing can wait for it"),
        (activation(command("b"), command("a", "b", "b")), "workflow.steps.1.needs.1", "stands twice"),
        (activation(command("a", routes={"failure": "x"})), "workflow.steps.0.routes.failure", "no step 'x'"),
        (activation(command("a", "a")), "workflow.steps.0.needs", "a -> a"),
        (activation(command("a", "b"), command("b", "a")), "workflow.steps.0.needs", "a -> b -> a"),
        (
            activation(command("a", routes={"failure": "a"})),
            "workflow.steps.0.routes.failure",
            "nothing bounds the loop",
        ),
        (
            activation(command("a", routes={"success": "a", "failure": "failed"}), executors=(executor(),)),
            "executors.0",
            "no step uses",
        ),
        (activation(agent("a"), executors=(executor(), executor())), "executors.1", "bound twice"),
        (activation(agent("a"), executors=()), "workflow.steps.0.action.executor", "no executor"),
        (activation(agent("a", routes={"success": "completed"})), "workflow.steps.0.routes.success", "never ends as"),
        (
            activation(command("a", routes={"cancelled": "failed"})),
            "workflow.steps.0.routes.cancelled",
            "never ends as",
        ),
        (
            activation(command("a", routes={"budget-exhausted": "failed"})),
            "workflow.steps.0.routes.budget-exhausted",
            "route back",
        ),
        (with_result({"type": "objekt"}), "workflow.steps.0.action.result_schema.type", "not a type"),
        (with_result({**RESULT, "required": []}), "workflow.steps.0.action.outcome", "not a required property"),
        (
            with_result({"properties": {"verdict": {"enum": ["failure"]}}, "required": ["verdict"]}),
            "workflow.steps.0.action.outcome",
            "reserved",
        ),
        (activation(agent("a", action={"tools": ("read", "rm")})), "workflow.steps.0.action.tools.1", "not known"),
        (activation(agent("a", action={"session": "delivery"})), "workflow.steps.0.action.session", "not built yet"),
        (
            activation(agent("a", action={"scope": READ_ONLY}, expect_changes=True)),
            "workflow.steps.0.expect_changes",
            "cannot write",
        ),
        (activation(command("a", action={"cwd": "../x"})), "workflow.steps.0.action.cwd", "leaves the worktree"),
        (activation(command("a", action={"cwd": "/x"})), "workflow.steps.0.action.cwd", "relative"),
        (activation(command("a", action={"cwd": ".git/hooks"})), "workflow.steps.0.action.cwd", ".git"),
        (activation(command("a", action={"env": {"A B": "x"}})), "workflow.steps.0.action.env.A B", "cannot name"),
        (
            activation(command("a", run=("echo {{ input.x }}",), action={"shell": True})),
            "workflow.steps.0.action.run.0",
            "shell code",
        ),
        (activation(command("a", run=("x", "{{ y }}"))), "workflow.steps.0.action.run.1", "'y' is not known"),
        (activation(command("a", when="yes")), "workflow.steps.0.when", "exactly one expression"),
        (
            activation(command("a", when="{{ steps.b.visit > 1 }}"), command("b")),
            "workflow.steps.0.when",
            "neither before",
        ),
        (activation(command("a", run=("{{ steps.a.visit }}",))), "workflow.steps.0.action.run.0", "neither before"),
        (activation(decision("a")), "workflow.steps.0.action", "without cases"),
        (activation(decision("a", on="x", routes={"x": "failed"})), "workflow.steps.0.action.on", "exactly one"),
        (
            activation(decision("a", routes={"x": "failed"}, default="y")),
            "workflow.steps.0.action.default",
            "not a case",
        ),
        (
            activation(command("a", visits=2), decision("d", "a", routes={"x": "a", "y": "a"})),
            "workflow.steps.1.routes",
            "cannot end",
        ),
        (
            activation(command("a"), output=Output(value={"x": "{{ steps.b }}"})),
            "workflow.output.value.x",
            "no step 'b'",
        ),
        (
            activation(command("a"), output=Output(value=1, json_schema={"typ": 1})),
            "workflow.output.json_schema.typ",
            "keyword",
        ),
        (activation(command("a"), input_schema={"required": ["x"]}), "input", "'x' is a required property"),
        (
            activation(agent("a"), executors=(executor(instructions="{{ steps.a }}"),)),
            "executors.0.instructions",
            "instructions",
        ),
        (activation(command("a"), target={"ref": "refs/heads/a..b", "expected": "absent"}), "target.ref", "'..'"),
        (
            activation(command("a"), workspace={"worktree": "x/y", "base_commit": "1" * 40, "base_tree": "2" * 40}),
            "workspace.worktree",
            "absolute",
        ),
    ],
)
def test_each_mistake_is_found_at_its_place(made: Activation, place: str, problem: str) -> None:
    """One mistake, one finding that names it."""
    found = check(made)
    assert any(f.place == place and problem in f.problem for f in found), [str(f) for f in found]


def test_a_whole_workflow_with_loops_has_no_findings() -> None:
    """Reading a later step of the same loop, routing to terminals, and decisions are all in order."""
    steps = (
        agent("plan"),
        agent("implement", "plan", action={"prompt": "{{ has(steps.tests) ? steps.tests.output.stderr : '' }}"}),
        command(
            "tests",
            "implement",
            routes={"success": "judge", "failure": "implement", "budget-exhausted": "incomplete"},
            visits=3,
        ),
        decision(
            "judge", on="{{ steps.tests.visit > 1 }}", routes={"true": "review", "false": "completed"}, default="false"
        ),
        agent("review", routes={"revise": "implement", "nonretryable-failure": "failed"}),
    )
    assert check(activation(*steps, output=Output(value="{{ steps.review.output.text }}"))) == ()


def test_all_mistakes_are_found_in_one_pass() -> None:
    """Problems of different kinds do not hide each other."""
    steps = (command("a", "x", routes={"failure": "a", "odd": "y"}, when="{{ z }}"), command("a", action={"cwd": ".."}))
    places = {f.place for f in check(activation(*steps, executors=(executor("r"),)))}
    assert places == {
        "workflow.steps.0.needs.0",
        "workflow.steps.0.routes.failure",
        "workflow.steps.0.routes.odd",
        "workflow.steps.0.when",
        "workflow.steps.1.id",
        "workflow.steps.1.action.cwd",
        "executors.0",
    }


def test_an_input_that_cannot_exist_is_found() -> None:
    """Where the schema names all inputs there are, another name is a mistake that is found before anything runs."""
    closed = {"type": "object", "properties": {"task": {}}, "additionalProperties": False}
    typo, right = (command("a", run=("echo", text)) for text in ("{{ input.tsak }}", "{{ input.task }}"))
    (finding,) = check(activation(typo, input_schema=closed))
    assert (finding.place, finding.problem) == ("workflow.steps.0.action.run.1", "there is no input 'tsak'")
    assert check(activation(right, input_schema=closed)) == ()
    assert check(activation(typo)) == ()
