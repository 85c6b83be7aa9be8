"""The creation plane: the only file that wires rooms to each other and to the world.

Owned invariants
- A failure anywhere disposes what was started, in reverse, and publishes no Runner.
- Each room gets the narrow protocol of its siblings that it may use, never the sibling itself.
- Nothing pre-built enters: no native service, callback or raw package; a config is a closed value.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from custody.custodian import Custodian
from custody.origin import bring
from hosts.langgraph.fitting import fitting
from hosts.operations.boundary import Containment
from hosts.operations.bubblewrap import containment, find_bubblewrap, probe, starts_processes
from hosts.operations.command import CommandRunner
from providers.catalogue import factories
from providers.tool_servers import ToolServers
from providers.workspace_tools import WorkspaceToolbox
from runner.clock import SystemClock
from runner.contract.activation import Activation
from runner.contract.canonical import FrozenJson
from runner.contract.config import Boundary, RunnerFactoryConfig
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.grant import GrantKey
from runner.contract.ids import DeliveryId, ObjectId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import (
    CancelAck,
    DeliveryState,
    ExecuteResult,
    OpenWait,
)
from runner.contract.plan import Plan
from runner.contract.ports import Bridge, Case, Clock, Deferred, Observer, OfferedTool, Rooms
from runner.contract.provider import ProviderDescriptor
from runner.contract.records import Record
from runner.coordinator.coordinator import Coordinator
from runner.interpreter.interpret import interpret
from runner.invocation.command_tool import CommandTool
from runner.invocation.invoke import Invocation
from runner.invocation.registry import Registry
from runner.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What the embedding process lends to a Runner. Everything is optional.

    ``observer`` is told what happened and can change nothing. ``stop``: once set, running executes stop at their next
    boundary and answer ``Interrupted``; the Deliveries stay open.
    """

    observer: Observer | None = None
    clock: Clock | None = None
    stop: asyncio.Event | None = None
    waits: Bridge | None = None
    """Asked for workflow waits such as approvals; without it, and when it defers, the Delivery suspends."""
    interactions: Bridge | None = None
    """Asked for what a running agent wants to know."""


class _Nobody:
    """The bridge where there is none: every question waits for an answer from outside."""

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Deferred:
        return Deferred()


class Runner:
    """Carries out Deliveries: exactly ``execute``, ``inspect`` and ``cancel``. Made by ``RunnerFactory.open``."""

    __slots__ = ("__coordinator",)

    def __init__(self, coordinator: Coordinator) -> None:
        self.__coordinator = coordinator

    async def execute(self, activation: Activation | bytes, *, early: bool = False) -> ExecuteResult:
        """Starts, continues, or replays the Delivery of ``activation`` (a sealed value, or its JSON bytes).

        Before the time that a suspension names (``not_before``) it answers that suspension again and calls nobody, unless
        something was left for the Delivery or a question is open. ``early``: it tries all the same.

        Idempotent per Delivery: after settlement it answers the same bytes without any effect. ``CallerError`` before any
        effect when the input cannot be; ``ProviderError`` when a provider cannot start; ``EnvironmentFault`` leaves the
        Delivery open; ``IntegrityError`` when a stored fact does not hold. Cancelling the task stops the work and leaves
        the Delivery open.
        """
        return await self.__coordinator.execute(activation, early=early)

    async def inspect(self, delivery: DeliveryId) -> DeliveryState:
        """What is known of ``delivery``, read without disturbing a driver. ``CallerError`` (delivery-unknown)."""
        return await self.__coordinator.inspect(delivery)

    async def cancel(self, delivery: DeliveryId) -> CancelAck:
        """Asks the live driver, in whatever process, to cancel; settles the Delivery itself when there is none."""
        return await self.__coordinator.cancel(delivery)


class RunnerFactory:
    """Builds one Runner from one config. Nothing is started before ``open``."""

    def __init__(self, config: RunnerFactoryConfig) -> None:
        """``CallerError`` for a provider key that does not exist, settings its provider refuses, or another version."""
        self._config = config
        self._registry()

    def descriptors(self) -> dict[str, ProviderDescriptor]:
        """The configured providers, as admission freezes them into activations."""
        return self._registry().descriptors()

    def bind(self, provider: str, model: str) -> tuple[str, FrozenJson]:
        """The model text and the options that an activation freezes for ``provider:model``, for whoever admits. Starts
        nothing; reads at most what the binding names. ``CallerError(provider-unknown)`` naming the choices; ``ProviderError``
        with the place when the provider cannot use the model, or is not built."""
        return self._registry().bind(provider, model)

    def check(self, activation: Activation) -> None:
        """Nothing, if every provider of ``activation`` could be started here as it was bound, its secret included; what
        ``execute`` refuses of it, it refuses with the same errors. Starts nothing and writes nothing."""
        _check(self._config, self._registry(), activation)

    async def offers(self, servers: Iterable[str]) -> dict[str, tuple[OfferedTool, ...]]:
        """What each configured one of ``servers`` offers now, for whoever admits. Each is started for the question and ended.
        ``EnvironmentFault`` (tool-server-unreachable); ``CallerError`` (secret-unreadable)."""
        known = {server.key for server in self._config.tool_servers}
        async with aclosing(_tool_servers(self._config, self._registry())) as opened:
            return {key: await opened.offers(key) for key in servers if key in known}

    def _registry(self) -> Registry:
        return Registry(factories=factories(), config=self._config)

    @asynccontextmanager
    async def open(self, dependencies: Dependencies | None = None) -> AsyncIterator[Runner]:
        """A Runner for the length of the context; on the way out everything it started is closed, in reverse."""
        deps = dependencies or Dependencies()
        async with AsyncExitStack() as stack:
            registry = self._registry()
            stack.push_async_callback(registry.close)
            servers = _tool_servers(self._config, registry)
            stack.push_async_callback(servers.aclose)
            clock = deps.clock or SystemClock()
            coordinator = Coordinator(
                state_root=Path(self._config.state_root),
                assembly=_Assembly(self._config, registry, servers, clock),
                clock=clock,
                observer=deps.observer,
                meaning=self._config.meaning,
                isolation=self._config.isolation,
                runner_version=metadata.version("m02-runner"),
                interpret=interpret,
                waits=deps.waits or _Nobody(),
                interactions=deps.interactions or _Nobody(),
            )
            stack.push_async_callback(coordinator.close)
            if deps.stop is not None:
                watcher = asyncio.create_task(_stop_when(deps.stop, coordinator))
                stack.callback(watcher.cancel)
            yield Runner(coordinator)

    def open_records(self) -> Records:
        """A reader of what exists under the config's state root."""
        return Records(state_root=Path(self._config.state_root), isolation=self._config.isolation)


