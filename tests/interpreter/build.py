"""Small activations for the interpreter's tests."""

from typing import Any

from runner.contract.activation import Activation, AgentAction, CommandAction, RouteTo, Step, seal
from runner.contract.scope import EVERYTHING, READ_ONLY

RESULT = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "verdict": {"enum": ["approve", "revise"]}},
    "required": ["text", "verdict"],
    "additionalProperties": False,
}


def command(
    name: str, *needs: str, routes: dict[str, str] | None = None, visits: int | None = None, **more: Any
) -> Step:
    words = more.pop("run", ("true",))
    action = CommandAction(run=words, scope=READ_ONLY, **more.pop("action", {}))
    return Step(id=name, needs=needs, routes=routed(routes), budget_visits=visits, action=action, **more)


def agent(name: str, *needs: str, routes: dict[str, str] | None = None, visits: int | None = None, **more: Any) -> Step:
    fields = {"executor": "coder", "prompt": "go", "scope": EVERYTHING, "result_schema": RESULT, "outcome": "verdict"}
    action = AgentAction(**{**fields, **more.pop("action", {})})
    return Step(id=name, needs=needs, routes=routed(routes), budget_visits=visits, action=action, **more)


def routed(routes: dict[str, str] | None) -> tuple[RouteTo, ...]:
    return tuple(RouteTo(outcome=outcome, to=to) for outcome, to in (routes or {}).items())


def executor(role: str = "coder", **more: Any) -> dict[str, Any]:
    fields = {"role": role, "provider": "openai", "version": "1", "descriptor": "sha256:" + "0" * 64, "model": "m"}
    return {**fields, **more}


def activation(*steps: Step, **more: Any) -> Activation:
    agents = any(step.action.kind == "agent" for step in steps)
    workflow: dict[str, Any] = {
        "name": "w",
        "input_schema": more.pop("input_schema", {"type": "object"}),
        "steps": steps,
        **({"output": more.pop("output")} if "output" in more else {}),
    }
    fields: dict[str, Any] = {
        "delivery": "d1",
        "admitted_at": "2026-11-30T00:00:00Z",
        "workflow": workflow,
        "executors": (executor(),) if agents else (),
        "workspace": {"worktree": "/w", "base_commit": "1" * 40, "base_tree": "2" * 40},
        "target": {"ref": "refs/heads/out", "expected": "absent"},
        "input": {},
    }
    return seal(**{**fields, **more})
