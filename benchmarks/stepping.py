"""One durable step that does nothing: its time beside LangGraph's, and its bytes after few steps and after many."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from benchmarks import beside
from benchmarks.figures import Figure, Sizes, interleaved
from benchmarks.ground import Ground
from runner import RunnerFactory, Settled

PART = "step"
EVERY = 100
"""Steps over which bytes are counted: files grow by pages of 4,096."""


def run(sizes: Sizes) -> tuple[Figure, ...]:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        return (*_times(root, sizes), *_bytes(root, sizes))


async def deliver(ground: Ground, name: str, steps: int) -> float:
    """Seconds of a whole Delivery of ``steps`` steps, from a runner that is open to its settlement."""
    activation = ground.activation(name, steps)
    async with RunnerFactory(ground.config()).open() as runner:
        began = time.perf_counter()
        result = await runner.execute(activation)
        took = time.perf_counter() - began
    if not isinstance(result, Settled) or result.settlement.outcome != "completed":
        raise RuntimeError(f"the measured Delivery did not complete: {result}")
    return took


def per_step(measure: Callable[[int], float], steps: int) -> float:
    """Seconds of one step: what the longer of two runs took more, so that beginning and end do not count."""
    few = max(2, steps // 10)
    return (measure(steps) - measure(few)) / (steps - few)


def _times(root: Path, sizes: Sizes) -> tuple[Figure, ...]:
    ours = _fresh(root, lambda place, steps: deliver(Ground(place).build(), "d", steps))
    theirs = _fresh(root, _langgraph)
    found = interleaved(
        sizes.repetitions,
        {"ours": lambda: per_step(ours, sizes.steps), "theirs": lambda: per_step(theirs, sizes.steps)},
    )
    return (
        Figure(part=PART, name="the Runner", value=found["ours"] * 1000, unit="ms"),
        Figure(part=PART, name="LangGraph, AsyncSqliteSaver, sync", value=found["theirs"] * 1000, unit="ms"),
        Figure(
            part=PART, name="the Runner beside LangGraph", value=found["ours"] / found["theirs"], unit="x", budget=0.5
        ),
    )


async def _langgraph(place: Path, steps: int) -> float:
    place.mkdir()
    began = time.perf_counter()
    await beside.invoke(place / "checkpoints.sqlite", steps)
    return time.perf_counter() - began


def _fresh(root: Path, measure: Callable[[Path, int], Coroutine[Any, Any, float]]) -> Callable[[int], float]:
    """``measure`` in a directory of its own each time, which goes afterwards."""

    def fresh(steps: int) -> float:
        place = root / "run"
        try:
            return asyncio.run(measure(place, steps))
        finally:
            shutil.rmtree(place)

    return fresh


def _bytes(root: Path, sizes: Sizes) -> tuple[Figure, ...]:
    def kept(steps: int) -> int:
        place = root / "run"
        ground = Ground(place).build()
        try:
            asyncio.run(deliver(ground, "d", steps))
            delivery = ground.state / "deliveries" / "d"
            return sum(path.stat().st_size for path in delivery.glob("*.sqlite*"))
        finally:
            shutil.rmtree(place)

    return tuple(
        Figure(
            part=PART,
            name=f"bytes of a step after {before:,}",
            value=(kept(before + EVERY) - kept(before)) / EVERY,
            unit="bytes",
            budget=2_048,
        )
        for before in sizes.lengths
    )
