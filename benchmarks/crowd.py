"""Many Deliveries at once in one process: what a step of each costs beside a step of one alone, and memory.

Each measurement is a process of its own, ``python -m benchmarks.crowd ROOT DELIVERIES STEPS``, so that memory is that of the
Deliveries and not of what was measured before.
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Sizes, interleaved
from benchmarks.ground import Ground

PART = "crowd"
STEPS = 200
"""Of each Delivery."""


def run(sizes: Sizes) -> tuple[Figure, ...]:
    many = sizes.deliveries
    memory: dict[int, int] = {}

    def per_step(deliveries: int) -> float:
        took, memory[deliveries] = _measured(deliveries, STEPS)
        return (took - _measured(deliveries, 2)[0]) / (deliveries * (STEPS - 2))

    found = interleaved(max(1, sizes.repetitions // 2), {"one": lambda: per_step(1), "many": lambda: per_step(many)})
    each = (memory[many] - memory[1]) / (many - 1)
    return (
        Figure(part=PART, name="a step of one alone", value=found["one"] * 1000, unit="ms"),
        Figure(part=PART, name=f"a step of one of {many}", value=found["many"] * 1000, unit="ms"),
        Figure(part=PART, name="beside one alone", value=found["many"] / found["one"], unit="x", budget=1.5),
        Figure(part=PART, name="memory for each more", value=each / 1024, unit="KiB"),
    )


def _measured(deliveries: int, steps: int) -> tuple[float, int]:
    """Seconds from the first execute to the last settlement; the process's largest size in bytes."""
    with tempfile.TemporaryDirectory() as made:
        ground = Ground(Path(made) / "ground").build()
        for n in range(deliveries):
            ground.worktree(f"d{n}")
        words = (sys.executable, "-m", "benchmarks.crowd", str(ground.root), str(deliveries), str(steps))
        done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
        took, size = json.loads(done.stdout)
        return float(took), int(size)


def main(root: Path, deliveries: int, steps: int) -> None:
    from hosts.langgraph import host  # noqa: F401 - imported late by the factory
    from runner import RunnerFactory, Settled

    ground = Ground(root)
    activations = [ground.activation(f"d{n}", steps) for n in range(deliveries)]

    async def together() -> float:
        async with RunnerFactory(ground.config()).open() as runner:
            began = time.perf_counter()
            results = await asyncio.gather(*(runner.execute(activation) for activation in activations))
            took = time.perf_counter() - began
        if not all(isinstance(result, Settled) for result in results):
            raise RuntimeError("not all of them settled")
        return took

    took = asyncio.run(together())
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([took, size]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
