"""The graph of a workflow: which routes lead back, what comes before what, which loops there are. Pure.

Needs must be acyclic. Routes are then added in declaration order; one whose target is the step itself or an ancestor of it is a
*back route* and adds nothing to the forward graph, which therefore stays acyclic. Deciding that for one route after another is
incremental cycle detection: the topological order is kept and mended only between the two ends of a new edge (the method of
Pearce and Kelly), so a route that leads forward in that order costs nothing.

Steps are numbers here: their position in the workflow.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from runner.contract.activation import Step
from runner.contract.ids import TERMINALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What the rest of the interpreter asks about a graph whose needs are acyclic."""

    back: frozenset[tuple[int, int]]
    """(source, target) of every back route. All routes of one such pair lead back, or none does."""
    successors: tuple[tuple[int, ...], ...]
    """Forward, needs and routes together, each once, in declaration order."""
    order: tuple[int, ...]
    """A topological order of the forward graph."""
    ancestors: tuple[int, ...]
    """For each step a bit set of the steps before it in the forward graph."""
    deciders: frozenset[int]
    """Steps with a back route."""
    loop: tuple[int, ...]
    """For each step the number of its strongly connected part of the whole graph; equal numbers share a loop."""

    @property
    def everything(self) -> list[list[int]]:
        """Forward and back edges together."""
        edges = [list(targets) for targets in self.successors]
        for source, target in sorted(self.back):
            edges[source].append(target)
        return edges

    def precedes(self, first: int, second: int) -> bool:
        return bool(self.ancestors[second] >> first & 1)

    def downstream(self, start: int) -> tuple[int, ...]:
        """``start`` and everything after it in the forward graph, in declaration order."""
        return tuple(reached([start], self.successors))


def numbered(steps: Sequence[Step]) -> dict[str, int]:
    """Where each id stands; of equal ids the first counts."""
    numbers: dict[str, int] = {}
    for number, step in enumerate(steps):
        numbers.setdefault(step.id, number)
    return numbers


def needs_of(steps: Sequence[Step]) -> list[list[int]]:
    """For each step the steps it needs, unknown names left out."""
    numbers = numbered(steps)
    return [[numbers[n] for n in dict.fromkeys(step.needs) if n in numbers] for step in steps]


def routes_of(steps: Sequence[Step]) -> list[list[int]]:
    """For each step the steps it routes to, terminals and unknown names left out, each once in declaration order."""
    numbers = numbered(steps)
    return [
        [numbers[t] for t in dict.fromkeys(route.to for route in step.routes) if t in numbers and t not in TERMINALS]
        for step in steps
    ]


def topology(steps: Sequence[Step]) -> Topology | list[list[int]]:
    """The graph of ``steps``, or the cycles among their needs (each as the steps on it, in order)."""
    needs, routes = needs_of(steps), routes_of(steps)
    forward: list[list[int]] = [[] for _ in steps]
    for step, needed in enumerate(needs):
        for need in needed:
            forward[need].append(step)
    knots = [part for part in components(forward) if is_loop(part, forward)]
    if knots:
        return [cycle_in(part, forward) for part in knots]
    growing = _Growing(forward)
    back = {
        (source, target)
        for source, targets in enumerate(routes)
        for target in targets
        if source == target or not growing.add(source, target)
    }
    successors = tuple(tuple(sorted(set(s))) for s in growing.successors)
    order = tuple(sorted(range(len(steps)), key=growing.position.__getitem__))
    everything = [[*forward, *routes[step]] for step, forward in enumerate(successors)]
    loop = [0] * len(steps)
    for number, part in enumerate(components(everything)):
        for step in part:
            loop[step] = number
    return Topology(
        back=frozenset(back),
        deciders=frozenset(source for source, _ in back),
        successors=successors,
        order=order,
        ancestors=tuple(_ancestors(order, successors)),
        loop=tuple(loop),
    )


