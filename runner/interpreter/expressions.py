"""Templates: text with ``{{ CEL }}`` parts, and JSON values whose strings are templates.

A string that is exactly one expression keeps the type of its value. In any other string each part becomes text: strings as
they are, everything else as canonical JSON. A missing name is an error, never an empty string, and text that comes out of an
expression is never looked at again: data cannot become an expression.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from runner.contract.canonical import FrozenJson, canonical
from runner.interpreter.cel_program import Expression, ExpressionError, Reference, TemplateError
from runner.interpreter.tokens import ScanError, closing

__all__ = [
    "Expression",
    "ExpressionError",
    "Reference",
    "Template",
    "TemplateError",
    "evaluate_json",
    "strings",
    "text_of",
]


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: literal text and expressions in turn. Immutable; equal texts are equal templates."""

    text: str
    parts: tuple[str | Expression, ...]

    @staticmethod
    def parse(text: str) -> "Template":
        """``text`` compiled; ``TemplateError`` with the expression at fault and the reason. Results are cached."""
        return _parse(text)

    @property
    def references(self) -> frozenset[Reference]:
        """Everything that the expressions read."""
        return frozenset(r for part in self.parts if isinstance(part, Expression) for r in part.references)

    @property
    def is_single(self) -> bool:
        """Whether the text is exactly one expression, so that its value keeps its type."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Expression)

    def evaluate(self, roots: Mapping[str, FrozenJson]) -> FrozenJson:
        """The value over ``roots`` (see ARCHITECTURE.md), frozen JSON; ``ExpressionError`` when a part has none."""
        match self.parts:
            case (Expression() as only,):
                return only.evaluate(roots)
            case _:
                return "".join(p if isinstance(p, str) else text_of(p.evaluate(roots)) for p in self.parts)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Template:
    parts: list[str | Expression] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        try:
            end = closing(text, start + 2)
        except ScanError as error:
            shown = text[start : start + 80]
            raise TemplateError(shown, str(error), "close it, or for literal braces write {{ '{{' }}") from None
        if start > position:
            parts.append(text[position:start])
        parts.append(Expression.parse(text[start + 2 : end]))
        position = end + 2
    if position < len(text):
        parts.append(text[position:])
    return Template(text, tuple(parts))


def text_of(value: FrozenJson) -> str:
    """How a value stands inside other text: a string as it is, anything else as canonical JSON."""
    return value if isinstance(value, str) else canonical(value).decode()


def evaluate_json(value: FrozenJson, roots: Mapping[str, FrozenJson]) -> FrozenJson:
    """``value`` with every string in it evaluated as a template (keys stay as they are). ``ExpressionError`` or, for text
    that never was checked, ``TemplateError``."""
    match value:
        case str():
            return Template.parse(value).evaluate(roots)
        case tuple():
            return tuple(evaluate_json(item, roots) for item in value)
        case Mapping():
            return MappingProxyType({key: evaluate_json(item, roots) for key, item in value.items()})
        case _:
            return value


def strings(value: FrozenJson, place: str) -> Iterator[tuple[str, str]]:
    """Every string in ``value`` with its dotted place: what ``evaluate_json`` will take for templates."""
    match value:
        case str():
            yield place, value
        case tuple():
            for index, item in enumerate(value):
                yield from strings(item, f"{place}.{index}")
        case Mapping():
            for key, item in value.items():
                yield from strings(item, f"{place}.{key}")
        case _:
            return
