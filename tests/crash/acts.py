"""Which disturbances a run of the proof consists of: each an act that can be done alone, in any order, in any process."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from tests.crash import disturbances as d
from tests.crash.faults import FaultName
from tests.crash.power import Part
from tests.crash.proof import Place, Proof

Act = Callable[[], None]

EVERYWHERE: Final[tuple[FaultName, ...]] = ("full", "io", "error")
WRITES: Final = ("open ", "commit ", "start git")
"""Kinds at which something is written that can end in the middle; the others change one name or nothing."""
SECONDS: Final[tuple[FaultName, ...]] = ("kill", "full", "io", "error")
PARTS_LOST: Final[tuple[Part, ...]] = ("all", "half", "git", "one")
STRANGE: Final = 2
"""Of everything that is not a kill or a failure, in the normal suite."""
KILLS: Final = 5
FAILURES: Final = 4


def kills(proof: Proof) -> list[Act]:
    """SIGKILL at every boundary."""
    return [partial(d.kill, proof, place) for place in proof.places]


def failures(proof: Proof) -> list[Act]:
    """Every other fault once at each kind of boundary, at any one of that kind."""
    acts: list[Act] = []
    for place in _one_of_each(proof):
        for name in EVERYWHERE if not place.kind.startswith("commit") else ("full",):
            acts.append(partial(d.fail, proof, place, name))
        if place.kind.startswith(WRITES):
            acts.append(partial(d.kill, proof, place, "torn"))
    return acts


def _soon(proof: Proof) -> list[Act]:
    """Killed while git, a supervisor or a command runs, once for each program that is started."""
    return [partial(d.kill, proof, p, "kill-soon") for p in _one_of_each(proof) if p.kind.startswith("start ")]


def _power(proof: Proof) -> list[Act]:
    acts: list[Act] = []
    for place in _recording(proof):
        acts += [partial(d.power, proof, place, "torn"), partial(d.power, proof, place, "lost")]
        acts.append(partial(d.power, proof, place, "unsynced", proof.rng.choice(PARTS_LOST)))
    return acts


def _settled(proof: Proof) -> list[Act]:
    """The power fails when it has settled, and all is lost that no fsync confirmed: what it says has been published is there."""
    return [partial(d.power, proof, Place("remove fence", 1), "unsynced")]


def _full(proof: Proof) -> list[Act]:
    """A full disk at every write and everything else that needs the machine."""
    return [partial(d.fail, proof, place, "full") for place in proof.places]


def _cancels(proof: Proof) -> list[Act]:
    places = proof.asking_places()
    return [partial(d.cancel, proof, place, killed=killed) for place in places for killed in (False, True)]


def _seconds(proof: Proof) -> list[Act]:
    return [partial(d.second_driver, proof, place) for place in proof.asking_places()]


def _abandons(proof: Proof) -> list[Act]:
    return [partial(d.abandon, proof, place) for place in _recording(proof)]


def _surprises(proof: Proof) -> list[Act]:
    """In the command line."""
    kinds = (place for place in _one_of_each(proof) if not place.run and not place.kind.startswith("commit"))
    return [partial(d.surprise, proof, place) for place in kinds]


def _named(proof: Proof) -> list[Act]:
    deleted = [partial(d.without_checkpoints, proof, place) for place in _recording(proof)]
    return [partial(d.backwards, proof), partial(d.checkpoint_ahead, proof), *deleted]


PROOFS: Final[dict[str, Callable[[Proof], list[Act]]]] = {
    "soon": _soon,
    "full": _full,
    "power": _power,
    "settled": _settled,
    "cancel": _cancels,
    "second": _seconds,
    "abandon": _abandons,
    "surprise": _surprises,
    "named": _named,
}


def every(proof: Proof) -> list[Act]:
    """Every boundary killed, each kind of boundary with every other fault, and what the scenario is there for."""
    own = (PROOFS[name](proof) for name in proof.arena.scenario.proofs)
    return list(chain(kills(proof), failures(proof), *own))


def sampled(proof: Proof) -> list[Act]:
    """Of each sort a few, spread over all kinds; the boundaries that the scenario is there for are among them."""
    needed = [place for kind in proof.arena.scenario.reaches for place in _of(proof, kind)[:1]]
    killed = _spread([*kills(proof)], KILLS, proof.rng)
    own = (_spread(PROOFS[name](proof), STRANGE, proof.rng) for name in proof.arena.scenario.proofs)
    some = [partial(pair_at_random, proof) for _ in range(STRANGE)]
    reached = (partial(d.kill, proof, place) for place in proof.rng.sample(needed, min(len(needed), STRANGE)))
    return list(chain(killed, reached, _spread(failures(proof), FAILURES, proof.rng), some, *own))


def soaked(proof: Proof) -> Iterator[Act]:
    """Everything there is, once, in a random order; then every pair of a kill and a second fault, in a random order."""
    acts = list(chain(kills(proof), failures(proof), *(made(proof) for made in PROOFS.values())))
    proof.rng.shuffle(acts)
    yield from acts
    pairs = [
        (place, second, n) for place in proof.places for second in SECONDS for n in range(1, len(proof.places) + 1)
    ]
    proof.rng.shuffle(pairs)
    for place, second, number in pairs:
        yield partial(d.pair, proof, place, second, number)


def pair_at_random(proof: Proof) -> None:
    """Killed somewhere, and something again in the recovery."""
    place, second = proof.rng.choice(proof.places), proof.rng.choice(SECONDS)
    d.pair(proof, place, second, proof.rng.randint(1, len(proof.places)))


def _of(proof: Proof, kind: str) -> list[Place]:
    return [place for place in proof.places if place.kind == kind]


def _recording(proof: Proof) -> list[Place]:
    """Just before each new record, and while what the one before announced is done."""
    return [place for place in proof.places if place.kind in ("commit ledger", "start supervisor")]


def _one_of_each(proof: Proof) -> list[Place]:
    return [proof.rng.choice(_of(proof, kind)) for kind in sorted({place.kind for place in proof.places})]


def _spread(acts: Sequence[Act], count: int, rng: random.Random) -> list[Act]:
    """``count`` of them at equal distances from a random start."""
    if len(acts) <= count:
        return list(acts)
    start = rng.randrange(len(acts))
    return [acts[(start + len(acts) * n // count) % len(acts)] for n in range(count)]
