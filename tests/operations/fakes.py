"""A ledger in memory behind the real protocols, and a clock that a test moves."""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.contract.activation import Activation, CommandAction, Step, Target, Workflow, Workspace, seal
from runner.contract.canonical import FrozenJson, canonical, digest
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import Owner, ValueRef
from runner.contract.ids import DeliveryId, SiteId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.plan import Plan, Site
from runner.contract.ports import Artifacts, Case, LedgerWriter
from runner.contract.records import Draft, InboxItem, Record
from runner.contract.scope import EVERYTHING
from tests.bridges import Nobody


class MemoryArtifacts:
    def __init__(self) -> None:
        self._values: dict[str, FrozenJson] = {}

    def put(self, value: FrozenJson) -> ValueRef:
        self._values[digest(value)] = value
        return ValueRef(digest=digest(value), bytes=len(canonical(value)), inline=value)

    def get(self, ref: ValueRef) -> FrozenJson:
        return self._values[ref.digest]


class MemoryLedger:
    """Appends to a list. ``full_after`` appends it behaves like a full disk. ``on_append`` sees each record."""

    def __init__(self, *, full_after: int | None = None) -> None:
        self.records: list[Record] = []
        self.staged: list[Record] = []
        self.artifacts: Artifacts = MemoryArtifacts()
        self.on_append: Callable[[Record], None] = lambda record: None
        self._full_after = full_after

    def writer(self, owner: Owner) -> LedgerWriter:
        return MemoryWriter(self, owner)

    def add(self, draft: Draft) -> Record:
        if self._full_after is not None and len(self.records) >= self._full_after:
            raise EnvironmentFault(Code.DISK_FULL, "the disk is full")
        record = Record(
            seq=len(self.records) + 1,
            at="2026-01-01T00:00:00.000000Z",
            generation=1,
            event=draft.event,
            step=draft.step,
            attempt=draft.attempt,
        )
        self.records.append(record)
        self.on_append(record)
        return record

    @property
    def kinds(self) -> list[str]:
        return [r.event.KIND for r in self.records]

    def head(self) -> int:
        return len(self.records)

    def read(
        self, *, after: int = 0, kinds: frozenset[str] | None = None, step: StepRef | None = None
    ) -> Iterator[Record]:
        return iter(self.records[after:])

    def last(self, kinds: frozenset[str], step: StepRef | None = None) -> Record | None:
        return next((r for r in reversed(self.records) if r.event.KIND in kinds), None)

    def open_steps(self) -> tuple[StepRef, ...]:
        return ()

    def inbox(self) -> tuple[InboxItem, ...]:
        return ()

    def take(self, item: InboxItem) -> None: ...

    def subscribe(self, listener: Callable[[Record], None]) -> None:
        self.on_append = listener

    def close(self) -> None: ...


class MemoryWriter:
    def __init__(self, ledger: MemoryLedger, owner: Owner) -> None:
        self._ledger = ledger
        self.owner: Owner = owner

    def stage(self, *drafts: Draft) -> None:
        """Recorded at once, as if the host's next append had come; ``staged`` tells which they were."""
        self._ledger.staged += [self._ledger.add(draft) for draft in drafts]

    def append(self, *drafts: Draft) -> tuple[Record, ...]:
        assert all(self.owner in draft.event.OWNER for draft in drafts)
        return tuple(self._ledger.add(draft) for draft in drafts)


class RealClock:
    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class HeldClock(RealClock):
    """Time passes when the test says so: every sleep ends with ``strike``."""

    def __init__(self) -> None:
        self.strike = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.strike.wait()


class Shown:
    """What was dropped as progress; ``seen(text)`` waits for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = asyncio.Event()

    def progress(self, step: StepRef, text: str) -> None:
        self.lines.append(text)
        self._news.set()

    async def seen(self, text: str) -> str:
        while True:
            for line in self.lines:
                if text in line:
                    return line
            self._news.clear()
            await self._news.wait()


def activation_at(worktree: Path) -> Activation:
    action = CommandAction(run=("true",), scope=EVERYTHING)
    return seal(
        delivery="d1",
        admitted_at="2026-01-01T00:00:00Z",
        workflow=Workflow(name="w", input_schema={}, steps=(Step(id="tests", action=action),)),
        workspace=Workspace(worktree=str(worktree), base_commit="0" * 40, base_tree="1" * 40),
        target=Target(ref="refs/heads/out", expected="absent"),
    )


def case_at(worktree: Path, ledger: MemoryLedger, shown: Shown) -> Case:
    activation = activation_at(worktree)
    plan = Plan(
        delivery=DeliveryId("d1"),
        activation=digest({}),
        sites=(Site(id=SiteId("tests"), action=activation.workflow.steps[0].action),),
        reopens=(),
        output=None,
        input=None,
        digest=digest({}),
    )
    return Case(
        activation=activation,
        plan=plan,
        layout=DeliveryLayout(worktree / "state"),
        ledger=ledger,
        progress=shown,
        waits=Nobody(),
        interactions=Nobody(),
    )
