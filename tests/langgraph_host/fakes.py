"""Fakes behind the host's protocols: a worktree in memory, scripted actions, a clock whose time passes only by sleeping."""

import asyncio
import datetime as dt
import heapq
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosts.langgraph.host import LangGraphHost
from runner.contract.activation import (
    Activation,
    AgentAction,
    ApprovalAction,
    CommandAction,
    DecisionAction,
    Executor,
    GenerateAction,
    Output,
    RouteTo,
    Step,
    Target,
    Workflow,
    Workspace,
    seal,
)
from runner.contract.canonical import digest, freeze
from runner.contract.config import Isolation
from runner.contract.events import STEP_ENDS, SavepointTaken, ToolCalled, ToolSucceeded, WaitAnswered
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import DeliveryId, ObjectId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import OpenWait
from runner.contract.ports import (
    Accepted,
    Answer,
    Case,
    CommandRequest,
    CommandResult,
    Completed,
    Deferred,
    Dispatch,
    Disposition,
    EnvironmentChanged,
    ForeignEdit,
    LedgerWriter,
    Savepoint,
    Verdict,
    Violation,
)
from runner.contract.records import Draft
from runner.contract.scope import EVERYTHING, Scope
from runner.interpreter.interpret import plan_of
from runner.ledger import SqliteLedger, create_or_open
from tests.bridges import Nobody

DIGEST = digest("specimen")
ANY: dict[str, Any] = {"type": "object"}


class VirtualClock:
    """Time passes only by sleeping, and sleepers wake in the order of their deadlines."""

    HOPS = 8
    """Turns of the event loop that everybody gets before time moves."""

    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, next(self._numbers), woken))
        asyncio.get_running_loop().call_soon(self._pass, self.HOPS)
        await woken

    def _pass(self, hops: int) -> None:
        if hops:
            asyncio.get_running_loop().call_soon(self._pass, hops - 1)
            return
        while self._sleepers:
            deadline, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self.time = max(self.time, deadline)
                woken.set_result(None)
                return


class SetClock:
    """Time is what a test sets; sleepers wake when it has come. The wall clock may be ``ahead`` of it."""

    def __init__(self) -> None:
        self.time = 0.0
        self.ahead = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=self.time + self.ahead)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.time + seconds, woken))
        await woken

    def set(self, time: float) -> None:
        self.time = time
        for deadline, woken in self._sleepers:
            if deadline <= time and not woken.done():
                woken.set_result(None)


class FakeBridge:
    """Answers waits by id, or by site, with what the test put there, in order, and defers when there is nothing more. A future is waited
    for."""

    def __init__(self, **replies: Any) -> None:
        self.replies: dict[str, list[Any]] = {k: list(v) for k, v in replies.items()}
        self.asked: list[OpenWait] = []
        self.cancelled: list[str] = []
        self.reached = asyncio.Event()
        self.deferred = asyncio.Event()

    @property
    def ids(self) -> list[str]:
        return [wait.wait for wait in self.asked]

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer | Deferred:
        assert delivery == "d"
        self.asked.append(wait)
        waiting = self.replies.get(wait.wait) or self.replies.get(StepRef.parse(wait.step).site)
        if not waiting:
            self.deferred.set()
            return Deferred()
        said = waiting.pop(0)
        if isinstance(said, asyncio.Future):
            self.reached.set()
            try:
                said = await said
            except asyncio.CancelledError:
                self.cancelled.append(wait.wait)
                raise
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Deferred) else Answer(value=said, who="fake")


