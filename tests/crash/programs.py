"""Random small workflows from a seed, and what must be counted when one is carried out.

A program is a chain. Each link counts itself outside; some are loops that fail until their n-th visit, some a decision with
two branches, some fail for good. ``meaning`` is the whole interpreter.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.crash.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    kind: Literal["once", "loop", "choice", "fail"]
    effect: str
    visits: int = 1
    """A loop succeeds at this visit."""
    budget: int = 1


def program(rng: random.Random, *, effects: tuple[str, ...]) -> tuple[Link, ...]:
    links: list[Link] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("once", "once", "loop", "choice", "fail" if rng.randrange(3) == 0 else "once"))
        links.append(
            Link(
                kind=kind,  # type: ignore[arg-type]
                effect=rng.choice(effects if kind != "loop" else ("workspace",)),
                visits=rng.randint(1, 3),
                budget=rng.randint(2, 3),
            )
        )
    return tuple(links)


def meaning(links: tuple[Link, ...]) -> tuple[dict[str, int], str]:
    """What is counted, and the outcome."""
    counted: dict[str, int] = {}
    for n, link in enumerate(links):
        name = f"s{n}"
        match link.kind:
            case "once":
                counted[name] = 1
            case "loop":
                counted[name] = min(link.visits, link.budget)
                if link.visits > link.budget:
                    return counted, "failed/budget-exhausted"
            case "choice":
                counted[f"{name}b"] = 1
            case "fail":
                counted[name] = 1
                return counted, "failed/step-failed"
    return counted, "completed/all-steps-finished"


def scenario_of(links: tuple[Link, ...], name: str) -> Scenario:
    counts, outcome = meaning(links)
    steps: list[Mapping[str, Any]] = []
    last: list[str] = []
    for n, link in enumerate(links):
        made = _steps(f"s{n}", link, last)
        steps += made
        last = [made[-1]["id"]]
    return Scenario(name=name, about=str(links), steps=tuple(steps), outcome=outcome, counts=counts)


def _steps(name: str, link: Link, needs: list[str]) -> list[dict[str, Any]]:
    writes = f"; echo x >> src/{name}" if link.effect == "workspace" else ""
    match link.kind:
        case "once":
            return [_command(name, writes, link.effect, needs=needs)]
        case "fail":
            return [_command(name, f"{writes}; exit 3", link.effect, needs=needs)]
        case "loop":
            ends = f"{writes}; test $(wc -l < src/{name}) -ge {link.visits}"
            loop = [{"outcome": "failure", "to": name}]
            return [_command(name, ends, link.effect, needs=needs, routes=loop, budget_visits=link.budget)]
        case "choice":
            routes = [{"outcome": "a", "to": f"{name}a"}, {"outcome": "b", "to": f"{name}b"}]
            decision = {"kind": "decision", "on": "{{ 1 > 2 ? 'a' : 'b' }}"}
            return [
                {"id": name, "needs": needs, "routes": routes, "action": decision},
                _command(f"{name}a", writes, link.effect),
                _command(f"{name}b", writes, link.effect),
            ]


def _command(name: str, more: str, effect: str, **step: Any) -> dict[str, Any]:
    action = {
        "kind": "command",
        "shell": True,
        "run": [f"echo {name} >> @effects{more}"],
        "effect": effect,
        "scope": {"kind": "everything"},
    }
    return {"id": name, "action": action, **step}
