"""``python -m tests.crash``: the proof as a program, so that it can fork before it has any thread.

    python -m tests.crash [--seed N] [NAME ...]      the normal suite's part of these scenarios (all without a name)
    python -m tests.crash programs [--seed N]        random programs
    python -m tests.crash soak [--seed N] [--seconds S]
                                                     every boundary, all faults, pairs and random programs, until the time is over

Prints what was covered, then every line that did not hold; the status is 1 if there is one. The seed it prints repeats it.
"""

import argparse
import gc
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import hosts.langgraph.host  # noqa: F401 - imported once here instead of in each of thousands of forks
from tests.crash.arena import Arena
from tests.crash.endpoint import endpoint
from tests.crash.faults import FaultName
from tests.crash.programs import program, scenario_of
from tests.crash.proof import Proof
from tests.crash.report import Report
from tests.crash.scenario import Scenario, load, names

PROGRAMS: Final = 20
"""Random programs in the normal suite."""
PAIRS: Final = 8
TURN_S: Final = 60.0
"""How long one scenario has its turn in a soak."""
EFFECTS: Final = ("read", "idempotent", "workspace", "external")
RAM: Final = Path("/dev/shm")
"""Without a disk the same run takes two thirds of the time; a SIGKILL does not care. Any directory would do."""


@contextmanager
def proving(scenario: Scenario, rng: random.Random) -> Iterator[Proof]:
    """The scenario in an arena of its own, which is removed."""
    base = Path(tempfile.mkdtemp(prefix="runner-crash-", dir=RAM if RAM.is_dir() else None))
    try:
        with endpoint(scenario, base / "arena" / "run" / "effects") as base_url:
            arena = Arena(base / "arena", scenario, base_url)
            gc.freeze()
            yield Proof(arena, rng)
    finally:
        shutil.rmtree(base)


def prove(scenario: Scenario, rng: random.Random) -> Report:
    """What the scenario asks for in the normal suite."""
    with proving(scenario, rng) as proof:
        for name in scenario.proofs:
            PROOFS[name](proof, rng)
        return proof.report


def _kills(proof: Proof, _: random.Random) -> None:
    for place in proof.places(proof.arena.scenario.every):
        proof.kill(place)


def _pairs(proof: Proof, rng: random.Random) -> None:
    places = proof.places(1)
    for place in rng.sample(places, min(PAIRS, len(places))):
        proof.kill_twice(place)


def _faults(proof: Proof, _: random.Random) -> None:
    """Each failure once at each kind of boundary."""
    for kind in sorted(proof.report.boundaries):
        names: tuple[FaultName, ...] = ("full",) if kind.startswith("commit") else ("full", "io", "error")
        for name in names:
            proof.fail(name, kind)


def _soon(proof: Proof, _: random.Random) -> None:
    """Killed while git, a supervisor or a command runs, once for each program that is started."""
    for kind in sorted(proof.report.boundaries):
        if kind.startswith("start "):
            proof.kill((kind, 1), name="kill-soon")


def _power(proof: Proof, rng: random.Random) -> None:
    commits = [place for place in proof.places(1) if place[0] == "commit ledger"]
    for place in rng.sample(commits, min(PAIRS, len(commits))):
        proof.power(place, "torn")
        proof.power(place, "lost")


def _cancels(proof: Proof, _: random.Random) -> None:
    for place in proof.asking_places(proof.arena.scenario.every):
        proof.cancel(place)


def _seconds(proof: Proof, rng: random.Random) -> None:
    places = proof.asking_places(1)
    for place in rng.sample(places, min(PAIRS, len(places))):
        proof.second_driver(place)


def _named(proof: Proof, rng: random.Random) -> None:
    proof.backwards()
    proof.checkpoint_ahead()
    for place in rng.sample(proof.places(1), PAIRS):
        proof.without_checkpoints(place)


PROOFS: Final[dict[str, Callable[[Proof, random.Random], None]]] = {
    "kill": _kills,
    "pairs": _pairs,
    "faults": _faults,
    "soon": _soon,
    "power": _power,
    "cancel": _cancels,
    "second": _seconds,
    "named": _named,
}


def random_programs(rng: random.Random, count: int) -> Report:
    """``count`` programs, each undisturbed, killed at two places, and killed twice once."""
    report = Report()
    for _ in range(count):
        seed = rng.randrange(2**32)
        own = random.Random(seed)
        scenario = scenario_of(program(own, effects=EFFECTS), f"program {seed}")
        with proving(scenario, own) as proof:
            for place in own.sample(proof.places(1), 2):
                proof.kill(place)
            proof.kill_twice(own.choice(proof.places(1)))
            proof.report.wrong = [f"program {seed} {scenario.about}: {line}" for line in proof.report.wrong]
            report.add(proof.report)
    return report


def soak(rng: random.Random, seconds: float) -> Report:
    """In turn a scenario with everything at each place, and random programs, until the time is over or something is wrong."""
    until, report = time.monotonic() + seconds, Report()
    while time.monotonic() < until and not report.wrong:
        for name in rng.sample(names(), len(names())):
            report.add(_everything(load(name), rng, min(until, time.monotonic() + TURN_S)))
            report.add(random_programs(rng, 5 if time.monotonic() < until else 0))
    return report


def _everything(scenario: Scenario, rng: random.Random, until: float) -> Report:
    with proving(scenario, rng) as proof:
        places, asking = proof.places(1), proof.asking_places(1)
        rng.shuffle(places)
        acts: list[Callable[[], None]] = []
        for place in places:
            acts += [partial(proof.kill, place), partial(proof.kill_twice, place)]
            acts += [partial(proof.kill, place, name="kill-soon"), partial(proof.without_checkpoints, place)]
            acts += [partial(proof.power, place, "torn"), partial(proof.power, place, "lost")]
        for place in asking:
            acts += [partial(proof.second_driver, place), partial(proof.cancel, place)]
        rng.shuffle(acts)
        for act in acts:
            if time.monotonic() > until or proof.report.wrong:
                break
            act()
        return proof.report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("what", nargs="*")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    rng, began, wrong = random.Random(given.seed), time.monotonic(), 0
    for name in given.what or names():
        match name:
            case "soak":
                report = soak(rng, given.seconds)
            case "programs":
                report = random_programs(rng, PROGRAMS)
            case _:
                report = prove(load(name), rng)
        print(f"{name}, seed {given.seed}:")
        print("\n".join(report.lines()), flush=True)
        wrong += len(report.wrong)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
