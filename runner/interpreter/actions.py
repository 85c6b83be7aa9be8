"""What one step's action must look like, apart from the graph around it. Pure; every problem becomes a finding."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runner.contract import plan
from runner.contract.activation import (
    Action,
    AgentAction,
    ApprovalAction,
    CommandAction,
    DecisionAction,
    GenerateAction,
    Step,
)
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Finding
from runner.contract.scope import is_git_path
from runner.interpreter.expressions import strings
from runner.interpreter.schemas import schema_findings, value_findings

TOOLS: Final = ("read", "list", "search", "write", "edit", "command")
RESERVED_TOOLS: Final = (*TOOLS, "ask")
"""What no declared tool can be called."""

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EVENTS: Final = frozenset({plan.FAILURE, plan.TIMEOUT, plan.NONRETRYABLE})


def texts(action: Action) -> Iterator[tuple[str, str]]:
    """Every template of an action with its field path: what may hold expressions."""
    match action:
        case AgentAction():
            yield "prompt", action.prompt
        case GenerateAction():
            yield "system", action.system
            yield "prompt", action.prompt
            yield from strings(action.input, "input")
        case CommandAction():
            for index, word in enumerate(action.run):
                yield f"run.{index}", word
            yield from strings(action.env, "env")
        case DecisionAction():
            yield "on", action.on
        case ApprovalAction():
            yield "prompt", action.prompt


def outcomes(step: Step, *, may_exhaust: bool) -> frozenset[str] | None:
    """Every outcome ``step`` can end with; None for a decision, whose cases are its routes."""
    events = _EVENTS | ({plan.BUDGET_EXHAUSTED} if may_exhaust else frozenset())
    match step.action:
        case DecisionAction():
            return None
        case CommandAction():
            return events | {plan.SUCCESS}
        case ApprovalAction(expires_s=expires_s, on_expiry=on_expiry):
            expires = expires_s is not None and on_expiry != "default"
            ends = events - {plan.TIMEOUT} | ({plan.WAIT_EXPIRED} if expires else frozenset())
            declared = routing_values(step.action.answer_schema, step.action.outcome)
            return ends | (declared or {plan.SUCCESS})
        case AgentAction() | GenerateAction():
            declared = routing_values(step.action.result_schema, step.action.outcome)
            return events | (declared or {plan.SUCCESS})


def routing_values(schema: FrozenJson, outcome: str | None) -> frozenset[str]:
    """The values of the property ``outcome`` that a result may choose between; empty when it does not declare any."""
    if outcome is None or not isinstance(schema, Mapping):
        return frozenset()
    properties = schema.get("properties")
    declared = properties.get(outcome) if isinstance(properties, Mapping) else None
    values = declared.get("enum") if isinstance(declared, Mapping) else None
    return frozenset(v for v in values if isinstance(v, str)) if isinstance(values, tuple) else frozenset()


def action_findings(step: Step, place: str, roles: frozenset[str], tools: frozenset[str]) -> Iterator[Finding]:
    """What is wrong inside ``step``'s action at ``place``; ``roles`` are those that have an executor, ``tools`` those that are
    declared."""
    action = step.action
    match action:
        case AgentAction():
            yield from _agent(action, place, roles, tools)
        case GenerateAction():
            yield from _executor(action.executor, place, roles)
            yield from _result(action.result_schema, action.outcome, place, "result")
        case CommandAction():
            yield from _command(action, place)
        case DecisionAction():
            yield from _decision(step, action, place)
        case ApprovalAction():
            yield from _approval(action, place)
    if step.expect_changes and not (isinstance(action, AgentAction | CommandAction) and action.scope.writable):
        yield Finding(
            place=place.removesuffix(".action") + ".expect_changes",
            problem=f"{step.id!r} expects changes but cannot write",
            fix="give it a scope that may be written, or remove the expectation",
        )


def _executor(role: str, place: str, roles: frozenset[str]) -> Iterator[Finding]:
    if role not in roles:
        known = ", ".join(sorted(roles)) or "none"
        yield Finding(
            place=f"{place}.executor", problem=f"the role {role!r} has no executor", fix=f"roles are: {known}"
        )


def _agent(action: AgentAction, place: str, roles: frozenset[str], tools: frozenset[str]) -> Iterator[Finding]:
    yield from _executor(action.executor, place, roles)
    yield from _result(action.result_schema, action.outcome, place, "result")
    if action.session != "episode":
        yield Finding(
            place=f"{place}.session",
            problem=f"the session policy {action.session!r} is not built yet",
            fix="leave it out: every step has a session of its own",
        )
    for index, tool in enumerate(action.tools):
        if tool not in TOOLS and tool not in tools:
            problem, fix = f"the tool {tool!r} is not known", f"tools are: {', '.join((*TOOLS, *sorted(tools)))}"
        elif tool in action.tools[:index]:
            problem, fix = f"the tool {tool!r} stands twice", "remove one"
        else:
            continue
        yield Finding(place=f"{place}.tools.{index}", problem=problem, fix=fix)


def _result(schema: FrozenJson, outcome: str | None, place: str, what: str) -> Iterator[Finding]:
    """``what`` is "result" or "answer": the name of the value that the schema is for."""
    found = schema_findings(schema, f"{place}.{what}_schema")
    yield from found
    if outcome is None or found:
        return
    where = f"{place}.outcome"
    required = schema.get("required", ()) if isinstance(schema, Mapping) else ()
    values = routing_values(schema, outcome)
    if not isinstance(required, tuple) or outcome not in required or not values:
        yield Finding(
            place=where,
            problem=f"{outcome!r} is not a required property of the {what} with an enum of strings",
            fix="declare it under properties with an enum, and list it in required",
        )
    for value in sorted(values & plan.RESERVED_OUTCOMES):
        yield Finding(place=where, problem=f"the value {value!r} is reserved", fix="choose another word for it")
    if "" in values:
        yield Finding(place=where, problem="an outcome cannot be empty", fix="give it a name")


def _approval(action: ApprovalAction, place: str) -> Iterator[Finding]:
    found = [*_result(action.answer_schema, action.outcome, place, "answer")]
    found += () if found else _always_routes(action, place)
    yield from found
    if action.on_expiry != "incomplete" and action.expires_s is None:
        yield Finding(
            place=f"{place}.on_expiry", problem="nothing ever expires here", fix="add expires_s, or remove on_expiry"
        )
    where = f"{place}.default"
    if action.on_expiry != "default" and action.default is not None:
        yield Finding(place=where, problem="the default is never taken", fix="add 'on_expiry: default', or remove it")
    elif action.on_expiry == "default" and action.default is None:
        yield Finding(place=where, problem="there is no default to take", fix="give the answer that counts then")
    elif action.on_expiry == "default" and not found:
        yield from value_findings(action.answer_schema, action.default, where)


def _always_routes(action: ApprovalAction, place: str) -> Iterator[Finding]:
    """What would let an answer fit that names no outcome: nobody would be there to correct it."""
    schema: Any = action.answer_schema
    if schema.get("type") != "object":
        problem = "an answer is an object, and its schema does not say so"
        yield Finding(place=f"{place}.answer_schema", problem=problem, fix="add 'type: object'")
    if not all(isinstance(value, str) for value in schema["properties"][action.outcome]["enum"]):
        problem = f"not every value of {action.outcome!r} is text"
        yield Finding(place=f"{place}.outcome", problem=problem, fix="put the values in quotes")


def _command(action: CommandAction, place: str) -> Iterator[Finding]:
    if action.shell and len(action.run) != 1:
        yield Finding(place=f"{place}.run", problem="with shell, run is exactly one string", fix="join the words")
    if action.shell and any("{{" in word for word in action.run):
        yield Finding(
            place=f"{place}.run.0",
            problem="a shell string cannot hold expressions: their text would be read as shell code",
            fix='pass the value through env and write "$NAME"',
        )
    if any("\x00" in word for word in action.run):
        yield Finding(place=f"{place}.run", problem="the command holds a NUL byte", fix="remove it")
    if not action.shell and not action.run[0]:
        yield Finding(place=f"{place}.run.0", problem="the program's name is empty", fix="name a program")
    if problem := path_problem(action.cwd):
        yield Finding(
            place=f"{place}.cwd", problem=f"cwd {action.cwd!r:.100} {problem}", fix="name a folder inside the worktree"
        )
    yield from _environment(action.env, f"{place}.env")


def _environment(env: FrozenJson, place: str) -> Iterator[Finding]:
    if not isinstance(env, Mapping):
        yield Finding(place=place, problem="env is not a map of names to texts", fix="write NAME: value")
        return
    for name, value in env.items():
        if not _ENV_NAME.fullmatch(name):
            yield Finding(
                place=f"{place}.{name}",
                problem=f"{name!r:.100} cannot name a variable",
                fix="use letters, digits and '_'",
            )
        if not isinstance(value, str) or "\x00" in value:
            yield Finding(
                place=f"{place}.{name}",
                problem=f"the value of {name!r:.100} is not text",
                fix="put the value in quotes",
            )


def _decision(step: Step, action: DecisionAction, place: str) -> Iterator[Finding]:
    cases = [route.outcome for route in step.routes if route.outcome not in plan.RESERVED_OUTCOMES]
    if not cases:
        yield Finding(place=place, problem="a decision without cases decides nothing", fix="give it cases")
    if action.default is not None and action.default not in cases:
        known = ", ".join(cases) or "none"
        yield Finding(place=f"{place}.default", problem=f"{action.default!r} is not a case", fix=f"cases are: {known}")


def path_problem(path: str) -> str | None:
    """Why ``path`` is not a plain relative path inside the worktree, or None. ``.`` is the worktree itself."""
    if path == ".":
        return None
    if not path or "\x00" in path or "\\" in path:
        return "is not a path"
    if "{{" in path:
        return "a path cannot hold expressions"
    if path.startswith(("/", "~")):
        return "must be relative to the worktree"
    if any(part in ("", ".", "..") for part in path.rstrip("/").split("/")):
        return "leaves the worktree, or has an empty or '.' component"
    if is_git_path(path):
        return "is inside .git"
    return None
