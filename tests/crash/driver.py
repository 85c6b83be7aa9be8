"""One driver in a process of its own, forked from a process that has everything imported; what came of it as a value.

The child is the real thing: ``RunnerFactory.open``, ``execute``. Around it stand only the audit hook and the clock.
"""

import asyncio
import datetime as dt
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runner import Dependencies, Interrupted, NeedsIntervention, RunnerFactory, Settled, Suspended
from runner.cli.app import run as command_line
from runner.clock import SystemClock
from runner.contract.errors import RunnerError
from runner.contract.outcomes import CancelAck
from tests.crash.arena import DELIVERY, Arena
from tests.crash.boundaries import Boundaries
from tests.crash.faults import Fault, Plan, writes_end_processes
from tests.crash.power import Synced, tell_of_fsyncs

RUN_S: Final = 60.0
"""A run that takes longer hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one process ended. ``end``: settled, killed, suspended, intervention, busy, interrupted, error, hung."""

    end: str
    settlement: str = ""
    """Its canonical bytes, in hexadecimal."""
    outcome: str = ""
    result: tuple[str, ...] = ()
    """What a Delivery is for: how it ended, and which tree is where."""
    family: str = ""
    detail: str = ""
    effects: tuple[dict[str, Any], ...] = ()
    waits: tuple[dict[str, Any], ...] = ()
    said: str = ""
    """What the command line printed."""
    imported: tuple[str, ...] = ()
    """Modules that it needed and the process that forks did not have."""
    reached: tuple[str, ...] = ()
    struck: str = ""
    synced: tuple[Synced, ...] = ()
    """What fsync confirmed, in order."""

    def __str__(self) -> str:
        return f"{self.end} {self.outcome}{self.family} {self.detail}".strip()


class WatchedClock(SystemClock):
    """The machine's time, which tells when somebody asks for it; ``backwards``: each answer is an hour before the last;
    ``hasty``: it does not wait long, for whoever polls a driver that stands still."""

    def __init__(self, asked: Callable[[], None], *, backwards: bool, hasty: bool) -> None:
        self._asked = asked
        self._hasty = hasty
        self._back = dt.timedelta()
        self._backwards = backwards

    def now(self) -> dt.datetime:
        self._asked()
        if self._backwards:
            self._back += dt.timedelta(hours=1)
        return super().now() - self._back

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0.01 if self._hasty else seconds)


