"""From a SIGKILL to the next effect, after few completed steps and after many; and a look at a Delivery that runs."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, Sizes, interleaved
from benchmarks.ground import Ground
from runner import RunnerFactory
from runner.contract.ids import DeliveryId

PART = "recovery"
INSPECT = "inspect"
LOOKS = 20


def run(sizes: Sizes) -> tuple[Figure, ...]:
    """Recovery and, because it needs the same Delivery, ``inspect`` of the longest one while it runs."""
    figures: list[Figure] = []
    for history in sizes.histories:
        with tempfile.TemporaryDirectory() as made:
            figures += _after(Path(made), history, sizes, look=history == sizes.histories[-1])
    return tuple(figures)


def _after(root: Path, history: int, sizes: Sizes, *, look: bool) -> Iterator[Figure]:
    looked: tuple[Figure, ...] = ()
    subjects: dict[str, Callable[[], float]] = {}
    for who in ("question", "command", "langgraph"):
        place = Ground(root / who).build().root
        os.mkfifo(place / "effect")
        with driven(who, place, history, again=False):
            if look and who == "question":
                looked = _inspected(place, history)
        kept = root / f"{who}-killed"
        shutil.copytree(place, kept, ignore=lambda _, names: {"effect", "repository", "worktrees"} & set(names))
        subjects[who] = lambda who=who, place=place, kept=kept: _recovery(who, place, kept, history)  # type: ignore[misc]
    found = interleaved(sizes.repetitions, subjects)
    for who, name, budget in (
        ("question", "to the next question", 50),
        ("command", "to the next command: worktree checked, process supervised", None),
        ("langgraph", "LangGraph to its next node", None),
    ):
        yield Figure(
            part=PART, name=f"{name}, after {history:,} steps", value=found[who] * 1000, unit="ms", budget=budget
        )
    yield from looked


def _recovery(who: str, place: Path, kept: Path, history: int) -> float:
    """Seconds from everything imported to the effect, in a process that begins where the killed one left off."""
    for path in kept.iterdir():
        target = place / path.name
        if path.is_dir():
            shutil.rmtree(target)
            shutil.copytree(path, target)
        else:
            shutil.copy(path, target)
    with driven(who, place, history, again=True) as (imported, effect):
        return effect - imported


@contextmanager
def driven(who: str, place: Path, history: int, *, again: bool) -> Iterator[tuple[float, float]]:
    """A driver that has reached its effect: when it had imported everything and when the effect was, monotonic seconds. It
    is killed at the end."""
    words = (sys.executable, "-m", "benchmarks.driver", who, str(place), str(history), "again" if again else "new")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        try:
            assert process.stdout is not None
            imported = float(process.stdout.readline())
            with (place / "effect").open() as pipe:
                pipe.read(1)
            yield imported, time.monotonic()
        finally:
            process.send_signal(signal.SIGKILL)


def _inspected(place: Path, history: int) -> tuple[Figure, ...]:
    """In this process, while another drives it: the time is that of the look alone, without starting Python."""
    records = RunnerFactory(Ground(place).config()).open_records()
    walls, processors = [], []
    for _ in range(LOOKS):
        wall, processor = time.perf_counter(), time.process_time()
        state = records.inspect(DeliveryId("d"))
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
        if state.driver is None or len(state.steps) <= history:
            raise RuntimeError(f"it was to be looked at while it runs: {state.phase}, {len(state.steps)} steps")
    name = f"a running Delivery of {history:,} steps"
    return (
        Figure(part=INSPECT, name=name, value=median(walls) * 1000, unit="ms", budget=50),
        Figure(part=INSPECT, name=f"{name}, processor time", value=median(processors) * 1000, unit="ms", budget=50),
    )
