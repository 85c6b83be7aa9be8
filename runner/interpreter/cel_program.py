"""One CEL expression: parsed and bounded once, evaluated many times, with the same answer everywhere.

Two things the library leaves open are closed here. A comprehension over a map visits keys in the order of a randomly seeded
hash table, and ``map``/``filter`` copy their result for every element (1,000 x 1,000 took a minute). So each comprehension's
receiver is wrapped in a function of ours: it sorts the keys of maps and counts the work against a budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import cel

from runner.contract import limits
from runner.contract.canonical import FrozenJson, freeze, thaw
from runner.interpreter.tokens import Path, Receiver, ScanError, scan

ROOTS: Final = ("input", "steps", "delivery")
STEP_FIELDS: Final = ("output", "outcome", "visit")
FUNCTIONS: Final = frozenset(
    {"size", "contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "string", "bytes", "dyn", "type"}
    | {"timestamp", "duration", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
)
"""What an expression may call besides operators and comprehensions: the core of CEL, all of it without clock or chance."""
WORK_MAX: Final = 8_000_000
"""Element copies one evaluation may cost: about half a second where it was measured; one ``map`` over 4,000 elements."""
_TOO_MUCH: Final = "its comprehensions run over too many elements"

_EACH: Final = {True: "runner_build_", False: "runner_test_"}


class TemplateError(ValueError):
    """A text is not a valid template: ``expression`` is the part at fault, ``reason`` says why, ``fix`` what to do."""

    def __init__(self, expression: str, reason: str, fix: str = "") -> None:
        super().__init__(f"{expression.strip()[:200]!r}: {reason}")
        self.expression = expression
        self.reason = reason
        self.fix = fix


class ExpressionError(ValueError):
    """An expression has no value here: a missing name, a wrong type, a result that is not JSON, too much work."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"{{{{ {expression.strip()[:200]} }}}}: {reason}")
        self.expression = expression
        self.reason = reason


class Reference(NamedTuple):
    """What an expression reads: a root; for ``steps`` also which step and which of its fields (None: the step itself); for
    ``input`` which of them (None: all)."""

    root: str
    step: str | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. Equal texts are equal expressions; immutable and safe to share."""

    text: str
    references: frozenset[Reference] = field(compare=False)
    _paths: frozenset[Path] = field(compare=False, repr=False)
    _program: Any = field(compare=False, repr=False)

    @staticmethod
    def parse(text: str) -> "Expression":
        """``text`` (what stands between ``{{`` and ``}}``) compiled, or ``TemplateError``. Results are cached."""
        return _parse(text)

    def evaluate(self, roots: Mapping[str, FrozenJson]) -> FrozenJson:
        """The value over ``roots``, frozen; ``ExpressionError`` otherwise. Only what is read is converted."""
        work = _Work()
        context = cel.Context(_selected(roots, self._paths))
        context.add_function(_EACH[True], work.build)
        context.add_function(_EACH[False], work.test)
        try:
            value = self._program.execute(context)
        except BaseException as error:
            raise ExpressionError(self.text, _TOO_MUCH if work.spent > WORK_MAX else _why(error)) from None
        if work.spent > WORK_MAX:
            raise ExpressionError(self.text, _TOO_MUCH)
        try:
            return freeze(value, "result")
        except ValueError as error:
            raise ExpressionError(self.text, f"{error} (only JSON values can leave an expression)") from None


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression:
    if len(text) > limits.EXPRESSION_CHARS_MAX:
        raise TemplateError(text, f"is longer than {limits.EXPRESSION_CHARS_MAX} characters", "split it over steps")
    if not text.strip():
        raise TemplateError(text, "is empty", "write an expression between '{{' and '}}'")
    try:
        found = scan(text)
    except ScanError as error:
        raise TemplateError(text, str(error), _LITERAL_BRACES) from None
    if found.nesting > limits.EXPRESSION_MACROS_MAX:
        raise TemplateError(
            text, f"nests more than {limits.EXPRESSION_MACROS_MAX} comprehensions", "split it over steps"
        )
    plain = _compile(text, text)
    known = frozenset(plain.variables())
    if not frozenset(path.parts[0] for path in found.paths) <= known <= found.names:
        raise TemplateError(text, "its names cannot be told apart from its syntax", "write it more plainly")
    unknown = sorted(f for f in plain.functions() if f.isidentifier() and f not in FUNCTIONS)
    if unknown:
        raise TemplateError(
            text, f"calls {unknown[0]}(), which is not part of this language", "see docs/package-language.md"
        )
    references = frozenset(_reference(text, path.parts) for path in found.paths)
    return Expression(text, references, found.paths, _compile(text, _guarded(text, found.receivers)))


_LITERAL_BRACES: Final = "for literal braces write {{ '{{' }}"


def _compile(text: str, source: str) -> Any:
    try:
        return cel.compile(source)
    except BaseException as error:
        raise TemplateError(text, _why(error), _LITERAL_BRACES) from None


def _reference(text: str, parts: tuple[str, ...]) -> Reference:
    root, members = parts[0], parts[1:]
    if root not in ROOTS:
        raise TemplateError(text, f"{root!r} is not known here", f"begin with {', '.join(ROOTS)}; {_LITERAL_BRACES}")
    if root == "delivery" and members[:1] != ("id",):
        raise TemplateError(text, "'delivery' has only 'id'", "write delivery.id")
    if root != "steps":
        return Reference(root, None, members[0] if members else None)
    if not members:
        raise TemplateError(text, "'steps' can only be used as steps.<id>", "name the step: steps.plan.output")
    if len(members) > 1 and members[1] not in STEP_FIELDS:
        raise TemplateError(text, f"a step has no {members[1]!r}", f"it has {', '.join(STEP_FIELDS)}")
    return Reference(root, members[0], members[1] if len(members) > 1 else None)


def _guarded(text: str, receivers: tuple[Receiver, ...]) -> str:
    """``text`` with every comprehension's receiver wrapped. Of two that begin together, the later one is the outer."""
    marks: list[tuple[int, int, str]] = []
    for number, receiver in enumerate(receivers):
        marks.append((receiver.start, -number, _EACH[receiver.builds] + "("))
        marks.append((receiver.end, number, ")"))
    out, last = [], 0
    for position, _, piece in sorted(marks):
        out += [text[last:position], piece]
        last = position
    return "".join([*out, text[last:]])


