"""The proof: disturb a run at one boundary, carry on in fresh processes until it has settled, compare with an undisturbed run.

What must be equal: the settlement's bytes, the worktree, the published ref, the files of the state root. What must hold:
each effect that was counted outside happened as often as it does undisturbed; once more only where it may run again
(everything but ``external``) and was in flight at a death, as the ledger had it then. What was recorded is never repeated.
"""

import gc
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final, NamedTuple

from runner.contract.errors import RunnerError
from runner.contract.events import ModelCalled, ModelResponded, ToolCalled, ToolFailed, ToolSucceeded
from tests.crash.arena import Arena, Traces, difference
from tests.crash.driver import EXECUTE, Order, Run, run
from tests.crash.faults import Fault, FaultName
from tests.crash.people import Person
from tests.crash.phases import expected_phase, phase_shown
from tests.crash.power import Synced, directories
from tests.crash.report import Report

TRIES: Final = 3
BY_AGE: Final = "start git ls-files"
"""An index that is only moments old is read once more, so how often this happens depends on how fast a run is."""
EXECUTES_MAX: Final = 10
"""More executes without a settlement are not progress."""


class Place(NamedTuple):
    """A boundary: the ``at``-th of its kind in the ``run``-th process of an undisturbed Delivery. Stable where threads and
    clocks shift the order of different kinds."""

    kind: str
    at: int
    run: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.at}" + (f" of process {self.run + 1}" if self.run else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    run: Run
    places: tuple[Place, ...]
    counts: Counter[str]
    traces: Traces


