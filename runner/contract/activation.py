"""The Runner's only input: one frozen JSON document with everything resolved and digested.

It names no selector, no environment variable and no secret. ``binding_identity`` is the SHA-256 of its RFC 8785 form
without that field (workflow.md), so one changed byte is noticed before any effect. Templates are strings with ``{{ CEL }}``
parts; a string that is one expression keeps its type.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator

from runner.contract import ids, limits
from runner.contract.canonical import FrozenJson, Json, digest
from runner.contract.ids import Digest
from runner.contract.model import Frozen
from runner.contract.remotes import remote_problem
from runner.contract.scope import Scope

FORMAT: Final = "runner.activation/1"

EffectClass = Literal["read", "idempotent", "workspace", "external"]
"""``read`` changes nothing; ``idempotent`` may be asked twice under one key; ``workspace`` changes only the worktree;
``external`` is everything else, and what an unclassified tool counts as."""

SiteIdText = Annotated[str, Field(pattern=f"^{ids.SITE_ID_PATTERN}$")]
DigestText = Annotated[str, Field(pattern=f"^{ids.DIGEST_PATTERN}$")]
ObjectIdText = Annotated[str, Field(pattern=f"^{ids.OBJECT_ID_PATTERN}$")]
Template = Annotated[str, Field(max_length=limits.TEMPLATE_CHARS_MAX)]
Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600.0, strict=False)]


class Executor(Frozen):
    """One bound role: the exact provider, model and instructions that will act. Nothing is chosen later."""

    role: Annotated[str, Field(pattern=f"^{ids.SITE_ID_PATTERN}$")]
    provider: str
    version: str
    descriptor: DigestText
    """Digest of the provider's descriptor (key, version, features) as the configured registry had it at admission."""
    model: str
    instructions: Template = ""
    options: Json = None
    """Provider options: opaque to everyone but the provider, validated by it."""


class AgentAction(Frozen):
    """A managed agent: turns, tools, the workspace under ``scope``, a structured result."""

    kind: Literal["agent"] = "agent"
    executor: str
    """The role of one of the activation's executors."""
    prompt: Template
    scope: Scope
    result_schema: Json
    outcome: str | None = None
    """The name of a required string property of the result with an ``enum``; its value is the step's outcome."""
    tools: tuple[str, ...] = ("read", "list", "search", "write", "edit")
    turns_max: Annotated[int, Field(ge=1, le=limits.TURNS_MAX)] = limits.TURNS_DEFAULT
    asks: bool = False
    """Whether the agent is offered the ``ask`` tool, through which it can ask a person and go on in the same session."""
    session: Literal["episode", "delivery"] = "episode"
    trust: Literal["trusted", "untrusted"] = "trusted"
    """``untrusted`` output is fenced and escaped when it enters a prompt."""


class GenerateAction(Frozen):
    """One model call, no tools, one turn (plus bounded corrective turns)."""

    kind: Literal["generate"] = "generate"
    executor: str
    system: Template = ""
    prompt: Template
    input: Json = None
    """A JSON value whose strings may be templates; shown to the model after ``Input:``."""
    result_schema: Json
    outcome: str | None = None
    trust: Literal["trusted", "untrusted"] = "trusted"


class CommandAction(Frozen):
    """One supervised process. ``run`` is an argv of templates; with ``shell`` it is one string for ``/bin/sh -c``."""

    kind: Literal["command"] = "command"
    run: Annotated[tuple[Template, ...], Field(min_length=1)]
    shell: bool = False
    cwd: str = "."
    env: Json = Field(default_factory=dict)
    """Names and template values given to the process besides PATH, HOME, LANG, LC_*, TMPDIR."""
    ok_exit_codes: tuple[Annotated[int, Field(ge=0, le=255)], ...] = (0,)
    effect: EffectClass | None = None
    """None: what the isolation makes of it (``effects.process_effect``)."""
    scope: Scope
    output_bytes_max: Annotated[int, Field(ge=1024, le=limits.OUTPUT_BYTES_MAX)] = limits.OUTPUT_BYTES_DEFAULT


class DecisionAction(Frozen):
    """Picks exactly one case: ``on`` is one expression; its value as text selects a key of the step's ``routes``."""

    kind: Literal["decision"] = "decision"
    on: Template
    default: str | None = None
    """The case taken when no key equals the value; without it such a value fails the step."""


class ApprovalAction(Frozen):
    """A wait for a person. Nothing runs and no process is held while it is open."""

    kind: Literal["approval"] = "approval"
    prompt: Template
    show_diff: bool = True
    """Whether the asker is told to show what the Delivery has changed so far."""
    answer_schema: Json
    """What an answer must be; ``outcome`` names its required string property with an ``enum``."""
    outcome: str = "decision"
    expires_s: Seconds | None = None
    on_expiry: Literal["renew", "default", "incomplete"] = "incomplete"
    """``renew`` opens the same wait again, ``renewals_max`` times, then it is ``incomplete``; ``default`` takes ``default``
    for the answer; ``incomplete`` ends the step as ``wait-expired``: routed, else the Delivery ends ``incomplete``."""
    renewals_max: Annotated[int, Field(ge=0, le=limits.RENEWALS_MAX)] = limits.RENEWALS_DEFAULT
    default: Json = None


Action = Annotated[
    AgentAction | GenerateAction | CommandAction | DecisionAction | ApprovalAction, Field(discriminator="kind")
]


