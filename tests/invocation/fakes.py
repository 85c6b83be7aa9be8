"""A scripted provider behind the provider protocol, a clock that only sleeping moves, and one Delivery around them."""

import asyncio
import dataclasses
import datetime as dt
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosts.operations.bubblewrap import containment
from hosts.operations.command import CommandRunner
from providers.tool_servers import ToolServers
from providers.workspace_tools import WorkspaceToolbox
from runner.contract.activation import Activation, AgentAction, Executor, GenerateAction, seal
from runner.contract.canonical import FrozenJson, digest, freeze
from runner.contract.config import CredentialSource, Isolation, ProviderConfig, RunnerFactoryConfig
from runner.contract.errors import Finding
from runner.contract.events import Usage
from runner.contract.grant import GrantKey, WorkspaceGrant, sign
from runner.contract.ids import DeliveryId, Digest, ObjectId, SiteId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.plan import Plan, Site
from runner.contract.ports import Bridge, Case, DeclaredTools, Dispatch, LedgerWriter
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Correction,
    Credentials,
    Failure,
    NativeSession,
    Prompt,
    ProviderDescriptor,
    Realm,
    SessionDispatch,
    Toolbox,
    ToolRequest,
    ToolResults,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.recording import decode_event, encode_event
from runner.contract.records import Record
from runner.contract.scope import EVERYTHING
from runner.invocation.command_tool import CommandTool
from runner.invocation.invoke import Invocation
from runner.invocation.registry import Registry
from runner.ledger.store import SqliteLedger, create_or_open
from tests.bridges import Nobody
from tests.operations.fakes import RealClock

SECRET = "sk-very-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["good", "bad"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
GOOD = {"verdict": "good"}
KEY = GrantKey(b"k" * 32)

Step = TurnEvent | Exception | Callable[[], Awaitable[None]]
"""What a scripted turn does next: yield an event, raise, or await something."""


