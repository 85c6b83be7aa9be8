"""What a mid-step savepoint costs, printed and not judged: ``python -m tests.custody.cost_of_marks [FILES ...]``.

For each number of files: a plain lstat of all of them, a savepoint with its verdict after one change, and marks of one known
file and of one new file. Everything is synced.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.custody.fakes import Delivery, new_repo

ROUNDS = 9
PER_DIRECTORY = 50


def measured(act: Callable[[int], object]) -> float:
    """The median of some rounds, in milliseconds."""
    times = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        act(number)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def costs(place: Path, count: int) -> str:
    names = [f"d{n // PER_DIRECTORY:05d}/f{n:06d}.txt" for n in range(count)]
    repo = new_repo(place / f"repo-{count}", files={name: f"{name}\n" for name in names})
    work = Delivery(repo, place / f"state-{count}")
    work.custody.baseline()
    verdict = measured(lambda n: work.attempt(lambda: repo.write(names[0], f"{n}\n")))
    walk = measured(lambda _: [os.lstat(repo.path / name) for name in names])
    grant = work.begin()
    work.mark(grant, names[1])

    def known(number: int) -> None:
        repo.write(names[0], f"known {number}\n")
        work.custody.mark(grant, (names[0],))

    def new(number: int) -> None:
        repo.write(f"new/{number}.txt", f"{number}\n")
        work.custody.mark(grant, (f"new/{number}.txt",))

    line = f"{count:>8} {walk:>9.1f} {verdict:>9.1f} {measured(known):>11.1f} {measured(new):>9.1f}"
    work.close()
    return line


def main(counts: list[int]) -> None:
    print(f"{'files':>8} {'lstat ms':>9} {'settle ms':>9} {'mark ms':>11} {'new ms':>9}")
    with tempfile.TemporaryDirectory() as place:
        for count in counts:
            print(costs(Path(place), count), flush=True)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [200, 20_000])