class FakeWorkspaces:
    """A worktree as a mapping of paths to texts. Its savepoints are in the ledger; what is on "disk" survives the host."""

    def __init__(self, writer: LedgerWriter, disk: dict[str, str], history: dict[str, dict[str, str]]) -> None:
        self._writer = writer
        self.disk = disk
        self._history = history
        self._first = True
        self.held: WorkspaceGrant | None = None
        self.marks: dict[str, dict[str, str]] = {}
        """Files at the last mid-step savepoint of a step's attempt."""
        self.hooks = "clean"
        self.begun: list[tuple[str, str | None]] = []
        self.discarded: list[str] = []
        if history:
            self._current = next(reversed(history))
        else:
            self._current = self._take("baseline").commit
            writer.append()

    def _take(self, role: Any) -> Savepoint:
        tree = digest(dict(self.disk))[7:47]
        before = self._history.get(getattr(self, "_current", ""), {})
        changed = tuple(sorted(p for p in before.keys() | self.disk.keys() if before.get(p) != self.disk.get(p)))
        commit = digest([tree, len(self._history)])[7:47]
        self._history[commit] = dict(self.disk)
        self._current = commit
        self._writer.stage(Draft(event=SavepointTaken(savepoint=commit, tree=tree, changed=changed, role=role)))
        return Savepoint(commit=ObjectId(commit), tree=ObjectId(tree), changed=changed)

    def current(self) -> Savepoint:
        tree = digest(self._history[self._current])[7:47]
        return Savepoint(commit=ObjectId(self._current), tree=ObjectId(tree))

    def begin(
        self, step: StepRef, attempt: int, scope: Scope, *, opened_at: ObjectId | None, expires_in_s: float
    ) -> WorkspaceGrant | ForeignEdit:
        assert self.held is None or (self.held.step == step.key and opened_at), (
            f"{step} begins, but {self.held} is held"
        )
        self.begun.append((step.key, opened_at))
        first, self._first = self._first, False
        if opened_at is not None:
            self._restore(opened_at)
            self.disk.update(self.marks.get(step.key, {}))
        elif first and self.disk != self._history[self._current]:
            return ForeignEdit(paths=tuple(sorted(self.disk)), savepoint=self.current())
        self.held = WorkspaceGrant(
            delivery=DeliveryId("d"),
            step=step.key,
            attempt=attempt,
            worktree="/worktree",
            device=1,
            inode=1,
            savepoint=ObjectId(self._current),
            scope=scope,
            scope_digest=DIGEST,
            expires_at=expires_in_s,
            nonce="n",
        )
        return self.held

    def _restore(self, commit: str) -> None:
        self._current = commit
        self.disk.clear()
        self.disk.update(self._history[commit])

    def mark(self, grant: WorkspaceGrant, paths: tuple[str, ...]) -> Savepoint:
        assert self.held is grant
        self.marks[grant.step] = {**self.marks.get(grant.step, {}), **{path: self.disk[path] for path in paths}}
        return self.current()

    def settle(self, grant: WorkspaceGrant) -> Verdict:
        assert self.held is grant
        self.held = None
        before = self._history[grant.savepoint]
        changed = sorted(p for p in before.keys() | self.disk.keys() if before.get(p) != self.disk.get(p))
        outside = tuple(f"added {p}" for p in changed if not grant.scope.allows(p))
        if outside:
            self._restore(grant.savepoint)
            at, wanted = self.current(), tuple(text.partition(" ")[2] for text in outside)
            return Violation(paths=outside, rule=str(grant.scope), savepoint=at, allowed_by=wanted)
        savepoint = self._take("step") if changed else self.current()
        if self.hooks != "clean":
            return EnvironmentChanged(what=(self.hooks,), savepoint=savepoint)
        return Accepted(savepoint=savepoint)

    def discard(self, grant: WorkspaceGrant) -> Verdict:
        assert self.held is grant
        self.held = None
        self.discarded.append(grant.step)
        self._restore(grant.savepoint)
        if self.hooks != "clean":
            return EnvironmentChanged(what=(self.hooks,), savepoint=self.current())
        return Accepted(savepoint=self.current())


Act = Callable[[Dispatch], Awaitable[Disposition]]
Run = Callable[[CommandRequest], Awaitable[CommandResult]]