class Proof:
    """All runs of one scenario in one arena."""

    def __init__(self, arena: Arena, rng: random.Random) -> None:
        self.arena = arena
        self.report = Report()
        self.rng = rng
        self.person = Person(arena)
        self._allowed: Counter[str] = Counter()
        first = self._alone()
        _import(first.run.imported)
        self.undisturbed = self._alone()
        self._places = tuple(sorted({*first.places} & {*self.undisturbed.places}))
        self.report.boundaries = Counter(place.kind for place in self._places)
        self._check_undisturbed(first)

    def _alone(self) -> Undisturbed:
        done, places = self._watched(EXECUTE)
        return Undisturbed(run=done, places=places, counts=self.arena.counts(), traces=self.arena.traces())

    def _watched(self, order: Order) -> tuple[Run, tuple[Place, ...]]:
        self.begin()
        places: list[Place] = []
        for number in range(EXECUTES_MAX):
            done = self.run(order)
            places += _numbered(done.reached, number)
            if not self.person.helps(done):
                break
        return done, tuple(sorted(places))

    def _check_undisturbed(self, other: Undisturbed) -> None:
        """What differs between two undisturbed runs could not be compared with a third."""
        this, scenario = self.undisturbed, self.arena.scenario
        wrong = [*difference(other.traces, this.traces), *self.arena.left_over()]
        if this.run.settlement != other.run.settlement or not this.run.settlement:
            wrong.append(f"two runs end differently: {other.run} and {this.run}")
        if this.run.outcome != scenario.outcome or this.counts != scenario.expected:
            wrong.append(f"{this.run}, counted {dict(this.counts)}; not {scenario.outcome}, {dict(scenario.expected)}")
        missing = set(scenario.reaches) - {place.kind for place in this.places}
        if missing:
            wrong.append(f"boundaries that this scenario is there for were not reached: {sorted(missing)}")
        self.report.wrong += [f"{scenario.name} undisturbed: {line}" for line in wrong]

    @property
    def places(self) -> tuple[Place, ...]:
        """Every boundary that each undisturbed run has, by kind."""
        return self._places

    def asking_places(self) -> tuple[Place, ...]:
        """The same with appends instead of COMMITs: while a COMMIT waits, nobody else can leave anything in the ledger."""
        return self._watched(Order(commits=False))[1]

    # --- judgement ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Nothing has happened yet."""
        self.arena.put_back()
        self.before = directories(self.arena.world.root)
        self.synced: list[Synced] = []
        self.person.wake()
        self._allowed = Counter()

    def run(self, order: Order = EXECUTE, on_ask: Callable[[], None] = lambda: None) -> Run:
        """One process."""
        self.report.runs += 1
        done = run(self.arena, order, on_ask)
        self.synced += done.synced
        return done

    def strike(
        self,
        name: FaultName,
        place: Place,
        order: Order = EXECUTE,
        on_ask: Callable[[], None] = lambda: None,
        called: str = "",
    ) -> Run:
        """A Delivery's first processes until this happens to one of them. A place that is not reached is looked for again, then
        it is a failure."""
        order = replace(order, fault=Fault(name=name, kind=place.kind, at=place.at))
        for _ in range(TRIES):
            self.begin()
            for _ in range(place.run):
                self.person.helps(self.run())
            done = self.run(order, on_ask)
            if done.struck:
                self.report.struck[f"{called or name} at {done.struck}"] += 1
                return done
        if place.kind == BY_AGE:
            self.report.struck[f"nothing at {place}"] += 1
        else:
            self.wrong(f"{called or name} at {place}", ["was not reached"], [done])
        return done

    def died(self) -> None:
        """What was in flight at a death may happen once more. Read while its children may still be running: an intent
        without a result bounds what they can do. And whoever inspects now hears the phase, before the first checkpoint too."""
        self._allowed.update(in_flight(self.arena))
        expected, shown = expected_phase(self.arena), phase_shown(self.arena)
        if shown not in expected:
            self.report.wrong.append(f"inspect after a death says {shown}, not {' or '.join(sorted(expected))}")

    def settle(self, runs: list[Run]) -> tuple[Run, list[Run]]:
        """Executes until it has settled, or nobody can help any more. After a disturbance there is always one more."""
        story = list(runs)
        for _ in range(EXECUTES_MAX):
            if story[-1].end == "settled" or (len(story) > len(runs) and not self.person.helps(story[-1])):
                break
            if len(story) == len(runs):
                self.person.helps(story[-1])
            story.append(self.run())
        return story[-1], story

    def finish(self, where: str, runs: list[Run], *, git_died: bool = False) -> None:
        """Executes until it has settled, then compares."""
        done, story = self.settle(runs)
        wrong = self._compare(done) if done.end == "settled" else ["it does not settle"]
        wrong += self.arena.left_over(git_died=git_died)
        self.wrong(where, wrong, story)

    def ended(self, where: str, runs: list[Run], ends: tuple[str, ...]) -> None:
        """Executes until it has settled in one of these ways or as it would have; for good, with no effect more and nothing
        left behind."""
        done, story = self.settle(runs)
        wrong = self.arena.left_over()
        if done.end != "settled" or done.outcome not in (self.undisturbed.run.outcome, *ends):
            wrong.append(f"it does not settle as {' or '.join(ends)} or as it would have")
        wrong += self.miscounted(rarely=False)
        if self.run().settlement != done.settlement:
            wrong.append("executed again, it settles differently")
        self.wrong(where, wrong, story)

    def wrong(self, where: str, what: list[str], story: Sequence[Run] = ()) -> None:
        """Notes what did not hold there, if anything."""
        if what:
            tale = f" [{' -> '.join(map(str, story))}]" if story else ""
            self.report.wrong.append(f"{where}: {'; '.join(what)}{tale}")

    def _compare(self, done: Run) -> list[str]:
        wrong = []
        if done.settlement != self.undisturbed.run.settlement:
            wrong.append(f"another settlement: {done.outcome}, not {self.undisturbed.run.outcome}")
        return wrong + difference(self.undisturbed.traces, self.arena.traces()) + self.miscounted()

    def miscounted(self, *, rarely: bool = True) -> list[str]:
        """Effects that happened too often, or too rarely."""
        counted, wrong = self.arena.counts(), []
        for effect in counted.keys() | self.undisturbed.counts.keys():
            least, found = self.undisturbed.counts[effect], counted[effect]
            most = least + self._allowed[effect.split("/")[0]]
            if found > most or (rarely and found < least):
                wrong.append(f"{effect} happened {found} times, not {least if least == most else f'{least} to {most}'}")
        return wrong


def _import(names: Sequence[str]) -> None:
    """Once here instead of in each of thousands of forks."""
    for name in names:
        with suppress(ImportError):  # one that only exists while another is imported
            import_module(name)
    gc.freeze()


def _numbered(kinds: Sequence[str], number: int) -> list[Place]:
    seen: Counter[str] = Counter()
    places = []
    for kind in kinds:
        seen[kind] += 1
        places.append(Place(kind, seen[kind], number))
    return places


def in_flight(arena: Arena) -> list[str]:
    """The sites of effects that may happen again: begun, without a result, and not external."""
    begun: dict[str, str] = {}
    if not arena.layout.ledger.exists():
        return []
    try:
        records = arena.world.records()
    except RunnerError:  # not even accepted
        return []
    for record in records:
        if record.step is None:
            continue
        match record.event:
            case ToolCalled(call=call, effect=effect) if effect != "external":
                begun[call] = record.step.site
            case ModelCalled(call=call):
                begun[call] = record.step.site
            case ToolSucceeded(call=call) | ToolFailed(call=call) | ModelResponded(call=call):
                begun.pop(call, None)
    return list(begun.values())