def _ancestors(order: Sequence[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """Bit sets: one OR per edge, cheap up to the few thousand steps a workflow may have."""
    sets = [0] * len(order)
    for step in order:
        after = sets[step] | 1 << step
        for target in successors[step]:
            sets[target] |= after
    return sets


class _Growing:
    """An acyclic graph that edges are added to; each that would close a cycle is refused."""

    def __init__(self, successors: list[list[int]]) -> None:
        self.successors = successors
        self.predecessors: list[list[int]] = [[] for _ in successors]
        for source, targets in enumerate(successors):
            for target in targets:
                self.predecessors[target].append(source)
        self.position: Final = [0] * len(successors)
        for place, step in enumerate(_sorted(successors)):
            self.position[step] = place

    def add(self, source: int, target: int) -> bool:
        """False, and nothing changed, when ``target`` already comes before ``source``."""
        low, high = self.position[target], self.position[source]
        if low < high:
            after = self._search(target, self.successors, lambda place: place <= high)
            if source in after:
                return False
            before = self._search(source, self.predecessors, lambda place: place >= low)
            self._reorder(before, after)
        self.successors[source].append(target)
        self.predecessors[target].append(source)
        return True

    def _search(self, start: int, edges: list[list[int]], within: Callable[[int], bool]) -> set[int]:
        found, waiting = {start}, [start]
        while waiting:
            for step in edges[waiting.pop()]:
                if step not in found and within(self.position[step]):
                    found.add(step)
                    waiting.append(step)
        return found

    def _reorder(self, before: set[int], after: set[int]) -> None:
        """The two sets share their old places: first what leads to the edge, then what it leads to."""
        moved = [*sorted(before, key=self.position.__getitem__), *sorted(after, key=self.position.__getitem__)]
        places = sorted(self.position[step] for step in moved)
        for step, place in zip(moved, places, strict=True):
            self.position[step] = place


def _sorted(successors: Sequence[Sequence[int]]) -> list[int]:
    """A topological order that keeps to declaration order where the edges allow it. The graph is acyclic."""
    waiting = [0] * len(successors)
    for targets in successors:
        for target in targets:
            waiting[target] += 1
    ready = [step for step, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order = []
    while ready:
        step = heappop(ready)
        order.append(step)
        for target in successors[step]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heappush(ready, target)
    return order


def reached(starts: Iterable[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """``starts`` and all that can be reached from them, ascending."""
    found = set(starts)
    waiting = list(found)
    while waiting:
        for step in successors[waiting.pop()]:
            if step not in found:
                found.add(step)
                waiting.append(step)
    return sorted(found)


def components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected parts (Kosaraju), without recursion: a chain of 2,000 steps must not exhaust the stack."""
    reverse: list[list[int]] = [[] for _ in successors]
    for source, targets in enumerate(successors):
        for target in targets:
            reverse[target].append(source)
    assigned = [False] * len(successors)
    parts = []
    for root in reversed(_finished(successors)):
        if assigned[root]:
            continue
        assigned[root] = True
        part, waiting = [root], [root]
        while waiting:
            for step in reverse[waiting.pop()]:
                if not assigned[step]:
                    assigned[step] = True
                    part.append(step)
                    waiting.append(step)
        parts.append(sorted(part))
    return parts


def _finished(successors: Sequence[Sequence[int]]) -> list[int]:
    """The steps in the order in which a depth-first walk leaves them."""
    seen = [False] * len(successors)
    left = []
    for root in range(len(successors)):
        if seen[root]:
            continue
        seen[root] = True
        path = [(root, iter(successors[root]))]
        while path:
            target = next((t for t in path[-1][1] if not seen[t]), None)
            if target is None:
                left.append(path.pop()[0])
            else:
                seen[target] = True
                path.append((target, iter(successors[target])))
    return left


def is_loop(part: Sequence[int], successors: Sequence[Sequence[int]]) -> bool:
    """Whether a strongly connected part holds a cycle at all."""
    return len(part) > 1 or part[0] in successors[part[0]]


def cycle_in(part: Sequence[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """One cycle inside a strongly connected part that has one, beginning at its first step."""
    inside = set(part)
    path, seen = [part[0]], {part[0]: 0}
    while True:
        step = next(t for t in successors[path[-1]] if t in inside)
        if step in seen:
            return path[seen[step] :]
        seen[step] = len(path)
        path.append(step)
