"""A process that drives the Runner or plain LangGraph up to an effect and is killed there: ``python -m benchmarks.driver``.

Its arguments: who (``langgraph``, or the Runner's next effect: ``question``, ``command``), where, how many steps, whether it goes on from before. It prints the monotonic time at which everything is
imported; the effect writes to the pipe ``ROOT/effect`` and then hangs.
"""

import asyncio
import sys
import time
from pathlib import Path

HANG_S = 1_000


def main(who: str, root: Path, steps: int, *, again: bool) -> None:
    if who == "langgraph":
        _langgraph(root, steps, again=again)
    else:
        _runner(who, root, steps)


def _runner(who: str, root: Path, steps: int) -> None:
    import hosts.langgraph.host  # noqa: F401 - imported late by the factory
    from benchmarks.ground import Ground, command, question
    from runner import Dependencies, RunnerFactory
    from runner.contract.ports import Deferred

    class Asked:
        """Reached is what counts; nobody answers."""

        async def ask(self, *_: object) -> Deferred:
            (root / "effect").write_text("x")
            await asyncio.sleep(HANG_S)
            return Deferred()

    script = f"echo x > '{root}/effect'; exec sleep {HANG_S}"
    ground = Ground(root)
    activation = ground.activation("d", steps, question() if who == "question" else command(script))
    _imported()

    async def drive() -> None:
        async with RunnerFactory(ground.config()).open(Dependencies(waits=Asked())) as runner:
            await runner.execute(activation)

    asyncio.run(drive())


def _langgraph(root: Path, steps: int, *, again: bool) -> None:
    from benchmarks import beside

    def effect() -> None:
        (root / "effect").write_text("x")
        time.sleep(HANG_S)

    _imported()
    asyncio.run(beside.invoke(root / "checkpoints.sqlite", steps, effect, again=again))


def _imported() -> None:
    print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), again=sys.argv[4] == "again")
