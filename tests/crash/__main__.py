"""``python -m tests.crash``: the proof as a program, so that it can fork before it has any thread.

    python -m tests.crash [--seed N] [NAME ...]      the normal suite's sample of these scenarios (all without a name)
    python -m tests.crash programs [--seed N]        random programs
    python -m tests.crash every [NAME ...]           SIGKILL at every boundary, every other fault at each kind of boundary
    python -m tests.crash soak [--seconds S]         that, all else that can be done to all scenarios, all pairs, and random
                                                     programs, until the time is over

Prints what was covered, then every line that did not hold; the status is 1 if there is one. The seed it prints repeats it.
"""

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.crash import acts
from tests.crash import disturbances as d
from tests.crash.arena import Arena
from tests.crash.endpoint import endpoint
from tests.crash.programs import program, scenario_of
from tests.crash.proof import Proof
from tests.crash.report import Report
from tests.crash.scenario import Scenario, load, names

PROGRAMS: Final = 4
"""Random programs in the normal suite."""
PARTS: Final = 4
"""Each scenario of ``every`` is done in so many parts, so that idle workers find some."""
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
            yield Proof(arena, rng)
    finally:
        shutil.rmtree(base)


def prove(scenario: Scenario, rng: random.Random) -> Report:
    """The normal suite's sample."""
    with proving(scenario, rng) as proof:
        for act in acts.sampled(proof):
            act()
        return proof.report


def prove_part(name: str, part: int, seed: int) -> Report:
    """One of ``PARTS`` parts of everything about a scenario; all parts together are all of it."""
    with proving(load(name), random.Random(f"{seed} {name}")) as proof:
        for act in acts.every(proof)[part::PARTS]:
            act()
        if part:
            proof.report.boundaries.clear()
        return proof.report


def prove_every(given: list[str], seed: int, jobs: int) -> Report:
    """Everything about these scenarios, in ``jobs`` processes; prints how far it is."""
    report, began = Report(), time.monotonic()
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=forked) as pool:
        parts = {pool.submit(prove_part, name, part, seed): name for part in range(PARTS) for name in given}
        for number, done in enumerate(as_completed(parts), 1):
            part = done.result()
            report.add(part)
            covered = f"{part.struck.total()} faults, {len(part.wrong)} wrong"
            print(f"{time.monotonic() - began:4.0f} s  {number}/{len(parts)}  {parts[done]}: {covered}", flush=True)
            print("".join(f"       {line}\n" for line in part.wrong), end="", flush=True)
    return report


def random_programs(rng: random.Random, count: int) -> Report:
    """``count`` programs, each undisturbed, killed at two places, and disturbed twice once."""
    report = Report()
    for _ in range(count):
        seed = rng.randrange(2**32)
        own = random.Random(seed)
        scenario = scenario_of(program(own, effects=EFFECTS), f"program {seed}")
        with proving(scenario, own) as proof:
            for place in own.sample(proof.places, 2):
                d.kill(proof, place)
            acts.pair_at_random(proof)
            proof.report.wrong = [f"program {seed} {scenario.about}: {line}" for line in proof.report.wrong]
            report.add(proof.report)
    return report


def soak(rng: random.Random, seconds: float) -> Report:
    """In turn a scenario with everything, and random programs, until the time is over or something is wrong. A scenario goes
    on at its next turn where the last one ended; one that is through begins again."""
    until, report = time.monotonic() + seconds, Report()
    seeds, done = {name: rng.randrange(2**32) for name in names()}, dict.fromkeys(names(), 0)
    while time.monotonic() < until and not report.wrong:
        for name in rng.sample(names(), len(names())):
            turn = min(until, time.monotonic() + TURN_S)
            report.add(_turn(name, seeds[name], done, turn))
            report.add(random_programs(rng, 5 if time.monotonic() < until else 0))
    return report


def _turn(name: str, seed: int, done: dict[str, int], until: float) -> Report:
    with proving(load(name), random.Random(seed)) as proof:
        planned, total = list(acts.soaked(proof)), 0
        for act in planned[done[name] :]:
            if time.monotonic() > until or proof.report.wrong:
                break
            act()
            total += 1
        done[name] = (done[name] + total) % len(planned)
        print(f"{name}: {done[name]} of {len(planned)} done", flush=True)
        return proof.report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("what", nargs="*")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    began, wrong = time.monotonic(), 0
    print(f"seed {given.seed}", flush=True)
    for name, report in _reports(given.what, given):
        print(f"{name}, seed {given.seed}:")
        print("\n".join(report.lines()), flush=True)
        wrong += len(report.wrong)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def _reports(what: list[str], given: argparse.Namespace) -> Iterator[tuple[str, Report]]:
    match what:
        case ["every", *some]:
            yield "every", prove_every(some or names(), given.seed, given.jobs)
        case ["soak"]:
            yield "soak", soak(random.Random(given.seed), given.seconds)
        case _:
            for name in what or names():
                rng = random.Random(f"{given.seed} {name}")
                yield name, random_programs(rng, PROGRAMS) if name == "programs" else prove(load(name), rng)


if __name__ == "__main__":
    sys.exit(main())
