"""The package language as models: what an author writes, before anything is resolved. ``package.schema.json`` is made of them.

Field names are the author's words; ``lowering`` turns them into the activation's. Kinds and fields of the full language
that are not built yet are listed here, so that they are refused by name instead of as unknown keys.
"""

import json
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from runner.contract import limits
from runner.contract.activation import (
    EffectClass,
    RemoteName,
    Seconds,
    ServerEffect,
    SiteIdText,
    Template,
    ToolName,
    ToolServerKey,
)
from runner.contract.canonical import Json, freeze
from runner.contract.model import Frozen
from runner.contract.scope import EVERYTHING, READ_ONLY, Scope

KINDS: Final = ("agent", "generate", "command", "decision", "approval")
KINDS_NOT_BUILT: Final = (
    "code",
    "tool",
    "parallel",
    "foreach",
    "wait",
    "trigger",
    "review",
    "publish",
)
FIELDS_NOT_BUILT: Final = ("emit", "cleanup")

InputName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
OutcomeText = Annotated[str, Field(min_length=1, max_length=200)]
Target = SiteIdText


def _scope(value: object) -> Scope:
    match value:
        case Scope():
            return value
        case "read-only":
            return READ_ONLY
        case "everything":
            return EVERYTHING
        case [_, *_] if all(isinstance(p, str) for p in value):
            return Scope(kind="patterns", patterns=tuple(str(p) for p in value))
        case _:
            raise ValueError("is 'read-only', 'everything' or a list of path patterns such as [\"src/**\"]")


ScopeField = Annotated[
    Scope,
    PlainValidator(_scope),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["read-only", "everything"]},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ],
            "description": "What the step may write: 'read-only', 'everything', or path patterns.",
        }
    ),
]


def _schema(value: object) -> Any:
    if isinstance(value, str | dict | bool):
        return freeze(value)
    raise ValueError("is the path of a JSON Schema file, or a schema written here")


SchemaField = Annotated[
    Json,
    PlainValidator(_schema),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "object"}], "description": "A schema file's path, or a schema."}
    ),
]


def _run(value: object) -> tuple[str, ...]:
    match value:
        case str():
            return (value,)
        case [_, *_] if all(isinstance(word, str) and len(word) <= limits.TEMPLATE_CHARS_MAX for word in value):
            return tuple(str(word) for word in value)
        case _:
            raise ValueError('is a list of words such as ["pytest", "-q"], or with \'shell: true\' one string')


RunField = Annotated[
    tuple[str, ...],
    PlainValidator(_run),
    WithJsonSchema(
        {
            "anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "string"}],
            "description": "The program and its arguments; with 'shell: true' one string for /bin/sh.",
        }
    ),
]


class Instructions(Frozen):
    """A role's standing instructions: a file beside the package, or text."""

    file: str | None = None
    text: Template | None = None


def _instructions(value: object) -> Instructions:
    match value:
        case str():
            return Instructions(file=value)
        case {"text": str() as text, **rest} if not rest:
            return Instructions(text=text)
        case _:
            raise ValueError("is the path of a text file, or { text: ... }")


InstructionsField = Annotated[
    Instructions,
    PlainValidator(_instructions),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                    "additionalProperties": False,
                },
            ],
            "description": "A text file's path, or { text: ... }.",
        }
    ),
]


class Role(Frozen):
    """Who acts, apart from the model: bound to a provider and a model at admission."""

    instructions: InstructionsField = Instructions(text="")


class Tool(Frozen):
    """A tool of a configured tool server, under a name of the package's own."""

    server: ToolServerKey
    name: RemoteName | None = None
    """What the server calls it, when that is not the name here."""
    effect: ServerEffect = "external"


class Agent(Frozen):
    """A managed agent: turns, tools, the worktree under a scope, a structured result."""

    role: SiteIdText
    prompt: Template
    scope: ScopeField
    result: SchemaField = None
    outcome: str | None = None
    tools: tuple[str, ...] = ("read", "list", "search", "write", "edit")
    turns_max: Annotated[int, Field(ge=1, le=limits.TURNS_MAX)] = limits.TURNS_DEFAULT
    asks: bool = False
    session: Literal["episode", "delivery"] = "episode"
    trust: Literal["trusted", "untrusted"] = "trusted"


class Generate(Frozen):
    """One model call without tools."""

    role: SiteIdText
    system: Template = ""
    prompt: Template
    input: Json = None
    result: SchemaField = None
    outcome: str | None = None
    trust: Literal["trusted", "untrusted"] = "trusted"


