"""A naive interpreter of authored steps, one at a time in any order, and random workflows to compare with it.

Written from ARCHITECTURE.md alone: it knows neither plans nor edges, marks nor closings. The workflows have at most one
loop, as then nothing depends on the order in which concurrent steps end.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.contract.activation import ApprovalAction, RouteTo, Step
from runner.contract.plan import FAILING
from tests.langgraph_host.fakes import generate

Choose = Callable[[str, int], str]


@dataclass
class Reference:
    """Runs ``steps``; ``choose`` says how a step ends at a visit."""

    steps: tuple[Step, ...]
    choose: Choose
    back: tuple[str, str] | None
    """(deciding step, target) of the one route that leads back."""
    ended: dict[str, str] = field(default_factory=dict)
    visit: dict[str, int] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    spent: dict[str, int] = field(default_factory=dict)
    """Visits that count for a budget."""

    def run(self, rnd: random.Random) -> None:
        self.visit = {s.id: 1 for s in self.steps}
        while ready := [s for s in self.steps if s.id not in self.ended and self._may_be_judged(s)]:
            self._judge(rnd.choice(ready))

    def _sources(self, step: Step) -> list[Step]:
        return [s for s in self.steps if any(r.to == step.id for r in s.routes) and (s.id, step.id) != self.back]

    def _may_be_judged(self, step: Step) -> bool:
        return all(n in self.ended for n in (*step.needs, *(s.id for s in self._sources(step))))

    def _judge(self, step: Step) -> None:
        needs = [self.ended[n] for n in step.needs]
        sources = self._sources(step)
        taken = [s for s in sources if RouteTo(outcome=self.ended[s.id], to=step.id) in s.routes]
        if (
            any(outcome in FAILING for outcome in needs)
            or (sources and not taken)
            or (not sources and needs and all(outcome == "skipped" for outcome in needs))
        ):
            self.ended[step.id] = "skipped"
        else:
            self._run(step)

    def _run(self, step: Step) -> None:
        outcome = self.choose(step.id, self.visit[step.id])
        self.ran.append(f"{step.id}@{self.visit[step.id]}")
        target = next((r.to for r in step.routes if r.outcome == outcome), None)
        if target is None or (step.id, target) != self.back:
            self.ended[step.id] = outcome
            return
        group = self._downstream(target)
        budgets = {s.id: s.budget_visits for s in self.steps if s.budget_visits is not None and s.id in group}
        ran = [s for s in budgets if f"{s}@{self.visit[s]}" in self.ran]
        counted = ran or [s for s in budgets if self.ended.get(s) == "skipped"]
        if any(self.spent.get(s, 0) + (s in counted) + 1 > budget for s, budget in budgets.items()):
            self.ended[step.id] = "budget-exhausted"
            return
        for s in counted:
            self.spent[s] = self.spent.get(s, 0) + 1
        for s in group:
            self.visit[s] += 1
            self.ended.pop(s, None)

    def _downstream(self, start: str) -> set[str]:
        found, waiting = {start}, [start]
        while waiting:
            at = waiting.pop()
            for step in self.steps:
                after = at in step.needs or any(s.id == at for s in self._sources(step))
                if after and step.id not in found:
                    found.add(step.id)
                    waiting.append(step.id)
        return found


@dataclass
class Sample:
    steps: tuple[Step, ...]
    choose: Choose
    back: tuple[str, str] | None


ANSWERS: dict[str, Any] = {
    "type": "object",
    "properties": {"verdict": {"enum": ["success", "failure", "left", "right", "again"]}},
    "required": ["verdict"],
}


def _asked(id: str, **more: Any) -> Step:
    """A person decides what else a model would."""
    outcome = more.pop("outcome")
    return Step(id=id, action=ApprovalAction(prompt="p", answer_schema=ANSWERS, outcome=outcome), **more)


def random_workflow(seed: int, *, asks: float = 0.0) -> Sample:
    """Up to 14 steps with needs, forward routes on several outcomes, failures that are routed, and perhaps a loop; ``asks`` is
    the share of steps that ask a person."""
    rnd = random.Random(seed)
    names = [f"s{i}" for i in range(rnd.randint(2, 14))]
    needs = {n: tuple(rnd.sample(names[:i], min(i, rnd.choice([0, 1, 1, 1, 2, 3])))) for i, n in enumerate(names)}
    routes: dict[str, list[RouteTo]] = {n: [] for n in names}
    for i, name in enumerate(names[:-1]):
        for outcome in ("success", "failure", "left", "right"):
            if rnd.random() < 0.15:
                routes[name].append(RouteTo(outcome=outcome, to=rnd.choice(names[i + 1 :])))
    back, budget, visits = None, {}, rnd.randint(1, 4)
    draft = tuple(generate(n, needs=needs[n], routes=tuple(routes[n])) for n in names)
    if rnd.random() < 0.7:
        decider = rnd.choice(names)
        before = [n for n in names if decider in Reference(draft, lambda s, v: "", None)._downstream(n)]
        back = (decider, rnd.choice(before))
        exhausted = names[names.index(decider) + 1 :]
        budget = {back[1]: visits, **_more_budgets(seed, draft, before, decider, visits)}
        routes[decider].append(RouteTo(outcome="again", to=back[1]))
        if exhausted:
            routes[decider].append(RouteTo(outcome="budget-exhausted", to=rnd.choice(exhausted)))
    steps = tuple(
        (_asked if rnd.random() < asks else generate)(
            n, needs=needs[n], routes=tuple(routes[n]), budget_visits=budget.get(n), outcome="verdict"
        )
        for n in names
    )
    return Sample(steps, _chooser(seed, steps, back, visits), back)


def _more_budgets(seed: int, draft: tuple[Step, ...], before: list[str], decider: str, visits: int) -> dict[str, int]:
    """Of steps before and behind the one that decides. Not of those beside it: how often they have run by then depends on
    how long everything takes."""
    rnd = random.Random(f"budgets {seed}")
    behind = Reference(draft, lambda s, v: "", None)._downstream(decider)
    return {n: rnd.randint(1, visits + 1) for n in (*before, *sorted(behind)) if rnd.random() < 0.2}


def _chooser(seed: int, steps: tuple[Step, ...], back: tuple[str, str] | None, visits: int) -> Choose:
    can_exhaust = back is not None and any(r.outcome == "budget-exhausted" for s in steps for r in s.routes)
    routes = {s.id: [r.outcome for r in s.routes if r.outcome not in ("again", "budget-exhausted")] for s in steps}

    def choose(site: str, visit: int) -> str:
        rnd = random.Random(f"{seed} {site} {visit}")
        if back is not None and site == back[0] and (visit < visits or can_exhaust):
            return "again"
        return rnd.choice(["success", "success", *routes[site]])

    return choose