@dataclass(slots=True)
class Child:
    """A forked process that writes JSON lines; ``read`` until its end."""

    pid: int
    lines: int
    """The reading end."""
    go: int
    """The writing end by which a child that asked is let go on."""
    values: list[dict[str, Any]] = field(default_factory=list)

    def read(self, on_ask: Callable[[], None]) -> int | None:
        """The wait status at the end of the process; None when it hung and was killed."""
        until, data = time.monotonic() + RUN_S, b""
        while True:
            ready, _, _ = select.select([self.lines], [], [], max(0.0, until - time.monotonic()))
            chunk = os.read(self.lines, 65536) if ready else None
            if chunk is None:
                os.kill(self.pid, signal.SIGKILL)
            if not chunk:
                break
            *complete, data = (data + chunk).split(b"\n")
            for line in complete:
                value = json.loads(line)
                self.values.append(value)
                if "ask" in value:
                    on_ask()
                    os.write(self.go, b"g")
        os.close(self.lines)
        os.close(self.go)
        status = os.waitpid(self.pid, 0)[1]
        return status if chunk is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a process is to do, and what happens to it."""

    fault: Fault | None = None
    action: Literal["execute", "cancel", "command-line"] = "execute"
    backwards: bool = False
    """Its clock goes backwards."""
    commits: bool = True
    """See ``faults.Plan``."""


EXECUTE: Final = Order()


def run(arena: Arena, order: Order = EXECUTE, on_ask: Callable[[], None] = lambda: None) -> Run:
    """One process that executes (or cancels) the arena's Delivery, to its end or its fault. ``on_ask`` is called while it
    stands still at the boundary of an ``ask``."""
    lines_r, lines_w = os.pipe()
    go_r, go_w = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(lines_r)
        os.close(go_w)
        _live(arena, order, lines_w, go_r)
    os.close(lines_w)
    os.close(go_r)
    child = Child(pid=pid, lines=lines_r, go=go_w)
    status = child.read(on_ask)
    said: dict[str, Any] = {"synced": tuple(value.pop("synced") for value in child.values if "synced" in value)}
    for value in child.values:
        said |= value
    said.pop("ask", None)
    if status is None:
        said["end"] = "hung"
    elif os.WIFSIGNALED(status):
        ending = os.WTERMSIG(status)
        said["end"] = "killed" if ending in (signal.SIGKILL, signal.SIGXFSZ) else f"signal {ending}"
    return Run(**said)


def _live(arena: Arena, order: Order, lines: int, go: int) -> None:
    """The child's whole life."""

    def tell(value: dict[str, Any]) -> None:
        os.write(lines, json.dumps(value).encode() + b"\n")

    def ask() -> None:
        tell({"ask": True})
        os.read(go, 1)

    had = set(sys.modules)
    try:
        os.chdir("/")
        os.environ["TMPDIR"] = str(arena.temporary)
        plan = Plan(fault=order.fault, tell=tell, ask=ask, written=arena.written, commits=order.commits)
        boundaries = Boundaries(arena.world.root, plan.strike)
        clock = WatchedClock(boundaries.ask, backwards=order.backwards, hasty=order.action == "cancel")
        if order.fault is not None and order.fault.name == "torn":
            writes_end_processes()
        tell_of_fsyncs(arena.world.root, tell)
        boundaries.watch()
        if order.action == "command-line":
            said = _command_line(arena)
        else:
            said = asyncio.run(_act(arena, order.action, Dependencies(clock=clock)))
        tell({**said, "reached": plan.reached, "imported": sorted(set(sys.modules) - had)})
    except BaseException as error:
        tell({"end": "traceback", "detail": _last_words(error)})
    finally:
        os._exit(0)


def _command_line(arena: Arena) -> dict[str, Any]:
    """``runner execute`` as a script runs it: its exit code, and all that it printed."""
    printed = os.memfd_create("printed")
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    code = command_line(["execute", str(arena.activation_file), "--config", str(arena.config_file), "--json"])
    sys.stdout.flush()
    return {"end": "exited", "detail": str(code), "said": os.pread(printed, 1_000_000, 0).decode()}


def _last_words(error: BaseException) -> str:
    """The exception and the innermost places of the product that it passed."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    ours = [place for place in places if "/tests/" not in place and "/lib/python" not in place]
    return f"{type(error).__name__}: {error} ({', '.join(reversed(ours[-3:]))})"


async def _act(arena: Arena, action: str, dependencies: Dependencies) -> dict[str, Any]:
    try:
        async with RunnerFactory(arena.world.config()).open(dependencies) as runner:
            if action == "cancel":
                return _said(await runner.cancel(DELIVERY))
            return _said(await runner.execute(arena.activation))
    except RunnerError as error:
        return {"end": "error", "family": error.family, "detail": f"{error.code}: {error.message}"}


def _said(result: Any) -> dict[str, Any]:
    match result:
        case Settled(settlement=settlement):
            return {
                "end": "settled",
                "settlement": settlement.to_bytes().hex(),
                "outcome": f"{settlement.outcome}/{settlement.reason}",
                "result": [settlement.outcome, settlement.reason, settlement.result_commit, settlement.publication.new],
            }
        case NeedsIntervention():
            return {
                "end": "intervention",
                "detail": f"{result.reason}: {result.detail}",
                "effects": [e.model_dump(mode="json") for e in result.effects],
            }
        case Suspended():
            return {
                "end": "suspended",
                "detail": f"{result.reason}: {result.detail}",
                "waits": [w.model_dump(mode="json") for w in result.waits],
            }
        case CancelAck():
            return {"end": "acknowledged", "outcome": result.disposition}
        case Interrupted():
            return {"end": "interrupted"}
        case _:
            return {"end": type(result).__name__.lower()}