class Command(Frozen):
    """One process: an argv, or with ``shell: true`` one string."""

    run: RunField
    shell: bool = False
    cwd: str = "."
    env: dict[str, str] = Field(default_factory=dict)
    ok: Annotated[tuple[Annotated[int, Field(ge=0, le=255)], ...], Field(min_length=1)] = (0,)
    effect: EffectClass | None = None
    scope: ScopeField
    timeout_s: Seconds | None = None
    output_bytes_max: Annotated[int, Field(ge=1024, le=limits.OUTPUT_BYTES_MAX)] = limits.OUTPUT_BYTES_DEFAULT


def _case(value: object) -> str:
    match value:
        case str():
            return value
        case bool() | int():
            return json.dumps(value)
        case _:
            raise ValueError("is one of the cases")


CaseField = Annotated[
    str,
    PlainValidator(_case),
    WithJsonSchema({"type": ["string", "boolean", "integer"], "description": "One of the cases."}),
]


class Decision(Frozen):
    """Picks one case: the value of ``on``, as text, is looked up among the keys of ``cases``."""

    on: Template
    cases: Annotated[dict[OutcomeText, Target], Field(min_length=1)]
    default: CaseField | None = None


class Approval(Frozen):
    """A wait for a person's answer."""

    prompt: Template
    show: Literal["diff", "nothing"] = "diff"
    answer: SchemaField = None
    outcome: str = "decision"
    expires_s: Seconds | None = None
    on_expiry: Literal["renew", "default", "incomplete"] | None = None
    renewals: Annotated[int, Field(ge=0, le=limits.RENEWALS_MAX)] | None = None
    default: Json = None

    @model_validator(mode="after")
    def _expiry(self) -> Self:
        if self.expires_s is None and self.on_expiry is not None:
            raise ValueError("'on_expiry' without 'expires_s': nothing ever expires; add it, or remove this")
        if self.renewals is not None and self.on_expiry != "renew":
            raise ValueError("'renewals' is for 'on_expiry: renew'; add that, or remove this")
        return self


class Budget(Frozen):
    visits: Annotated[int, Field(ge=1, le=limits.VISITS_MAX)]


class Retry(Frozen):
    attempts: Annotated[int, Field(ge=1, le=limits.ATTEMPTS_MAX)]


class Step(Frozen):
    """One step: common fields and exactly one kind."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [kind]} for kind in KINDS]})

    id: SiteIdText
    needs: tuple[Target, ...] = ()
    when: Template | None = None
    routes: dict[OutcomeText, Target] = Field(default_factory=dict)
    budget: Budget | None = None
    retry: Retry | None = None
    timeout_s: Seconds | None = None
    expect: Literal["changes"] | None = None
    agent: Agent | None = None
    generate: Generate | None = None
    command: Command | None = None
    decision: Decision | None = None
    approval: Approval | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) if kinds else "none"
            raise ValueError(f"a step has exactly one of {', '.join(KINDS)}; here: {found}")
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


class SetupStep(Frozen):
    """Prepares a fresh worktree: a command in it, or an ignored path copied or linked from the repository's own checkout."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [k]} for k in ("run", "copy", "link")]})

    run: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    copy_path: str | None = Field(default=None, alias="copy")
    link: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(part is not None for part in (self.run, self.copy_path, self.link)) != 1:
            raise ValueError("a setup step has exactly one of run, copy, link")
        return self


class OutputModel(Frozen):
    """The workflow's result."""

    value: Json
    json_schema: SchemaField = Field(default=None, alias="schema")


class TargetModel(Frozen):
    """The branch to publish to; expressions may read the input and ``delivery.id``."""

    branch: Annotated[Template, Field(min_length=1)]


class LimitsModel(Frozen):
    timeout_s: Seconds | None = None


class Package(Frozen):
    """A workflow package: one file. Everything it names is resolved at admission."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    input: dict[InputName, dict[str, Json]] = Field(default_factory=dict)
    setup: tuple[SetupStep, ...] = ()
    roles: dict[SiteIdText, Role] = Field(default_factory=dict)
    tools: dict[ToolName, Tool] = Field(default_factory=dict)
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=limits.STEPS_MAX)]
    output: OutputModel | None = None
    target: TargetModel | None = None
    limits: LimitsModel = LimitsModel()
