"""The proof: disturb a run at one boundary, carry on in fresh processes until it has settled, compare with an undisturbed run.

What must be equal: the settlement's bytes, the worktree, the published ref, the files of the state root. What must hold:
each effect that was counted outside happened as often as it does undisturbed; once more only where it may run again
(everything but ``external``) and was in flight at a death, as the ledger had it then. What was recorded is never repeated.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner import RunnerFactory
from runner.contract.errors import RunnerError
from runner.contract.events import ModelCalled, ModelResponded, ToolCalled, ToolFailed, ToolSucceeded
from tests.crash.arena import DELIVERY, Arena, Traces, difference
from tests.crash.driver import Order, Run, run
from tests.crash.faults import Fault, FaultName
from tests.crash.people import Person
from tests.crash.power import Cut, cut
from tests.crash.report import Report

EXECUTES_MAX: Final = 10
"""More executes without a settlement are not progress."""
CHECKPOINTS: Final = "checkpoints.sqlite*"

Place = tuple[str, int]
"""A boundary: the n-th of its kind. Stable where threads and clocks shift the order of different kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    run: Run
    reached: tuple[str, ...]
    counts: Counter[str]
    traces: Traces


class Proof:
    """All runs of one scenario in one arena."""

    def __init__(self, arena: Arena, rng: random.Random) -> None:
        self.arena = arena
        self.report = Report()
        self._rng = rng
        self._person = Person(arena)
        self._allowed: Counter[str] = Counter()
        first, self.undisturbed = self._alone(), self._alone()
        self.report.boundaries = Counter(self.undisturbed.reached)
        self._check_undisturbed(first)

    def _alone(self) -> Undisturbed:
        self._begin()
        reached: list[str] = []
        for _ in range(EXECUTES_MAX):
            done = self._run()
            reached += done.reached
            if not self._person.helps(done):
                break
        return Undisturbed(run=done, reached=tuple(reached), counts=self.arena.counts(), traces=self.arena.traces())

    def _check_undisturbed(self, other: Undisturbed) -> None:
        """What differs between two undisturbed runs could not be compared with a third."""
        this, scenario = self.undisturbed, self.arena.scenario
        wrong = [*difference(other.traces, this.traces), *self.arena.left_over()]
        if this.run.settlement != other.run.settlement or not this.run.settlement:
            wrong.append(f"two runs end differently: {other.run} and {this.run}")
        if this.run.outcome != scenario.outcome or this.counts != scenario.expected:
            wrong.append(f"{this.run}, counted {dict(this.counts)}; not {scenario.outcome}, {dict(scenario.expected)}")
        missing = set(scenario.reaches) - set(this.reached)
        if missing:
            wrong.append(f"boundaries that this scenario is there for were not reached: {sorted(missing)}")
        self.report.wrong += [f"{scenario.name} undisturbed: {line}" for line in wrong]

    def places(self, every: int) -> list[Place]:
        """Each ``every``-th boundary from a random start, and the first of each kind that must be reached."""
        chosen = _numbered(self.undisturbed.reached)[self._rng.randrange(every) :: every]
        return chosen + [place for kind in self.arena.scenario.reaches if (place := (kind, 1)) not in chosen]

    def asking_places(self, every: int) -> list[Place]:
        """The same with appends instead of COMMITs: while a COMMIT waits, nobody else can leave anything in the ledger."""
        self._begin()
        reached = tuple(run(self.arena, Order(commits=False)).reached)
        return _numbered(reached)[self._rng.randrange(every) :: every]

    # --- what is done ------------------------------------------------------------------------------------------------

    def kill(self, place: Place, *, name: FaultName = "kill", then: Callable[[], None] = lambda: None) -> None:
        """Killed there; ``then`` happens while nobody drives."""
        self._begin()
        done = self._run(Fault(name=name, kind=place[0], at=place[1]))
        self._died()
        then()
        self._finish(f"{name} at {place[0]} {place[1]}", [done])

    def kill_twice(self, place: Place) -> None:
        """Killed there, and again somewhere in the recovery."""
        self._begin()
        first = self._run(Fault(name="kill", kind=place[0], at=place[1]))
        self._died()
        number = self._rng.randint(1, len(self.undisturbed.reached))
        second = self._run(Fault(name="kill", at=number))
        self._died()
        where = f"kill at {place[0]} {place[1]}, then at boundary {number} ({second.struck or 'not reached'})"
        self._finish(where, [first, second])

    def fail(self, name: FaultName, kind: str) -> None:
        """One operation fails; the driver says so in its own words or copes, and the next execute goes on."""
        self._begin()
        done = self._run(Fault(name=name, at=1, kind=kind))
        # What nobody expects travels as itself; it must not end the Delivery.
        surprised = name == "error" and done.detail.startswith("Surprise:")
        if done.end in ("traceback", "hung", "killed") and not surprised:
            self.report.wrong.append(f"{name} at {kind}: {done}")
        self._died()
        self._finish(f"{name} at {kind}", [done])

    def without_checkpoints(self, place: Place) -> None:
        """All checkpoints are deleted: they only save time."""
        self.kill(place, then=self._delete_checkpoints)

    def power(self, place: Place, how: Cut) -> None:
        """The power fails there."""
        self._begin()
        first = self._run(Fault(name="kill", kind=place[0], at=place[1]))
        self._died()
        what = cut(self.arena, how, self._rng)
        self.report.struck[f"power cut ({how}) at {place[0]}"] += 1
        where = f"power cut at {place[0]} {place[1]}: {what or 'nothing to lose'}"
        if how == "torn" or not what:
            self._finish(where, [first])
            return
        done, story = self._settle([first])
        if done.end == "settled":
            if done.result != self.undisturbed.run.result:
                self.report.wrong.append(f"{where}: another result {done.result} [{' -> '.join(map(str, story))}]")
        elif done.end not in ("intervention", "error"):
            self.report.wrong.append(f"{where}: {' -> '.join(map(str, story))}")

    def backwards(self) -> None:
        """The clock is set back again and again."""
        self._begin()
        self._finish("clock backwards", [self._run(backwards=True)])

    def second_driver(self, place: Place) -> None:
        """While the driver stands still there, alive, another one is kept out, or has done everything before it."""
        self._begin()
        others: list[Run] = []
        fault = Fault(name="ask", kind=place[0], at=place[1])
        done = run(self.arena, Order(fault=fault, commits=False), lambda: others.append(self._run()))
        if done.struck:
            self.report.struck[f"second driver at {done.struck}"] += 1
        wrong = [other for other in others if other.end not in ("busy", "settled")]
        if wrong:
            self.report.wrong.append(f"second driver at {place[0]} {place[1]}: {wrong[0]}")
        self._finish(f"second driver at {place[0]} {place[1]}", [done])

    def cancel(self, place: Place) -> None:
        """Somebody cancels there. Then nothing more may begin, and it settles, as cancelled or as it would have."""
        self._begin()
        acks: list[Run] = []
        fault = Fault(name="ask", kind=place[0], at=place[1])
        canceller = Order(action="cancel")
        done = run(self.arena, Order(fault=fault, commits=False), lambda: acks.append(run(self.arena, canceller)))
        if done.struck:
            self.report.struck[f"cancel at {done.struck}"] += 1
        done, story = self._settle([done])
        where, wrong = f"cancel at {place[0]} {place[1]}", self.arena.left_over()
        if done.end != "settled" or done.outcome not in (self.undisturbed.run.outcome, "cancelled/cancel-requested"):
            wrong.append("it does not settle as cancelled or as it would have")
        wrong += [f"{effect} happened too often" for effect in self.arena.counts() - self.undisturbed.counts]
        if self._run().settlement != done.settlement:
            wrong.append("executed again, it settles differently")
        if wrong:
            tale = " -> ".join(map(str, [*acks, *story]))
            self.report.wrong.append(f"{where}: {'; '.join(wrong)} [{tale}]")

    def checkpoint_ahead(self) -> None:
        """Checkpoints from later than the ledger: stop, never guess."""
        self._begin()
        self._run(Fault(name="kill", kind="remove checkpoints", at=1))
        kept = {path.name: path.read_bytes() for path in self.arena.layout.root.glob(CHECKPOINTS)}
        self._begin()
        self._run(Fault(name="kill", kind="start supervisor", at=1))
        self._delete_checkpoints()
        for name, data in kept.items():
            Path(self.arena.layout.root / name).write_bytes(data)
        done = self._run()
        if (done.end, done.family) != ("error", "integrity"):
            self.report.wrong.append(f"a checkpoint ahead of the ledger: {done}")

    # --- judgement ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.arena.put_back()
        self._person.wake()
        self._allowed = Counter()

    def _run(self, fault: Fault | None = None, *, backwards: bool = False) -> Run:
        self.report.runs += 1
        done = run(self.arena, Order(fault=fault, backwards=backwards))
        if done.struck and fault is not None:
            self.report.struck[f"{fault.name} at {done.struck}"] += 1
        return done

    def _died(self) -> None:
        """What was in flight at a death may happen once more. Read while its children may still be running: an intent
        without a result bounds what they can do. And whoever inspects now is answered, before the first checkpoint too."""
        self._allowed.update(in_flight(self.arena))
        if self.arena.layout.ledger.exists():
            try:
                RunnerFactory(self.arena.world.config()).open_records().inspect(DELIVERY)
            except RunnerError as error:
                self.report.wrong.append(f"inspect after a death: {error}")

    def _delete_checkpoints(self) -> None:
        for path in self.arena.layout.root.glob(CHECKPOINTS):
            path.unlink()

    def _settle(self, runs: list[Run]) -> tuple[Run, list[Run]]:
        """Executes until it has settled, or nobody can help any more. After a disturbance there is always one more."""
        story = list(runs)
        for _ in range(EXECUTES_MAX):
            if story[-1].end == "settled" or (len(story) > len(runs) and not self._person.helps(story[-1])):
                break
            if len(story) == len(runs):
                self._person.helps(story[-1])
            story.append(self._run())
        return story[-1], story

    def _finish(self, where: str, runs: list[Run]) -> None:
        """Executes until it has settled, then compares."""
        done, story = self._settle(runs)
        wrong = self._compare(done) if done.end == "settled" else ["it does not settle"]
        wrong += self.arena.left_over()
        if wrong:
            self.report.wrong.append(f"{where}: {'; '.join(wrong)} [{' -> '.join(map(str, story))}]")

    def _compare(self, done: Run) -> list[str]:
        wrong = []
        if done.settlement != self.undisturbed.run.settlement:
            wrong.append(f"another settlement: {done.outcome}, not {self.undisturbed.run.outcome}")
        wrong += difference(self.undisturbed.traces, self.arena.traces())
        counted = self.arena.counts()
        for effect in counted.keys() | self.undisturbed.counts.keys():
            least, found = self.undisturbed.counts[effect], counted[effect]
            most = least + self._allowed[effect.split("/")[0]]
            if not least <= found <= most:
                wrong.append(f"{effect} happened {found} times, not {least if least == most else f'{least} to {most}'}")
        return wrong


def _numbered(kinds: tuple[str, ...]) -> list[Place]:
    seen: Counter[str] = Counter()
    places = []
    for kind in kinds:
        seen[kind] += 1
        places.append((kind, seen[kind]))
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
