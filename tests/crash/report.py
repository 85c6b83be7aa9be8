"""What was covered, and what did not hold."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    boundaries: Counter[str] = field(default_factory=Counter)
    """The kinds of an undisturbed run, each with how many boundaries it has."""
    struck: Counter[str] = field(default_factory=Counter)
    """``FAULT at KIND`` -> how often it was struck."""
    runs: int = 0
    """Driver processes."""
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        self.boundaries.update(other.boundaries)
        self.struck.update(other.struck)
        self.runs += other.runs
        self.wrong += other.wrong

    def lines(self) -> Iterator[str]:
        total, kinds = self.boundaries.total(), len(self.boundaries)
        yield f"{total} boundaries of {kinds} kinds; {self.struck.total()} faults; {self.runs} processes"
        yield "  boundaries: " + _counted(self.boundaries)
        by_fault: dict[str, Counter[str]] = {}
        for name, count in self.struck.items():
            fault, _, kind = name.partition(" at ")
            by_fault.setdefault(fault, Counter())[kind] += count
        for fault, where in sorted(by_fault.items()):
            yield f"  {fault} ({where.total()}): {_counted(where)}"
        yield from (f"WRONG {line}" for line in self.wrong)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items()))
