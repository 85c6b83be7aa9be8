"""The adapter protocol that every provider implements (providers.md), owned by managed agent invocation.

A *turn* is what the Runner says to a session; its events come back as an async iterator. One turn makes at most one model
call in a chat-style provider; tool requests end the turn, invocation runs the tools (journaled) and answers with
``ToolResults``. Text, end of turn and process exit are never completion: only ``Completion`` is, once its schema admits it.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from runner.contract.activation import EffectClass, Executor
from runner.contract.canonical import FrozenJson, digest
from runner.contract.errors import Finding
from runner.contract.events import Usage
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import DeliveryId, Digest, StepRef

Feature = Literal["agent", "generate", "structured-output", "tools"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDescriptor:
    """What an adapter is. Its digest is frozen into activations; another digest at execution is binding drift."""

    key: str
    version: str
    features: tuple[Feature, ...]

    @property
    def digest(self) -> Digest:
        """Over key, version and features."""
        return digest({"key": self.key, "version": self.version, "features": list(self.features)})


class Credentials(Protocol):
    """A way to the secret that the config names, leased for one call and never stored."""

    def lease(self) -> AbstractContextManager[str]:
        """The secret, for as short as possible. ``CallerError(secret-unreadable)`` when its source cannot be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it, and its effect class."""

    name: str
    description: str
    parameters: FrozenJson
    effect: EffectClass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDispatch:
    """Everything a session is opened with; frozen for its life."""

    delivery: DeliveryId
    step: StepRef
    attempt: int
    executor: Executor
    system: str
    tools: tuple[ToolSpec, ...]
    result_schema: FrozenJson
    worktree: str | None
    """For foreign agents and for blanking paths in recordings; our own tools use the grant."""


# --- turns -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    id: str
    """The id of the ``ToolRequest`` it answers."""
    ok: bool
    text: str
    """What the model sees: the value as text, or the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResults:
    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The last completion was invalid: the validator's findings, verbatim."""

    findings: tuple[str, ...]


Turn = Prompt | ToolResults | Correction

# --- events of a turn ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIntent:
    """Yielded before the request leaves: the canonical request (what the model sees). Resuming the iterator sends it."""

    request: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDelta:
    """Streamed text; for progress only."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The whole answer of one model call: the assistant message in neutral form, and who answered."""

    response: FrozenJson
    provider: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    id: str
    name: str
    arguments: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A structured result the agent offers; invocation validates it."""

    value: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Structured signals of a failure, for the classification table. ``message`` is for people and redacted."""

    exception: str
    """Qualified name of the exception type, or empty."""
    http_status: int | None = None
    error_code: str | None = None
    retry_after_s: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The last event of a turn that did not fail; ``finish`` is the endpoint's own word for why."""

    finish: str


TurnEvent = CallIntent | OutputDelta | CallResult | ToolRequest | Completion | Failure | TurnEnded


class NativeSession(Protocol):
    """One conversation in the provider's own form. Closed exactly once, also after a failure."""

    @property
    def native_id(self) -> str: ...

    def run(self, turn: Turn) -> AsyncIterator[TurnEvent]:
        """One turn. After ``Failure`` the same turn may be run again: the session is as before it."""
        ...

    def replay(self, turn: Turn, response: FrozenJson) -> tuple[TurnEvent, ...]:
        """One turn whose answer is known already: ``response`` is the ``CallResult.response`` that was recorded for it. The
        session goes on as after ``run``, and what ``run`` would have yielded comes back, ``CallIntent`` first, without
        deltas and ``CallResult``. No effect, no credential. ``ProviderError`` (``binding-drift``) for an answer that does
        not fit the conversation; the session is then as before."""
        ...

    async def close(self) -> None:
        """Frees what is live. Idempotent."""
        ...


class Realm(Protocol):
    """A started provider: connections, processes. One per used provider and Runner."""

    async def open_session(self, dispatch: SessionDispatch) -> NativeSession: ...

    def review(self, executor: Executor, asked: frozenset[tuple[str, int]]) -> tuple[Finding, ...]:
        """What the provider holds against a Delivery that made the calls ``asked`` (step key, turn) of ``executor``: a
        recording names its entries that nothing asked for. Others answer with nothing. Pure."""
        ...

    async def close(self) -> None:
        """Frees everything; idempotent."""
        ...


class ProviderFactory(Protocol):
    """Creation plane of one provider: no effect until ``open_realm``."""

    @property
    def descriptor(self) -> ProviderDescriptor: ...

    def check_settings(self, settings: FrozenJson) -> tuple[Finding, ...]:
        """Every problem in the config's settings, with field paths below ``settings``. No effect."""
        ...

    def bind(self, model: str) -> tuple[str, FrozenJson]:
        """The model text and the options that an activation freezes for a binding to ``model``: what makes a later change
        of the thing it names noticeable. Reads at most what the binding names; ``ProviderError`` with the place when that
        cannot be used."""
        ...

    def check_executor(self, executor: Executor) -> tuple[Finding, ...]:
        """Every problem in a binding to this provider (model, options). Reads at most what the binding names.
        ``ProviderError(binding-drift)`` when that is not what ``bind`` froze any more."""
        ...

    async def open_realm(self, settings: FrozenJson, credentials: Credentials | None) -> Realm:
        """Starts the provider; ``ProviderError`` when it cannot, leaving nothing behind."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """``text`` is what the model sees; ``ok`` False is a tool failure, which is a result."""

    ok: bool
    text: str
    changed: tuple[str, ...] | None = ()
    """Worktree paths the call changed; None: nobody knows."""


class Toolbox(Protocol):
    """The tools that act under a workspace grant."""

    def specs(self, names: tuple[str, ...], writable: bool) -> tuple[ToolSpec, ...]:
        """The named tools in a fixed order; writing ones only when ``writable``. ``CallerError`` for an unknown name."""
        ...

    async def call(self, grant: WorkspaceGrant, spec: ToolSpec, arguments: FrozenJson, *, key: Digest) -> ToolOutcome:
        """Runs one tool. ``key`` is its effect key, the same when the call is made again after a crash: a tool with effects
        outside passes it on as an idempotency key. Every path is resolved below the grant's worktree without following
        links; a write outside the scope fails without an effect. Raises only ``IntegrityError(grant-invalid)``."""
        ...


def tool_json(specs: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    """The tools as they enter digests and requests."""
    return [{"name": s.name, "description": s.description, "parameters": s.parameters} for s in specs]