class FakeInvocation:
    """Asks ``act`` and remembers who was asked. Like the real one it makes the step's start durable before it acts."""

    def __init__(self, act: Act, writer: LedgerWriter) -> None:
        self._writer = writer
        self._act = act
        self.asked: list[Dispatch] = []
        self.running: set[str] = set()
        self.most = 0

    async def invoke(self, dispatch: Dispatch) -> Disposition:
        self._writer.append()
        self.asked.append(dispatch)
        self.running.add(dispatch.step.key)
        self.most = max(self.most, len(self.running))
        try:
            return await self._act(dispatch)
        finally:
            self.running.discard(dispatch.step.key)


class FakeOperations:
    """Journals like the real one, asks ``run``."""

    def __init__(self, writer: LedgerWriter, run: Run, case: Case) -> None:
        self._writer = writer
        self._run = run
        self._case = case
        self.asked: list[CommandRequest] = []

    async def command(self, request: CommandRequest) -> CommandResult:
        self.asked.append(request)
        put = self._case.ledger.artifacts.put
        call = f"{request.step.key}/1/t1"
        self._writer.append(
            Draft(
                event=ToolCalled(
                    call=call, tool="command", caller="workflow", effect=request.effect, key=DIGEST, input=put(None)
                ),
                step=request.step,
            )
        )
        result = await self._run(request)
        value = {n: getattr(result, n) for n in CommandResult.__slots__ if n != "duration_s"}
        self._writer.append(Draft(event=ToolSucceeded(call=call, value=put(freeze(value))), step=request.step))
        return result


def exited(status: int = 0, end: Any = "exit", stdout: str = "") -> CommandResult:
    return CommandResult(
        end=end,
        status=status,
        stdout=stdout,
        stderr="",
        truncated=False,
        duration_s=0.0,
        message="" if end == "exit" else end,
    )


class Silent:
    def progress(self, step: StepRef, text: str) -> None:
        del step, text


# --- workflows -------------------------------------------------------------------------------------------------------


def to(**routes: str) -> tuple[RouteTo, ...]:
    """``to(success="b")``; an underscore in an outcome stands for a dash."""
    return tuple(RouteTo(outcome=o.replace("_", "-"), to=t) for o, t in routes.items())


def generate(id: str, **more: Any) -> Step:
    fields = {k: more.pop(k) for k in ("prompt", "system", "input", "outcome", "trust") if k in more}
    action = GenerateAction(executor="coder", result_schema=ANY, **{"prompt": "p", **fields})
    return Step(id=id, action=action, **more)


def agent(id: str, scope: Scope = EVERYTHING, **more: Any) -> Step:
    fields = {k: more.pop(k) for k in ("prompt", "outcome", "trust") if k in more}
    action = AgentAction(executor="coder", scope=scope, result_schema=ANY, **{"prompt": "p", **fields})
    return Step(id=id, action=action, **more)


def command(id: str, run: tuple[str, ...] = ("true",), **more: Any) -> Step:
    fields = {k: more.pop(k) for k in ("effect", "env", "cwd", "shell", "ok_exit_codes", "scope") if k in more}
    return Step(id=id, action=CommandAction(run=run, **{"scope": EVERYTHING, **fields}), **more)


DECIDED: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "reject"]}, "comment": {"type": "string"}},
    "required": ["decision"],
    "additionalProperties": False,
}


def approval(id: str, prompt: str = "ok?", **more: Any) -> Step:
    fields = {k: more.pop(k) for k in ("show_diff", "expires_s", "on_expiry", "renewals_max", "default") if k in more}
    action = ApprovalAction(prompt=prompt, answer_schema=DECIDED, **fields)
    return Step(id=id, action=action, **more)


def decision(id: str, on: str, default: str | None = None, **more: Any) -> Step:
    return Step(id=id, action=DecisionAction(on=on, default=default), **more)


def activation(*steps: Step, input: Any = None, output: Output | None = None) -> Activation:
    return seal(
        delivery="d",
        admitted_at="2026-01-01T00:00:00Z",
        workflow=Workflow(name="w", input_schema={}, steps=steps, output=output),
        executors=(Executor(role="coder", provider="recorded", version="1", descriptor=DIGEST, model="m"),),
        workspace=Workspace(worktree="/worktree", base_commit="a" * 40, base_tree="b" * 40),
        target=Target(ref="refs/heads/x", expected="absent"),
        input=input,
    )


