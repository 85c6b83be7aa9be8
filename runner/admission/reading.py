"""A parsed document -> the package it holds, with every problem of its shape in one pass.

A package with mistakes is still read as far as it makes sense: unknown keys are set aside, and a step that cannot be understood
is replaced by a stand-in with the same id, needs and routes. So the graph around it can be judged in the same pass, and
the author mends everything at once. A package with findings is never admitted.
"""

import copy
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from runner.admission.document import Document, Path
from runner.admission.package import FIELDS_NOT_BUILT, KINDS, KINDS_NOT_BUILT, Package
from runner.contract import ids
from runner.contract.errors import Finding
from runner.contract.model import how_to_mend
from runner.contract.scope import scope_mistakes

ROUNDS_MAX: Final = 6
_ESSENTIAL: Final = ("role", "prompt", "run", "on", "cases")
"""Without these an action says nothing that could be judged."""
_UNFITTING: Final = {
    "retry": ("command", "decision", "approval"),
    "timeout_s": ("decision", "approval"),
    "expect": ("generate", "decision", "approval"),
}
"""Fields that stand at every step and mean nothing for these kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    package: Package | None
    """None when not even the outline could be understood."""
    partial: frozenset[int]
    """Steps that are stand-ins."""
    findings: tuple[Finding, ...]
    not_built: int
    """How many of the findings say that something is not built yet."""


def read_package(document: Document) -> Reading:
    """What ``document`` says, and everything that is wrong with its shape, each at ``file:line``."""
    if not isinstance(document.value, dict):
        found = Finding(
            place=document.place(()), problem="a package is a map of keys", fix="begin with name: and steps:"
        )
        return Reading(package=None, partial=frozenset(), findings=(found,), not_built=0)
    return _Reader(document).read()


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.value = copy.deepcopy(document.value)
        self.partial: set[int] = set()
        self.findings: list[Finding] = []

    def read(self) -> Reading:
        for number, step in enumerate(self._steps()):
            self._set_aside(number, step)
        not_built = len(self.findings)
        for number, step in enumerate(self._steps()):
            self._unfitting(number, step)
            self._scopes(number, step)
        package = None
        for _ in range(ROUNDS_MAX):
            try:
                package = Package.model_validate_json(json.dumps(self.value))
                break
            except ValidationError as error:
                problems = [e for e in error.errors(include_url=False) if not self._is_echo(e)]
                self._report(problems)
                if not all(self._mend(e) for e in problems):
                    break
        return Reading(
            package=package,
            partial=frozenset(self.partial),
            findings=tuple(dict.fromkeys(self.findings)),
            not_built=not_built,
        )

    def _steps(self) -> list[Any]:
        steps = self.value.get("steps")
        return steps if isinstance(steps, list) else []

    def _find(self, path: Path, problem: str, fix: str) -> None:
        self.findings.append(Finding(place=self.document.place(path), problem=problem, fix=fix))

    # --- what the full language has and this Runner has not -----------------------------------------------------------

    def _set_aside(self, number: int, step: Any) -> None:
        if not isinstance(step, dict):
            return
        for kind in [k for k in KINDS_NOT_BUILT if k in step]:
            built = ", ".join(KINDS)
            self._find(("steps", number, kind), f"step kind {kind!r} is not built yet", f"this Runner has {built}")
            del step[kind]
            if not any(k in step for k in (*KINDS, *KINDS_NOT_BUILT)):
                self._stand_in(number)
        for name in [f for f in FIELDS_NOT_BUILT if f in step]:
            self._find(("steps", number, name), f"{name!r} is not built yet", "remove it")
            del step[name]

    def _unfitting(self, number: int, step: Any) -> None:
        """Keys that are known, but not at this place or not for this kind."""
        if not isinstance(step, dict):
            return
        kind = next((k for k in KINDS if k in step), None)
        for name in [n for n in ("scope", "effect") if n in step]:
            home = kind if kind in (("agent", "command") if name == "scope" else ("command",)) else None
            fix = f"move it into '{home}: {{...}}'" if home else "remove it: this kind has none"
            self._find(("steps", number, name), f"{name!r} does not stand at the step", fix)
            action = step.get(home or "")
            if isinstance(action, dict):
                action.setdefault(name, step[name])
            del step[name]
        for name, kinds in _UNFITTING.items():
            if name in step and kind in kinds:
                fix = "write 'expires_s' into it" if (kind, name) == ("approval", "timeout_s") else "remove it"
                self._find(("steps", number, name), f"a step of kind {kind!r} has no {name!r}", fix)
                del step[name]
        inner = step.get("command")
        if isinstance(inner, dict) and isinstance(inner.get("run"), str) and inner.get("shell") is not True:
            problem = "'run' is one string, but shell is not true"
            self._find(("steps", number, "command", "run"), problem, 'write a list of words, or add "shell: true"')
        if "timeout_s" in step and isinstance(inner, dict) and "timeout_s" in inner:
            self._find(("steps", number, "timeout_s"), "'timeout_s' stands at the step and in its command", "keep one")
            del step["timeout_s"]

    def _scopes(self, number: int, step: Any) -> None:
        """Each pattern of a write scope that is none, at its own line."""
        for kind in ("agent", "command"):
            action = step.get(kind) if isinstance(step, dict) else None
            listed = action.get("scope") if isinstance(action, dict) else None
            if (
                not isinstance(action, dict)
                or not isinstance(listed, list)
                or not all(isinstance(p, str) for p in listed)
            ):
                continue
            mistakes = dict(scope_mistakes(listed))
            for place, (problem, fix) in mistakes.items():
                path = ("steps", number, kind, "scope", place)
                self._find(path, f"steps.{number}.{kind}.scope: {listed[place]!r} {problem}", fix)
            if mistakes:
                action["scope"] = [p for n, p in enumerate(listed) if n not in mistakes] or "everything"

    # --- what the models refuse ---------------------------------------------------------------------------------------

    def _is_echo(self, error: Any) -> bool:
        """A list is called too short when its parts are wrong; then only those are reported."""
        return error["type"] == "too_short" and error["loc"] == ("steps",) and bool(self._steps())

    def _report(self, problems: list[Any]) -> None:
        for error in problems:
            path = self.document.nearest((), [str(part) for part in error["loc"]])
            name = ".".join(str(part) for part in error["loc"] if part != "[key]")
            match error["type"]:
                case "extra_forbidden":
                    self._find(
                        path,
                        f"{error['loc'][-1]!r} is not a known key of {_owner(error['loc'])}",
                        "correct or remove it",
                    )
                case "missing":
                    self._find(
                        path, f"{error['loc'][-1]!r} is missing in {_owner(error['loc'])}", _how(error["loc"][-1])
                    )
                case "value_error":
                    message = str(error["msg"]).removeprefix("Value error, ")
                    self._find(path, f"{name}: {message}" if error["loc"] else message, "")
                case _:
                    self._find(path, f"{name}: {error['msg']}", how_to_mend(error))

    def _mend(self, error: Any) -> bool:
        """Takes the cause of ``error`` out of the working copy; False when nothing sensible would be left."""
        location = error["loc"]
        match location:
            case (*parents, last) if error["type"] == "extra_forbidden":
                self._remove(parents, last)
            case ("steps", int() as number, *inside):
                self._mend_step(number, inside)
            case ("name",):
                self.value["name"] = "unnamed"
            case ("roles" | "input" as section, str() as name, *_):
                self.value[section][name] = {}
            case ("tools", str() as name, *_):
                self.value["tools"][name] = {"server": "unreadable"}
            case ("steps", *_) | ():
                return False
            case (section, *_):
                self.value.pop(section, None)
        return True

    def _mend_step(self, number: int, inside: list[Any]) -> None:
        """A wrong field is replaced by something harmless, so that the rest of the step can still be judged."""
        if number in self.partial:
            return
        step = self._steps()[number]
        match inside:
            case ["id"] if isinstance(step, dict):
                step["id"] = f"unreadable_{number}"
            case ["budget", *_]:
                step["budget"] = {"visits": 1}
            case ["when" | "retry" | "timeout_s" | "expect" as name, *_]:
                step.pop(name, None)
            case [str() as kind, "scope", *_] if kind in KINDS:
                step[kind]["scope"] = "everything"
            case [str() as kind, str() as name, *_] if kind in KINDS and name not in _ESSENTIAL:
                step[kind].pop(name, None)
            case _:
                self._stand_in(number)

    def _remove(self, parents: list[Any], last: Any) -> None:
        """Drops a key, if its step was not replaced meanwhile."""
        node: Any = self.value
        for part in parents:
            try:
                node = node[part]
            except (KeyError, IndexError, TypeError):
                return
        if isinstance(node, dict):
            node.pop(last, None)

    def _stand_in(self, number: int) -> None:
        """The step as far as others see it, with an action that says nothing."""
        step = self._steps()[number]
        known: dict[str, Any] = step if isinstance(step, dict) else {}
        name, needs, routes = known.get("id"), known.get("needs"), known.get("routes")
        self.partial.add(number)
        self._steps()[number] = {
            "id": name if _is_id(name) else f"unreadable_{number}",
            "needs": [n for n in needs if _is_id(n)] if isinstance(needs, list) else [],
            "routes": {k: v for k, v in routes.items() if k and _is_id(v)} if isinstance(routes, dict) else {},
            **({"budget": {"visits": 1}} if "budget" in known else {}),
            "command": {"run": ["true"], "scope": "read-only"},
        }


def _is_id(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(ids.SITE_ID_PATTERN, value) is not None


def _owner(location: tuple[Any, ...]) -> str:
    names = [str(part) for part in location[:-1] if not isinstance(part, int)]
    if not names:
        return "a package"
    return "a step" if names == ["steps"] else f"'{names[-1]}'"


def _how(key: Any) -> str:
    match key:
        case "scope":
            return 'say what it may write: read-only, everything, or patterns such as ["src/**"]'
        case "steps":
            return "a package needs at least one step"
        case _:
            return "add it"
