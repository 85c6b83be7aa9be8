"""The creation plane: the only file that wires rooms to each other and to the world.

Owned invariants
- A failure anywhere disposes what was started, in reverse, and publishes no Runner.
- Each room gets the narrow protocol of its siblings that it may use, never the sibling itself.
- Nothing pre-built enters: no native service, callback or raw package; a config is a closed value.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

from custody import rewind
from custody.collect import Outside
from custody.compare import compare, find_savepoint, patch
from custody.custodian import Custodian
from custody.export import export
from custody.origin import bring
from custody.verification import verify_custody
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
from runner.contract.events import ValueRef
from runner.contract.grant import GrantKey
from runner.contract.ids import DeliveryId, ObjectId, StepRef, delivery_id
from runner.contract.kept import Collection, Difference, Restoration, Retention
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import (
    CancelAck,
    DeliveryState,
    Departure,
    ExecuteResult,
    OpenWait,
    SavepointState,
    TakenOver,
    Takeover,
    Verification,
)
from runner.contract.plan import Plan
from runner.contract.ports import Bridge, Case, Clock, Deferred, Observer, OfferedTool, Rooms
from runner.contract.provider import ProviderDescriptor
from runner.contract.records import InboxItem, Record
from runner.coordinator.collection import Collector
from runner.coordinator.coordinator import Coordinator
from runner.coordinator.departure import Places, savepoints_in
from runner.coordinator.inspection import (
    accepted_activation,
    decided_output,
    inspect_delivery,
    list_deliveries,
    open_deliveries,
)
from runner.coordinator.journal import settled_in
from runner.coordinator.leaving import leave_answer, leave_resolution
from runner.coordinator.one_step import left_items, step_records, stored_value
from runner.coordinator.origin import past_of, told_of
from runner.coordinator.settled import accepted, alone_in_worktree, reading
from runner.coordinator.takeover import take_over
from runner.coordinator.verification import Probe, verify
from runner.interpreter.interpret import interpret
from runner.invocation.command_tool import CommandTool
from runner.invocation.invoke import Invocation
from runner.invocation.registry import Registry
from runner.ledger.store import open_reader


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Reads what exists, and leaves what people say for whoever drives. Runs nothing and drives nothing.

    Every method: ``CallerError`` (``delivery-id-invalid``, ``delivery-unknown``), ``IntegrityError`` when a stored fact does
    not hold.
    """

    state_root: Path
    isolation: str
    clock: Clock = field(default_factory=SystemClock)

    def deliveries(self) -> tuple[DeliveryId, ...]:
        """Every Delivery under the state root, by id. Opens no databases."""
        return list_deliveries(self.state_root)

    def open_deliveries(self) -> tuple[DeliveryId, ...]:
        """Those that were accepted, have not settled and are driven by nobody. Costs the end of each ledger."""
        return open_deliveries(self.state_root)

    def inspect(self, delivery: DeliveryId) -> DeliveryState:
        """As ``Runner.inspect``."""
        return inspect_delivery(self.state_root, delivery, self.isolation)

    def activation(self, delivery: DeliveryId) -> bytes | None:
        """What ``delivery`` was accepted with, canonical; None before it was."""
        return accepted_activation(self.state_root, delivery)

    def output(self, delivery: DeliveryId) -> FrozenJson:
        """The value of the workflow's ``output``, checked against the digest in the settlement; None before the end is
        decided, and for a Delivery without one (then the settlement's ``output`` is None too)."""
        return decided_output(self.state_root, delivery)

    def document(self, delivery: DeliveryId) -> bytes:
        """As ``activation``, for ``execute``; ``delivery-unknown`` for one that was never accepted."""
        document = accepted_activation(self.state_root, delivery)
        if document is None:
            raise CallerError(
                Code.DELIVERY_UNKNOWN, f"{delivery}: it was never accepted here", remedy="execute its activation file"
            )
        return document

    def events(self, delivery: DeliveryId, *, after: int = 0) -> Iterator[Record]:
        """The ledger in order, from the record behind ``after`` to the newest at the time of the call: to follow it, ask
        again behind the last one."""
        with open_reader(self._layout(delivery)) as reader:
            yield from reader.read(after=after)

    def step(self, delivery: DeliveryId, word: str) -> tuple[Record, ...]:
        """The records of one step, in order: of its newest visit, or of the one that ``ID@VISIT`` names. ``usage`` with the
        steps there are when it is none of them."""
        return step_records(self.state_root, delivery, word)

    def value(self, delivery: DeliveryId, ref: ValueRef) -> FrozenJson:
        """The value that a record names, checked against its digest."""
        return stored_value(self.state_root, delivery, ref)

    def left(self, delivery: DeliveryId) -> tuple[InboxItem, ...]:
        """What was said of ``delivery`` and nobody has taken yet: it counts from the next ``execute`` on."""
        return left_items(self.state_root, delivery)

    def waits(self, delivery: DeliveryId) -> tuple[OpenWait, ...]:
        """The questions that an answer would continue."""
        return self.inspect(delivery).waits

    def answer(self, delivery: DeliveryId, wait: str | None, value: FrozenJson, who: str = "") -> OpenWait:
        """Leaves an answer to ``wait``, or without one to the only wait that is open; which one that was. A bare word stands
        for the property that routes. The same answer counts once. ``wait-unknown`` for one that was answered, has expired or
        never was, and for none when not exactly one is open; ``answer-invalid`` with what does not fit its schema."""
        return leave_answer(self._layout(delivery), wait=wait, value=value, who=who, clock=self.clock)

    def resolve(
        self, delivery: DeliveryId, call: str, resolution: str, value: FrozenJson = None, who: str = ""
    ) -> None:
        """Leaves what somebody says of an uncertain effect: ``happened`` with the value it answered, ``did-not-happen``, or
        ``abandon``; with an empty ``call`` of an edited worktree: ``adopt``, ``discard`` or ``abandon``. The next ``execute``
        goes on with it. ``call-unknown`` when nothing like that is uncertain; ``answer-invalid`` when it does not fit, or
        something else was said before."""
        leave_resolution(self._layout(delivery), call=call, said=resolution, value=value, who=who, clock=self.clock)

    def savepoints(self, delivery: DeliveryId) -> tuple[SavepointState, ...]:
        """Every savepoint in the order of their records, also of a Delivery that is being driven."""
        return savepoints_in(tuple(self.events(delivery)))

    def savepoint_to_fork(self, delivery: DeliveryId, word: str) -> Departure:
        """Where a new Delivery starts from ``delivery`` at the savepoint that ``word`` names: the origin for its activation.
        ``savepoint-unknown``; ``origin-invalid`` when nothing can start there."""
        with self._places(delivery) as places:
            return places.savepoint(word)

    def failure_to_retry(self, delivery: DeliveryId) -> Departure:
        """Where a new Delivery starts to try again what made ``delivery`` end badly. ``origin-invalid`` saying what to do
        instead when it is open, completed, or did not end in a step."""
        with self._places(delivery) as places:
            return places.failure()

    def taken_over(self, activation: Activation) -> TakenOver:
        """What ``activation`` takes over from its origin, judged as ``execute`` will; the same ``CallerError``."""
        plan = interpret(activation)[1]
        return told_of(past_of(self.state_root, activation, plan, fitting), activation)

    @contextmanager
    def _places(self, delivery: DeliveryId) -> Iterator[Places]:
        with open_reader(self._layout(delivery)) as reader:
            yield Places(
                delivery=delivery,
                records=tuple(reader.read()),
                digest_at=reader.digest_at,
                settlement=settled_in(reader),
            )

    def takeover(self, delivery: DeliveryId) -> Takeover:
        """Ends whoever drives ``delivery``, and everything that was started for it; then its fence is free. May take some
        seconds. ``takeover-refused`` when the driver is not known for certain, or is not this machine's or this user's."""
        return take_over(self._layout(delivery))

    def verify(self, delivery: DeliveryId) -> Verification:
        """Looks at everything that is recorded of ``delivery`` again and says what it looked at. What does not hold is a
        check that is not ``ok``, no exception."""
        layout = self._layout(delivery)
        with reading(layout):
            return verify(layout, interpret, _probes())

    def diff(self, delivery: DeliveryId, before: str = "baseline", after: str = "newest") -> Difference:
        """What differs between two savepoints: each ``baseline``, ``newest``, a step, ``step@visit``, or the beginning of an
        id. From the private store, also beside a live driver. ``savepoint-unknown``."""
        layout = self._layout(delivery)
        with reading(layout):
            return compare(layout, tuple(self.events(delivery)), before, after)

    def patch(self, difference: Difference, *, stat: bool = False, binary: bool = False) -> bytes:
        """``difference`` as git shows it: as statistics, or as a patch, with ``binary`` one that ``git apply`` takes whole."""
        layout = self._layout(DeliveryId(difference.delivery))
        with reading(layout):
            return patch(layout, difference, stat=stat, binary=binary)

    def restore_to(self, delivery: DeliveryId, savepoint: str, directory: Path) -> Restoration:
        """Writes a savepoint, named as for ``diff``, to a new or empty directory outside of worktree, repository and state
        root. ``usage``, ``savepoint-unknown``, ``savepoint-missing``."""
        layout = self._layout(delivery)
        with reading(layout):
            commit = find_savepoint(layout, tuple(self.events(delivery)), savepoint)
            return export(accepted(layout), layout, commit, directory, state_root=self.state_root)

    def restore_in_place(self, delivery: DeliveryId, savepoint: str, *, preview: bool = False) -> Restoration:
        """Puts the worktree of a settled Delivery back to a savepoint, after keeping what is there as another; with ``preview``
        only says what would change. ``delivery-open``, ``worktree-missing``, ``worktree-leased``, ``restore-blocked``; killed
        anywhere, the same call finishes it."""
        layout = self._layout(delivery)
        with reading(layout), alone_in_worktree(self.state_root, layout, self.clock) as activation:
            records = tuple(self.events(delivery))
            commit = find_savepoint(layout, records, savepoint)
            if preview:
                return rewind.preview(activation, layout, commit)
            return rewind.rewind(activation, layout, commit, find_savepoint(layout, records, "newest"))

    def collect(
        self, policy: Retention, named: Sequence[DeliveryId] = (), *, dry_run: bool = False
    ) -> tuple[Collection, ...]:
        """Removes whole, settled Deliveries by ``policy``, or those that are ``named``, and leaves their settlements: what
        became of each. Killed anywhere, the next call goes on. ``delivery-unknown`` for a name."""
        collector = Collector(state_root=self.state_root, outside=Outside(), clock=self.clock)
        return collector.collect(policy, named, dry_run=dry_run)

    def _layout(self, delivery: DeliveryId) -> DeliveryLayout:
        return delivery_layout(self.state_root, delivery_id(delivery))


def _probes() -> tuple[Probe, ...]:
    from hosts.langgraph.verification import verify_checkpoint  # noqa: PLC0415 - importing LangGraph takes 0.7 s

    return (verify_checkpoint, verify_custody)


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
