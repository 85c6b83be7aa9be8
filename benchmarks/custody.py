"""What savepoints, restores and a published ref cost, beside one plain look at every file.

The plain look is ``find`` with a test that needs the status of each file and is true of none: one ``lstat`` per file in C, less
what ``find`` takes on an empty directory. Everything is synced (``core.fsync=all``), the disk is the one for temporary files.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, Sizes, interleaved
from benchmarks.ground import git
from custody.git import Git
from custody.publish import Publisher, Target
from custody.repository import discover
from tests.custody.fakes import Delivery, Repo

PART = "custody"
CHANGES = 10
PER_DIRECTORY = 50
AROUND = 20
"""Directories in one directory."""
MOVE_MS = 10.0
LOOKS = 5
"""The quickest of so many counts: starting a process takes longer than looking at a thousand files."""


def run(sizes: Sizes) -> tuple[Figure, ...]:
    """For each size of worktree the operations on ten changed files, then moving a ref."""
    figures: list[Figure] = []
    for count in sizes.trees:
        with tempfile.TemporaryDirectory() as made:
            figures += Bench(Path(made), count).figures(sizes.repetitions)
    with tempfile.TemporaryDirectory() as made:
        figures.append(_moving(Path(made), sizes.repetitions))
    return tuple(figures)


def milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1000


class Bench:
    """One worktree of ``count`` files, and a Delivery in it. Every turn changes other files than the one before."""

    def __init__(self, place: Path, count: int) -> None:
        self.names = [f"d{n // PER_DIRECTORY // AROUND}/e{n // PER_DIRECTORY}/f{n}.txt" for n in range(count)]
        self.turn = 0
        self.empty = place / "empty"
        self.empty.mkdir()
        self.repo = _repository(place / "repo", self.names)
        self.work = Delivery(self.repo, place / "state")
        self.work.custody.baseline()
        self.work.attempt(lambda: self.change(0))

    def change(self, apart: int) -> tuple[str, ...]:
        """Ten files in different directories."""
        self.turn += 1
        step = max(1, len(self.names) // CHANGES)
        names = {self.names[(n * step + self.turn + apart) % len(self.names)] for n in range(CHANGES)}
        for name in names:
            self.repo.write(name, f"turn {self.turn}\n")
        return tuple(names)

    def plain(self) -> float:
        def look(place: Path) -> float:
            words = ("find", str(place), "-name", ".git", "-prune", "-o", "-size", "+9000000000k", "-print")
            return min(milliseconds(lambda: subprocess.run(words, check=True)) for _ in range(LOOKS))

        return max(look(self.repo.path) - look(self.empty), 0.1)

    def ending(self, change: int, *, keep: bool) -> float:
        """A verdict alone, without what is done before and after it."""
        grant = self.work.begin()
        if change:
            self.change(0)
        end = self.work.custody.settle if keep else self.work.custody.discard
        started = time.perf_counter()
        verdict = end(grant)
        took = (time.perf_counter() - started) * 1000
        self.work.end(verdict)
        return took

    def marking(self) -> float:
        """A mid-step savepoint alone; the attempt is thrown away."""
        grant = self.work.begin()
        names = self.change(7)
        took = milliseconds(lambda: self.work.mark(grant, *names))
        self.work.end(self.work.custody.discard(grant))
        return took

    def figures(self, repetitions: int) -> list[Figure]:
        found = interleaved(
            repetitions,
            {
                "plain": self.plain,
                "savepoint": lambda: self.ending(1, keep=True),
                "nothing": lambda: self.ending(0, keep=True),
                "mark": self.marking,
                "restore": lambda: self.ending(1, keep=False),
            },
        )
        self.work.close()
        plain = found["plain"]
        budget = 15 + 5 * plain
        said = f"{len(self.names):,} files"

        def ratio(name: str, value: float, most: float | None) -> Figure:
            limit = None if most is None else most / plain
            what = f"{said}: {name} ({value:.1f} ms)"
            return Figure(part=PART, name=what, value=value / plain, unit="x", budget=limit)

        return [
            Figure(part=PART, name=f"{said}: a plain look at each", value=plain, unit="ms"),
            ratio("savepoint with verdict", found["savepoint"], budget),
            ratio("verdict on nothing", found["nothing"], budget),
            ratio("mid-step savepoint of known paths", found["mark"], plain),
            ratio("attempt undone", found["restore"], 2 * budget),
        ]


def _repository(path: Path, names: list[str]) -> Repo:
    path.mkdir()
    repo = Repo(path)
    repo.git("init", "-q", "-b", "main")
    for name in names:
        repo.write(name, f"{name}\n" * 10)
    repo.commit()
    return repo


def _moving(place: Path, repetitions: int) -> Figure:
    repo = _repository(place / "repo", ["a"])
    commit = git(repo.path, "rev-parse", "HEAD")
    own = Git()
    repository = discover(own, repo.path)
    turns = iter(range(repetitions + 1))

    def move() -> float:
        target = Target(ref=f"refs/heads/result-{next(turns)}", expected="absent", new=commit)
        return milliseconds(Publisher(git=own, repository=repository, target=target).move)

    move()
    took = interleaved(repetitions, {"move": move})["move"]
    return Figure(part=PART, name="a ref moved and read back", value=took, unit="ms", budget=MOVE_MS)
