"""Scenarios as data: ``scenarios/*.json``, each a small Delivery and what a person would do about its questions.

``steps`` are steps of an activation as they stand in its JSON. ``@effects`` in a text is the file that counts effects outside
every process of the Runner, ``@repository`` the user's repository. ``model`` maps a step, whose prompt holds its id in square
brackets, to the replies of the scripted server. ``counts`` says how often each effect happens in an undisturbed run; ``outcome`` how it ends.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runner.contract import activation as a

HERE: Final = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    about: str
    steps: tuple[Mapping[str, Any], ...]
    outcome: str
    counts: Mapping[str, int]
    model: Mapping[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    output: Mapping[str, Any] | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What a person answers to a wait, by its step."""
    obstacle: str = ""
    """A path below the world's root where a step puts something in the way; somebody removes it after two errors."""
    proofs: tuple[str, ...] = ()
    """What is done to it besides kills and failures; see ``acts.PROOFS``. ``soak`` does everything to all."""
    reaches: tuple[str, ...] = ()
    """The kinds of boundaries that this scenario is there for: one that is not reached is a failure."""

    @property
    def expected(self) -> Counter[str]:
        """What is counted in an undisturbed run: the commands' effects, and one request for each reply."""
        asked = [f"{site}/{n + 1}" for site, replies in self.model.items() for n in range(len(replies))]
        return Counter({**self.counts, **dict.fromkeys(asked, 1)})

    def activation_steps(self, places: Mapping[str, Path]) -> tuple[a.Step, ...]:
        text = json.dumps(list(self.steps))
        for name, path in places.items():
            text = text.replace(f"@{name}", str(path))
        return tuple(a.Step.model_validate_json(json.dumps(step)) for step in json.loads(text))


def load(name: str) -> Scenario:
    value: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    return Scenario(name=name, **fields)


def names() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.json"))
