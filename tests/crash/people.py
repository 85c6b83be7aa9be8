"""The people around a Delivery: they answer what it waits for, honestly, from what can be seen outside of it."""

import shutil
from typing import Final

from runner import RunnerFactory
from tests.crash.arena import CHILD_S, DELIVERY, Arena
from tests.crash.driver import Run

ERRORS_MAX: Final = 6
"""A step that runs again puts its obstacle up again."""


class Person:
    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.wake()

    def wake(self) -> None:
        """A new run begins."""
        self._errors = 0
        self.gives_up = False

    def helps(self, done: Run) -> bool:
        """Whether it now makes sense to execute once more, perhaps because somebody did something."""
        match done.end:
            case "killed" | "interrupted":
                return True
            case "intervention":
                return self._resolve(done)
            case "suspended":
                return self._answer(done)
            case "error" if self._arena.scenario.obstacle:
                self._errors += 1
                if self._errors % 2 == 0 and self._arena.obstacle.is_dir():
                    shutil.rmtree(self._arena.obstacle)
                return self._errors < ERRORS_MAX
            case _:
                return False

    def _resolve(self, done: Run) -> bool:
        """Says of each uncertain effect what the counters say. First its process has ended, else nobody could know."""
        self._arena.processes(CHILD_S)
        records = RunnerFactory(self._arena.world.config()).open_records()
        for effect in done.effects:
            site, _, visit = effect["step"].partition("@")
            if self.gives_up:
                records.resolve(DELIVERY, call=effect["call"], resolution="abandon", value=None)
                break
            happened = self._arena.counts()[site] >= int(visit)
            said = "happened" if happened else "did-not-happen"
            records.resolve(DELIVERY, call=effect["call"], resolution=said, value={"exit": 0} if happened else None)
        return bool(done.effects)

    def _answer(self, done: Run) -> bool:
        records = RunnerFactory(self._arena.world.config()).open_records()
        for wait in done.waits:
            site = wait["step"].partition("@")[0]
            records.answer(DELIVERY, wait=wait["wait"], value=self._arena.scenario.answers[site])
        return True