class FakeClock:
    """Time stands still but for sleeping, which takes none of the machine's; with ``endless`` no sleep ever ends."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.skew = 0.0
        """Of the wall clock alone."""
        self.slept: list[float] = []
        self.endless = False
        self.sleeping = asyncio.Event()

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=self.time + self.skew)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.sleeping.set()
        if self.endless:
            await asyncio.Event().wait()
        self.time += seconds
        await asyncio.sleep(0)


def response(text: str = "", **usage: int) -> CallResult:
    return CallResult(
        response=freeze({"role": "assistant", "content": text}),
        provider="fake",
        model="answered-1",
        usage=Usage(**usage),
    )


def completes(value: Any = GOOD) -> list[Step]:
    """A turn that ends with a structured result."""
    return [response(), Completion(value=freeze(value)), TurnEnded(finish="stop")]


def asks(*requests: tuple[str, Any]) -> list[Step]:
    """A turn that asks for tools."""
    asked = [ToolRequest(id=f"c{n}", name=name, arguments=freeze(a)) for n, (name, a) in enumerate(requests)]
    return [response(), *asked, TurnEnded(finish="tool_calls")]


def says(text: str) -> list[Step]:
    """A turn that ends with text alone."""
    return [response(text), TurnEnded(finish="stop")]


def fails(**signals: Any) -> list[Step]:
    return [Failure(**{"exception": "", **signals})]


@dataclass
class Script:
    """What the provider will do, try by try, and what it was told."""

    turns: list[list[Step]] = field(default_factory=list)
    heard: list[Turn] = field(default_factory=list)
    replay_error: Exception | None = None
    opened: list[SessionDispatch] = field(default_factory=list)
    sent: list[FrozenJson] = field(default_factory=list)
    """Requests that left, in order."""
    closed: int = 0
    realms_closed: list[str] = field(default_factory=list)
    asked: list[tuple[str, frozenset[tuple[str, int]]]] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    on_send: Callable[[], None] = lambda: None
    odd_request: bool = False
    """The intent is no JSON."""


class ScriptedSession:
    def __init__(self, script: Script, dispatch: SessionDispatch) -> None:
        self._script = script
        self._messages: list[Any] = [{"role": "system", "content": dispatch.system}]

    @property
    def native_id(self) -> str:
        return "native"

    async def run(self, turn: Turn) -> AsyncIterator[TurnEvent]:
        script = self._script
        script.heard.append(turn)
        request = freeze({"messages": [*self._messages, _message(turn)]})
        yield CallIntent(request=float("inf") if script.odd_request else request)
        script.on_send()
        script.sent.append(request)
        steps, answer = script.turns.pop(0), None
        for place, step in enumerate(steps):
            if isinstance(step, Exception):
                raise step
            if inspect.iscoroutinefunction(step):
                await step()
                continue
            assert not callable(step)
            if isinstance(step, CallResult):
                answer = dataclasses.replace(step, response=_with_rest(step.response, steps[place + 1 :]))
                yield answer
                continue
            if isinstance(step, TurnEnded) and answer is not None:
                self._messages += [_message(turn), answer.response]
            yield step

    def replay(self, turn: Turn, response: FrozenJson) -> tuple[TurnEvent, ...]:
        request = freeze({"messages": [*self._messages, _message(turn)]})
        self._messages += [_message(turn), response]
        if self._script.replay_error is not None:
            raise self._script.replay_error
        assert isinstance(response, Mapping)
        rest = response["then"]
        assert isinstance(rest, tuple)
        return (CallIntent(request=request), *map(decode_event, rest))

    async def close(self) -> None:
        self._script.closed += 1


def _with_rest(response: FrozenJson, rest: list[Step]) -> FrozenJson:
    """The answer with the events that follow it: for this provider they are a part of what the model said."""
    assert isinstance(response, Mapping)
    kept = [e for e in rest if isinstance(e, ToolRequest | Completion | TurnEnded)]
    return freeze({**response, "then": [encode_event(e) for e in kept]})


def _message(turn: Turn) -> dict[str, Any]:
    match turn:
        case Prompt(text=text):
            return {"role": "user", "content": text}
        case Correction(findings=findings):
            return {"role": "user", "content": "\n".join(findings)}
        case ToolResults(results=results):
            return {"role": "tool", "content": [{"tool_call_id": r.id, "text": r.text} for r in results]}


class ScriptedRealm:
    def __init__(self, key: str, script: Script) -> None:
        self._key = key
        self._script = script

    async def open_session(self, dispatch: SessionDispatch) -> NativeSession:
        self._script.opened.append(dispatch)
        return ScriptedSession(self._script, dispatch)

    def review(self, executor: Executor, asked: frozenset[tuple[str, int]]) -> tuple[Finding, ...]:
        self._script.asked.append((executor.role, asked))
        return self._script.findings

    async def close(self) -> None:
        self._script.realms_closed.append(self._key)


@dataclass
class ScriptedFactory:
    script: Script
    key: str = "fake"
    version: str = "1"
    features: tuple[Any, ...] = ("agent", "generate", "structured-output", "tools")
    settings_findings: tuple[Finding, ...] = ()
    executor_findings: tuple[Finding, ...] = ()
    start_errors: list[Exception] = field(default_factory=list)
    started: int = 0
    lease_at_start: bool = True

    @property
    def descriptor(self) -> ProviderDescriptor:
        return ProviderDescriptor(key=self.key, version=self.version, features=self.features)

    def check_settings(self, settings: FrozenJson) -> tuple[Finding, ...]:
        return self.settings_findings

    def bind(self, model: str) -> tuple[str, FrozenJson]:
        return f"{self.key}/{model}", None

    def check_executor(self, executor: Executor) -> tuple[Finding, ...]:
        return self.executor_findings

    async def open_realm(self, settings: FrozenJson, credentials: Credentials | None) -> Realm:
        if self.start_errors:
            raise self.start_errors.pop(0)
        if credentials is not None and self.lease_at_start:
            with credentials.lease() as secret:
                assert secret == SECRET
        self.started += 1
        return ScriptedRealm(self.key, self.script)


def executor(factory: ScriptedFactory, role: str = "coder", **changes: Any) -> Executor:
    descriptor = factory.descriptor
    fields = {
        "role": role,
        "provider": descriptor.key,
        "version": descriptor.version,
        "descriptor": descriptor.digest,
        "model": "asked-1",
        "instructions": "Be brief.",
        **changes,
    }
    return Executor(**fields)


def config(*keys: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> RunnerFactoryConfig:
    source = CredentialSource(env="FAKE_KEY")
    providers = tuple(ProviderConfig(key=k, credential=source, settings=settings or {}) for k in keys)
    return RunnerFactoryConfig(**{"state_root": "/nowhere", "providers": providers, **changes})


ENVIRONMENT: Mapping[str, str] = {"FAKE_KEY": SECRET}

AGENT = AgentAction(executor="coder", prompt="p", scope=EVERYTHING, result_schema=SCHEMA, turns_max=6)
GENERATE = GenerateAction(executor="coder", prompt="p", result_schema=SCHEMA)


def activation(root: Path, executors: tuple[Executor, ...], **actions: AgentAction | GenerateAction) -> Activation:
    steps = [{"id": name, "action": action.model_dump()} for name, action in actions.items()]
    return seal(
        delivery="d1",
        admitted_at="2026-01-01T00:00:00Z",
        workflow={"name": "w", "input_schema": {}, "steps": tuple(steps)},
        executors=executors,
        workspace={"worktree": str(root), "base_commit": "0" * 40, "base_tree": "0" * 40},
        target={"ref": "refs/heads/x", "expected": "absent"},
    )


@dataclass
class Shown:
    texts: list[tuple[str, str]] = field(default_factory=list)

    def progress(self, step: StepRef, text: str) -> None:
        self.texts.append((step.key, text))


class Delivery:
    """One Delivery over a real ledger and a real worktree, with a scripted provider."""

    def __init__(self, tmp: Path, *, record: bool = False, opened: bool = True, **factory: Any) -> None:
        self.state, self.worktree, self.state_root = tmp / "state", tmp / "worktree", tmp
        self.worktree.mkdir(exist_ok=True)
        self.recordings = tmp / "recordings" / "d1" if record else None
        self.script = Script()
        self.factory: Any = ScriptedFactory(self.script, **factory)
        self.clock = FakeClock()
        self.shown = Shown()
        self.settings: Mapping[str, Any] = {}
        self.environment = ENVIRONMENT
        self.bridge: Bridge = Nobody()
        self.servers: DeclaredTools = ToolServers((), {}, lambda text: text)
        self.isolation: Isolation = "none"
        self.scope = EVERYTHING
        self.toolbox: Toolbox = WorkspaceToolbox(key=KEY, clock=self.clock)
        self.pen: Callable[[LedgerWriter], LedgerWriter] = lambda writer: writer
        self.actions: dict[str, AgentAction | GenerateAction] = {"code": AGENT, "ask": GENERATE}
        self.executors: tuple[Executor, ...] = (executor(self.factory),)
        if opened:
            self.open()

    def open(self) -> None:
        """As a new process would: everything from the files again."""
        layout = DeliveryLayout(self.state)
        self.ledger: SqliteLedger = create_or_open(layout, clock=self.clock)
        bound = activation(self.worktree, self.executors, **self.actions)
        self.plan = Plan(
            delivery=DeliveryId("d1"),
            activation=Digest(bound.binding_identity),
            sites=tuple(Site(id=SiteId(name), action=action) for name, action in self.actions.items()),
            reopens=(),
            output=None,
            input=None,
            digest=digest(None),
        )
        case = Case(
            activation=bound,
            plan=self.plan,
            layout=layout,
            ledger=self.ledger,
            progress=self.shown,
            waits=Nobody(),
            interactions=self.bridge,
        )
        self.registry = Registry(
            factories=(self.factory,),
            config=config(self.factory.descriptor.key, settings=self.settings, state_root=str(self.state_root)),
            environment=self.environment,
        )
        self.registry.check(bound)
        operations = CommandRunner(
            case=case,
            writer=self.ledger.writer("operations"),
            clock=RealClock(),
            secrets=lambda: self.registry.redactor.forms,
            containment=None if self.isolation == "none" else lambda: containment(config(self.factory.key)),
        )
        self.invocation = Invocation(
            case=case,
            writer=self.pen(self.ledger.writer("invocation")),
            registry=self.registry,
            toolbox=self.toolbox,
            command=CommandTool(operations=operations, isolation=self.isolation),
            servers=self.servers,
            clock=self.clock,
            record_dir=None if self.recordings is None else self.recordings.parent,
        )

    def again(self) -> None:
        """Another life of the Delivery, in a new process."""
        self.close()
        self.open()

    def close(self) -> None:
        """The process is over; nothing, for one that was never opened."""
        if hasattr(self, "ledger"):
            self.ledger.close()

    def dispatch(self, site: str = "code", **changes: Any) -> Dispatch:
        action = self.actions[site]
        step = StepRef(site=SiteId(site))
        fields: dict[str, Any] = {
            "step": step,
            "attempt": 1,
            "action": action,
            "system": "",
            "prompt": "Do it.",
            "mark": None,
            "grant": self.grant(step) if isinstance(action, AgentAction) else None,
            "timeout_s": None,
            "attempts_max": 3,
        }
        return Dispatch(**{**fields, **changes})

    def grant(self, step: StepRef) -> WorkspaceGrant:
        found, scope = self.worktree.stat(), self.scope
        fields: dict[str, Any] = {
            "delivery": DeliveryId("d1"),
            "step": step.key,
            "attempt": 1,
            "worktree": str(self.worktree),
            "device": found.st_dev,
            "inode": found.st_ino,
            "savepoint": ObjectId("0" * 40),
            "scope": scope,
            "scope_digest": digest(scope.to_json()),
            "expires_at": 1e9,
            "nonce": "n",
        }
        return WorkspaceGrant(**fields, signature=sign(KEY, WorkspaceGrant(**fields)))

    def records(self) -> list[Record]:
        return list(self.ledger.read())

    def kinds(self) -> list[str]:
        return [record.event.KIND for record in self.records()]