async def succeed(_: Dispatch) -> Disposition:
    return Completed(value=freeze({"ok": True}))


async def exit_zero(_: CommandRequest) -> CommandResult:
    return exited()


@dataclass
class World:
    """One Delivery on disk, and as many processes on it, one after the other, as a test wants."""

    root: Path
    activation: Activation
    act: Act = succeed
    run: Run = exit_zero
    clock: Any = field(default_factory=VirtualClock)
    bridge: Any = field(default_factory=Nobody)
    steps_max: int = 16
    isolation: Isolation = "none"
    checkpoint_every: int = 64
    disk: dict[str, str] = field(default_factory=dict)
    history: dict[str, dict[str, str]] = field(default_factory=dict)
    marks: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def layout(self) -> DeliveryLayout:
        return DeliveryLayout(self.root)

    def process(self) -> "Process":
        return Process(self)

    def forget_checkpoints(self) -> None:
        for left in self.root.glob("checkpoints.sqlite*"):
            left.unlink()


class Process:
    """What one process has: the open ledger and the host with its siblings. ``async with`` closes it; leaving it like that
    is what a crash leaves, as nothing is written on the way out."""

    def __init__(self, world: World) -> None:
        world.root.mkdir(mode=0o700, exist_ok=True)
        self.ledger: SqliteLedger = create_or_open(world.layout, clock=world.clock)
        self.case = Case(
            activation=world.activation,
            plan=plan_of(world.activation),
            layout=world.layout,
            ledger=self.ledger,
            progress=Silent(),
            waits=world.bridge,
            interactions=Nobody(),
        )
        self.workspaces = FakeWorkspaces(self.ledger.writer("custody"), world.disk, world.history)
        self.workspaces.marks = world.marks
        self.invocation = FakeInvocation(world.act, self.ledger.writer("invocation"))
        self.operations = FakeOperations(self.ledger.writer("operations"), world.run, self.case)
        self.host = LangGraphHost(
            case=self.case,
            writer=self.ledger.writer("host"),
            workspaces=self.workspaces,
            invocation=self.invocation,
            operations=self.operations,
            clock=world.clock,
            isolation=world.isolation,
            steps_max=world.steps_max,
            checkpoint_every=world.checkpoint_every,
        )

    async def __aenter__(self) -> "Process":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.host.close()
        self.ledger.close()

    def ends(self) -> dict[str, str]:
        """How each step ended: its outcome, or the reason why it did not run."""
        found = {}
        for record in self.ledger.read(kinds=STEP_ENDS):
            assert record.step is not None
            event: Any = record.event
            kind = record.event.KIND.removeprefix("step.")
            found[record.step.key] = event.outcome if kind in ("completed", "failed") else kind
        return found

    def events(self, key: str) -> list[str]:
        """The kinds of everything recorded for one step, in order."""
        return [record.event.KIND for record in self.ledger.read(step=StepRef.parse(key))]

    def answer(self, wait: str, value: Any, *, tell: bool = True) -> None:
        """What the coordinator does with an answer from another process."""
        step = StepRef.parse(wait.partition("~")[0])
        event = WaitAnswered(wait=wait, value=self.ledger.artifacts.put(freeze(value)), who="somebody")
        self.ledger.writer("coordinator").append(Draft(event=event, step=step, attempt=1))
        if tell:
            self.host.answered(wait)

    def last(self, key: str) -> Any:
        record = self.ledger.last(STEP_ENDS, StepRef.parse(key))
        assert record is not None
        return record.event


def values(mapping: Mapping[str, Any]) -> Act:
    """Answers by site: a value completes, a disposition is given as it is."""

    async def act(dispatch: Dispatch) -> Disposition:
        answer = mapping.get(dispatch.step.site, {"ok": True})
        return Completed(value=freeze(answer)) if isinstance(answer, Mapping) else answer

    return act


async def until(condition: Callable[[], bool]) -> None:
    """Lets everybody else go on until ``condition`` holds."""
    for _ in range(1_000_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")
