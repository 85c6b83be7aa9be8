"""What a step costs does not grow with the steps before it: counted at step 10 and at step 300 of one loop.

Every step writes a file, so each takes a savepoint. Counted are durable transactions, git processes and their fsyncs (git's
own trace), and bytes in the ledger and in the private store. Time is printed by nothing and asserted nowhere.
"""

import datetime as dt
import itertools
import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner import Dependencies, Settled
from runner.clock import SystemClock
from runner.contract import activation as a
from runner.contract.ids import StepRef
from tests.delivery.world import World, command

STEPS = 301
EARLY, LATE = 10, 300


@dataclass
class CountingClock(SystemClock):
    """A wall clock that ticks once for each reading, so that records share a time exactly when they share a transaction."""

    ticks: Iterator[int] = field(default_factory=itertools.count)

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=next(self.ticks))


def counted_git(directory: Path) -> tuple[Path, Path]:
    """A ``git`` that writes down each start and lets the real one trace itself: (its directory, what it wrote)."""
    real, tool, log = shutil.which("git"), directory / "bin", directory / "starts"
    tool.mkdir()
    (directory / "trace").mkdir()
    script = f'#!/bin/sh\necho "$$" >> {log}\nGIT_TRACE2_EVENT={directory}/trace/$$ exec {real} "$@"\n'
    (tool / "git").write_text(script)
    (tool / "git").chmod(0o755)
    return tool, log


def bytes_of(directory: Path) -> int:
    return sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())


async def test_a_step_costs_the_same_at_ten_and_at_three_hundred(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions, git processes, git's fsyncs, ledger bytes and store objects of one step are equal, early and late."""
    tool, log = counted_git(tmp_path)
    monkeypatch.setenv("PATH", f"{tool}{os.pathsep}{os.environ['PATH']}")
    snap, store = tmp_path / "snap", world.state / "deliveries" / "d1" / "store.git"
    snap.mkdir()
    body = (
        "n=$(cat src/n 2>/dev/null || echo 10000); n=$((n+1)); echo $n > src/n;"
        f" cp {log} {snap}/$n; find {store}/objects -type f -size -1000k | wc -l > {snap}/$n.objects;"
        f" test $n -ge {10000 + STEPS}"
    )
    again = (a.RouteTo(outcome="failure", to="try"),)
    activation = world.activation(command("try", "sh", "-c", body, routes=again, budget_visits=STEPS))
    result = await world.execute(activation, Dependencies(clock=CountingClock()))
    assert isinstance(result, Settled)
    assert result.settlement.outcome == "completed"

    early, late = (_step_costs(world, tmp_path, n) for n in (EARLY, LATE))
    print(f"\nstep {EARLY}: {early}\nstep {LATE}: {late}")
    assert early["git processes"] > 0
    assert early["git fsyncs"] > 0
    assert early["transactions"] > 0
    assert early == late


def _step_costs(world: World, root: Path, n: int) -> dict[str, int]:
    """What happened from the middle of step ``n`` to the middle of the next; the end of ``n`` lies between."""
    snap, key = root / "snap", 10000 + n
    starts = [(snap / str(k)).read_text().split() for k in (key, key + 1)]
    between = list((Counter(starts[1]) - Counter(starts[0])).elements())
    objects = [int((snap / f"{k}.objects").read_text()) for k in (key, key + 1)]
    own = [r for r in world.records() if r.step == StepRef(site="try", visit=n)]  # type: ignore[arg-type]
    with sqlite3.connect(world.state / "deliveries" / "d1" / "ledger.sqlite") as ledger:
        (kept,) = ledger.execute(
            # Numbers of processes differ in length.
            "select sum(length(payload)) from records where seq between ? and ? and kind <> 'process.started'",
            (own[0].seq, own[-1].seq),
        ).fetchone()
    return {
        "records": len(own),
        "transactions": len({r.at for r in own}),
        "payload bytes": kept - 2 * len(str(n)),  # intent and result each name the call by its visit
        "git processes": len(between),
        "git fsyncs": sum(_fsyncs(root / "trace" / pid) for pid in between),
        "store objects": objects[1] - objects[0],
    }


def _fsyncs(trace: Path) -> int:
    """Hardware flushes that one git process reports of itself."""
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    return sum(int(e["value"]) for e in events if e.get("key") == "fsync/hardware-flush")