def _tool_servers(config: RunnerFactoryConfig, registry: Registry) -> ToolServers:
    sources = {s.key: s.credential for s in config.tool_servers if s.credential is not None}
    credentials = {key: registry.credentials_from(source) for key, source in sources.items()}
    return ToolServers(config.tool_servers, credentials, registry.redactor.text)


def _check(config: RunnerFactoryConfig, registry: Registry, activation: Activation) -> None:
    registry.check(activation)
    if config.isolation == "bubblewrap" and starts_processes(activation):
        find_bubblewrap()
    known = {server.key for server in config.tool_servers}
    for tool in activation.tools:
        if tool.server not in known:
            raise CallerError(
                Code.TOOL_SERVER_UNKNOWN,
                f"tool {tool.name}: the tool server {tool.server} is not configured",
                remedy=f"add [tool_servers.{tool.server}] to the config; configured are: {', '.join(sorted(known)) or 'none'}",
            )


async def _stop_when(event: asyncio.Event, coordinator: Coordinator) -> None:
    await event.wait()
    coordinator.stop()


class _Assembly:
    """One Delivery's rooms, in creation order. The grant key lives as long as the Runner and is never stored."""

    def __init__(self, config: RunnerFactoryConfig, registry: Registry, servers: ToolServers, clock: Clock) -> None:
        self._config = config
        self._registry = registry
        self._servers = servers
        self._clock = clock
        self._key = GrantKey(secrets.token_bytes(32))
        self._contains: Containment | None = None

    def check(self, activation: Activation) -> None:
        _check(self._config, self._registry, activation)

    def _containment(self) -> Containment:
        """How this Runner contains; found out once, ``EnvironmentFault`` (isolation-unavailable) when it cannot."""
        self._contains = self._contains or containment(self._config)
        return self._contains

    def fitting(self, plan: Plan, records: tuple[Record, ...], inside: StepRef | None) -> tuple[Finding, ...]:
        return fitting(plan, records, inside)

    def bring(
        self, activation: Activation, source: DeliveryLayout, layout: DeliveryLayout, savepoints: tuple[ObjectId, ...]
    ) -> None:
        bring(activation, source.store, layout.store, savepoints)

    @asynccontextmanager
    async def rooms(self, case: Case) -> AsyncIterator[Rooms]:
        from hosts.langgraph.host import open_host  # noqa: PLC0415 - importing LangGraph takes 0.7 s

        custodian = Custodian(case=case, writer=case.ledger.writer("custody"), key=self._key, clock=self._clock)
        operations = CommandRunner(
            case=case,
            writer=case.ledger.writer("operations"),
            clock=self._clock,
            secrets=lambda: self._registry.redactor.forms,
            containment=self._containment if self._config.isolation == "bubblewrap" else None,
        )
        invocation = Invocation(
            case=case,
            writer=case.ledger.writer("invocation"),
            registry=self._registry,
            toolbox=WorkspaceToolbox(key=self._key, clock=self._clock),
            command=CommandTool(operations=operations, isolation=self._config.isolation),
            servers=self._servers,
            clock=self._clock,
            record_dir=Path(self._config.record_dir) if self._config.record_dir else None,
        )
        with closing(custodian):
            async with open_host(
                case=case,
                writer=case.ledger.writer("host"),
                workspaces=custodian,
                invocation=invocation,
                operations=operations,
                clock=self._clock,
                isolation=self._config.isolation,
                steps_max=self._config.concurrency.steps,
            ) as host:
                yield Rooms(host=host, invocation=invocation, custody=custodian)


def probe_boundary(boundary: Boundary | None = None) -> str:
    """What a contained process could not do on this machine when it tried, in one line. ``EnvironmentFault``
    (isolation-unavailable) when it cannot be contained; nothing is left behind."""
    return probe(boundary or Boundary())


def picture(document: Activation | bytes, form: Literal["mermaid", "ascii"]) -> str:
    """The plan of an activation as a picture in text, offline. ``CallerError`` as ``Runner.execute`` raises it for one that
    cannot be."""
    from hosts.langgraph import drawing  # noqa: PLC0415 - importing LangGraph takes 0.7 s

    plan = interpret(document)[1]
    return drawing.mermaid(plan) if form == "mermaid" else drawing.ascii(plan)