@dataclass(slots=True)
class _Work:
    """Counts what comprehensions cost. It cannot raise (the library prints what a function raises), so when the budget is
    spent it answers with nothing and ``evaluate`` refuses the whole result."""

    spent: int = 0

    def build(self, receiver: Any) -> Any:
        return self._over(receiver, squared=True)

    def test(self, receiver: Any) -> Any:
        return self._over(receiver, squared=False)

    def _over(self, receiver: Any, *, squared: bool) -> Any:
        if not isinstance(receiver, list | dict):
            return receiver
        size = len(receiver)
        self.spent += size * size // 2 + size if squared else size
        if self.spent > WORK_MAX:
            return []
        return sorted(receiver, key=lambda k: (type(k).__name__, k)) if isinstance(receiver, dict) else receiver


# --- what is handed to the library -----------------------------------------------------------------------------------

_WHOLE: Final = "whole"
_PRESENT: Final = "present"


def _selected(roots: Mapping[str, FrozenJson], paths: frozenset[Path]) -> dict[str, Any]:
    """A plain copy of the parts of ``roots`` that are read: a large output costs nothing where nobody looks at it."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for part in path.parts[:-1]:
            node = node.setdefault(part, {})
        leaf = node.setdefault(path.parts[-1], {})
        leaf[_PRESENT if path.presence else _WHOLE] = True
    return {name: _copied(roots[name], part) for name, part in tree.items() if name in roots}


def _copied(value: FrozenJson, tree: dict[str, Any]) -> Any:
    if tree.get(_WHOLE) is True or not isinstance(value, Mapping):
        return thaw(value)
    return {k: _copied(value[k], part) for k, part in tree.items() if part is not True and k in value}


def _why(error: BaseException) -> str:
    """The library's error in one line. Its panics are not ``Exception``s; real interrupts travel on."""
    match error:
        case KeyError():
            return f"{str(error.args[0])[:200]!r} is missing"
        case ZeroDivisionError():
            return "division by zero"
        case Exception():
            return _first_line(str(error))
        case _ if type(error).__module__ == "pyo3_runtime":
            return "the expression is beyond what the library can take"
        case _:
            raise error


def _first_line(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip()]
    line = lines[0] if lines else "it cannot be evaluated"
    _, marker, rest = line.rpartition("ERROR: <input>:")
    if marker:
        line = "column " + rest.partition(":")[2].partition(", expecting {")[0].partition(" expecting {")[0]
    return line.split(". ")[0].rstrip(".")[:300]
