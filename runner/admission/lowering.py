"""The author's words -> the activation's words, remembering where each came from. Pure: files were read before."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.admission import package as authored
from runner.admission.document import Document, Path
from runner.contract import limits
from runner.contract.activation import (
    Action,
    AgentAction,
    ApprovalAction,
    CommandAction,
    DecisionAction,
    GenerateAction,
    Output,
    RouteTo,
    Step,
    Workflow,
)
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import Finding

SUMMARY_SCHEMA = freeze(
    {
        "type": "object",
        "properties": {"summary": {"type": "string", "description": "What was done, in a few sentences."}},
        "required": ["summary"],
        "additionalProperties": False,
    }
)
"""What an agent or generate step answers when its package declares no result."""


ANSWER_SCHEMA = freeze(
    {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": ["approve", "reject"]},
            "comment": {"type": "string"},
        },
        "required": ["decision"],
        "additionalProperties": False,
    }
)
"""What a person answers when an approval declares no answer."""


@dataclass(slots=True)
class Origins:
    """Which part of which file an activation path came from."""

    document: Document
    known: dict[str, tuple[Document, Path]] = field(default_factory=dict)

    def place(self, activation_place: str) -> str:
        """``file:line`` for a dotted activation path: the longest known beginning, then as far as the file follows."""
        parts = activation_place.split(".")
        for length in range(len(parts), 0, -1):
            origin = self.known.get(".".join(parts[:length]))
            if origin is not None:
                document, path = origin
                return document.place(document.nearest(path, parts[length:]))
        return self.document.place(())

    def moved(self, finding: Finding) -> Finding:
        """The finding at its place in the package."""
        return Finding(place=self.place(finding.place), problem=finding.problem, fix=finding.fix)

    def add(self, activation_place: str, *path: str | int, document: Document | None = None) -> None:
        self.known[activation_place] = (document or self.document, path)


ReadSchema = Callable[[FrozenJson, Path], tuple[FrozenJson, Document | None]]
"""A ``result`` or ``schema`` field (a path, or a schema written in place) -> the schema, and the file it was read from."""


def lower(package: authored.Package, document: Document, read_schema: ReadSchema) -> tuple[Workflow, Origins]:
    """The workflow that ``package`` means, and where each part of it stands."""
    origins = Origins(document)
    steps = tuple(_step(step, number, origins, read_schema) for number, step in enumerate(package.steps))
    origins.add("workflow.input_schema", "input")
    for number, name in enumerate(package.tools):
        origins.add(f"tools.{number}", "tools", name)
    output = None
    if package.output is not None:
        schema, source = _schema(package.output.json_schema, ("output", "schema"), read_schema)
        output = Output(value=package.output.value, json_schema=schema)
        origins.add("workflow.output", "output")
        origins.add("workflow.output.json_schema", *(() if source else ("output", "schema")), document=source)
    workflow = Workflow(name=package.name, input_schema=input_schema(package), steps=steps, output=output)
    return workflow, origins


def input_schema(package: authored.Package) -> FrozenJson:
    """One object schema over the declared inputs: closed; required is what has no default."""
    properties: dict[str, Any] = dict(package.input)
    required = [name for name, schema in properties.items() if "default" not in schema]
    return freeze({"type": "object", "properties": properties, "required": required, "additionalProperties": False})


def _schema(value: FrozenJson, path: Path, read_schema: ReadSchema) -> tuple[FrozenJson, Document | None]:
    return (None, None) if value is None else read_schema(value, path)


def _step(step: authored.Step, number: int, origins: Origins, read_schema: ReadSchema) -> Step:
    base, path = f"workflow.steps.{number}", ("steps", number)
    origins.add(base, *path)
    origins.add(f"{base}.action", *path, step.kind)
    origins.add(f"{base}.action.executor", *path, step.kind, "role")
    origins.add(f"{base}.expect_changes", *path, "expect")
    origins.add(f"{base}.budget_visits", *path, "budget")
    routes = tuple(RouteTo(outcome=outcome, to=to) for outcome, to in step.routes.items())
    timeout_s = step.timeout_s
    if step.decision is not None:
        for case in step.decision.cases:
            origins.add(f"{base}.routes.{case}", *path, "decision", "cases", case)
        routes = (*(RouteTo(outcome=case, to=to) for case, to in step.decision.cases.items()), *routes)
    if step.command is not None:
        timeout_s = step.command.timeout_s or timeout_s or limits.COMMAND_TIMEOUT_S_DEFAULT
    return Step(
        id=step.id,
        needs=step.needs,
        when=step.when,
        routes=routes,
        budget_visits=step.budget.visits if step.budget is not None else None,
        attempts_max=step.retry.attempts if step.retry is not None else 3,
        timeout_s=timeout_s,
        expect_changes=step.expect == "changes",
        action=_action(step, base, path, origins, read_schema),
    )


def _action(step: authored.Step, base: str, path: Path, origins: Origins, read_schema: ReadSchema) -> Action:
    def read(value: FrozenJson, field: str, becomes: str, otherwise: FrozenJson) -> FrozenJson:
        schema, source = _schema(value, (*path, step.kind, field), read_schema)
        origins.add(f"{base}.action.{becomes}", *(() if source else (*path, step.kind, field)), document=source)
        return otherwise if value is None else schema

    def result(value: FrozenJson) -> FrozenJson:
        return read(value, "result", "result_schema", SUMMARY_SCHEMA)

    if (agent := step.agent) is not None:
        return AgentAction(
            executor=agent.role,
            prompt=agent.prompt,
            scope=agent.scope,
            result_schema=result(agent.result),
            outcome=agent.outcome,
            tools=agent.tools,
            turns_max=agent.turns_max,
            asks=agent.asks,
            session=agent.session,
            trust=agent.trust,
        )
    if (generate := step.generate) is not None:
        return GenerateAction(
            executor=generate.role,
            system=generate.system,
            prompt=generate.prompt,
            input=generate.input,
            result_schema=result(generate.result),
            outcome=generate.outcome,
            trust=generate.trust,
        )
    if (command := step.command) is not None:
        return CommandAction(
            run=command.run,
            shell=command.shell,
            cwd=command.cwd,
            env=command.env,
            ok_exit_codes=command.ok,
            effect=command.effect,
            scope=command.scope,
            output_bytes_max=command.output_bytes_max,
        )
    if (approval := step.approval) is not None:
        return ApprovalAction(
            prompt=approval.prompt,
            show_diff=approval.show == "diff",
            answer_schema=read(approval.answer, "answer", "answer_schema", ANSWER_SCHEMA),
            outcome=approval.outcome,
            expires_s=approval.expires_s,
            on_expiry=approval.on_expiry or "incomplete",
            renewals_max=limits.RENEWALS_DEFAULT if approval.renewals is None else approval.renewals,
            default=approval.default,
        )
    assert step.decision is not None  # noqa: S101 - the model admits exactly one kind
    return DecisionAction(on=step.decision.on, default=step.decision.default)
