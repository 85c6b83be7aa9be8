"""Figures: what was measured, beside its budget; medians of interleaved repetitions; what the machine is."""

import os
import platform
import sqlite3
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number."""

    part: str
    name: str
    value: float
    unit: str
    """``ms``, ``bytes``, ``x`` for a ratio, ..."""
    budget: float | None = None
    """At most this; None for a number that only stands beside others."""

    @property
    def met(self) -> bool | None:
        return None if self.budget is None else self.value <= self.budget

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured. ``tiny`` is for the test that each part runs at all."""

    repetitions: int
    steps: int
    """Of the Delivery whose step is timed."""
    lengths: tuple[int, ...]
    """Completed steps before the one whose bytes are counted."""
    histories: tuple[int, ...]
    """Completed steps before a kill, and of the Delivery that is inspected."""
    deliveries: int
    """At once in one process."""
    trees: tuple[int, ...]
    """Files in the worktrees that savepoints scan."""


FULL = Sizes(
    repetitions=5,
    steps=600,
    lengths=(10, 300, 3_000),
    histories=(10, 1_000, 10_000),
    deliveries=200,
    trees=(1_000, 20_000, 100_000),
)
TINY = Sizes(repetitions=1, steps=24, lengths=(4,), histories=(4,), deliveries=2, trees=(20,))


def interleaved(repetitions: int, subjects: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each subject over rounds in which every subject has one turn, so that all meet the same machine."""
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(repetitions):
        for name, measure in subjects.items():
            found[name].append(measure())
    return {name: median(values) for name, values in found.items()}


def machine() -> dict[str, str]:
    """What the figures were measured on, as far as it matters for them; no name of it."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()
    load = os.getloadavg()[0]
    return {
        "processors": str(len(os.sched_getaffinity(0))),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "git": git[2],
        "langgraph": metadata.version("langgraph"),
        "load before": f"{load:.1f}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


# --- shown -----------------------------------------------------------------------------------------------------------


def number(figure: Figure, value: float) -> str:
    digits = 0 if figure.unit == "bytes" or abs(value) >= 100 else 2
    return f"{value:,.{digits}f} {figure.unit}"


def rows(figures: Sequence[Figure]) -> list[tuple[str, str, str, str, str]]:
    """Part, what, figure, budget, verdict."""
    words = {True: "met", False: "missed", None: ""}
    return [
        (
            f.part,
            f.name,
            number(f, f.value),
            "" if f.budget is None else f"<= {number(f, f.budget)}",
            words[f.met],
        )
        for f in figures
    ]


def table(figures: Sequence[Figure]) -> str:
    """For a terminal."""
    shown = [("part", "what", "figure", "budget", ""), *rows(figures)]
    widths = [max(len(row[column]) for row in shown) for column in range(5)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
    )


def markdown(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    """For docs/performance.md."""
    lines = ["| part | what | figure | budget | |", "|---|---|---:|---:|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows(figures)]
    where = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "\n".join([*lines, "", f"Measured on: {where}."])