class RouteTo(Frozen):
    """An outcome and where it leads: a step id or a terminal (``completed``, ``incomplete``, ``failed``)."""

    outcome: Annotated[str, Field(min_length=1, max_length=200)]
    to: SiteIdText


class Step(Frozen):
    """One site of the graph as authored, with all references resolved to ids."""

    id: SiteIdText
    needs: tuple[SiteIdText, ...] = ()
    when: Template | None = None
    """One expression that must yield a boolean; false skips the step."""
    routes: tuple[RouteTo, ...] = ()
    """At most one per outcome."""
    budget_visits: Annotated[int, Field(ge=1, le=limits.VISITS_MAX)] | None = None
    attempts_max: Annotated[int, Field(ge=1, le=limits.ATTEMPTS_MAX)] = 3
    """Tries of one model call or corrective turn for classified transient failures; never re-runs a finished effect."""
    timeout_s: Seconds | None = None
    expect_changes: bool = False
    action: Action


class Output(Frozen):
    """The workflow's result: a JSON value with templates, validated against ``json_schema``."""

    value: Json
    json_schema: Json = None


def _outside(effect: EffectClass) -> EffectClass:
    if effect == "workspace":
        raise ValueError(
            "a tool server acts outside of the worktree, so no savepoint can undo it: say read, idempotent or external"
        )
    return effect


ServerEffect = Annotated[
    EffectClass,
    AfterValidator(_outside),
    WithJsonSchema({"type": "string", "enum": ["read", "idempotent", "external"]}),
]
"""The effect of a tool that a server runs."""
ToolName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
ToolServerKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
RemoteName = Annotated[str, Field(min_length=1, max_length=200)]


def tool_digest(remote: str, description: str, parameters: FrozenJson) -> Digest:
    """What a tool is, for ``DeclaredTool.digest``."""
    return digest({"remote": remote, "description": description, "parameters": parameters})


class DeclaredTool(Frozen):
    """A tool of one of the config's tool servers, as that server described it at admission. Nothing else is offered."""

    name: ToolName
    """What steps and models call it."""
    server: ToolServerKey
    """The key of a tool server of the config."""
    remote: RemoteName
    """What the server calls it."""
    description: str
    parameters: Json
    """JSON Schema of its arguments."""
    effect: ServerEffect = "external"
    digest: DigestText
    """Over ``remote``, ``description`` and ``parameters``; a server that describes another tool under this name is drift."""


class Workflow(Frozen):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    input_schema: Json
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=limits.STEPS_MAX)]
    output: Output | None = None


class Workspace(Frozen):
    """The admitted worktree. ``include_dirty`` means that edits found at acceptance belong to baseline and result."""

    worktree: str
    """Canonical absolute path of the worktree's root."""
    base_commit: ObjectIdText
    base_tree: ObjectIdText
    include_dirty: bool = False


class Target(Frozen):
    """The one ref that publication may move, and what it must be before."""

    ref: Annotated[str, Field(pattern=r"^refs/(heads|tags|runner)/.+$")]
    expected: Annotated[str, Field(pattern=rf"^(absent|{ids.OBJECT_ID_PATTERN})$")]
    remote: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    """The URL of the repository that the ref is pushed to; None: the ref is the worktree's own repository's."""

    @field_validator("remote")
    @classmethod
    def _pushable(cls, value: str | None) -> str | None:
        if value is not None and (problem := remote_problem(value)):
            raise ValueError(problem)
        return value


class Origin(Frozen):
    """A Delivery that this one starts from: what had finished there counts here and is not done again.

    Every step that had ended at ledger sequence ``position`` of ``delivery`` is taken over with its end, and the worktree starts
    as ``savepoint``. A step that was still open there starts anew; only when ``savepoint`` is one that was taken inside of it,
    beside a tool call's result, does it go on behind that call.
    """

    delivery: Annotated[str, Field(pattern=f"^{ids.DELIVERY_ID_PATTERN}$")]
    position: Annotated[int, Field(ge=1)]
    record: DigestText
    """The chain digest of the record at ``position``: exactly what was looked at when this was admitted."""
    savepoint: ObjectIdText


class Limits(Frozen):
    delivery_timeout_s: Seconds | None = None


class Activation(Frozen):
    """A fully admitted workflow over one worktree. Build it with ``seal``; trust it only after ``interpret``."""

    format: Literal["runner.activation/1"] = FORMAT
    delivery: Annotated[str, Field(pattern=f"^{ids.DELIVERY_ID_PATTERN}$")]
    admitted_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    """UTC. Dates of preserved commits are this time, so that a killed and an undisturbed run give equal bytes."""
    workflow: Workflow
    executors: tuple[Executor, ...] = ()
    tools: tuple[DeclaredTool, ...] = ()
    workspace: Workspace
    target: Target
    origin: Origin | None = None
    limits: Limits = Limits()
    input: Json = None
    binding_identity: DigestText


def identity_of(document: FrozenJson) -> Digest:
    """The binding identity that ``document`` (an activation as JSON) must carry."""
    if not isinstance(document, Mapping):
        raise ValueError("an activation is a JSON object")
    return digest({k: v for k, v in document.items() if k != "binding_identity"})


def seal(**fields: object) -> Activation:
    """An activation over ``fields`` with its binding identity filled in. Used by admission and by parents of their own."""
    draft = Activation.model_validate({**fields, "binding_identity": "sha256:" + "0" * 64})
    return draft.model_copy(update={"binding_identity": identity_of(draft.to_json())})
