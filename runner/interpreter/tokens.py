"""What names does one CEL expression use? A token scan of our own, because the library's list of variables mixes roots with
names that comprehensions bind, and tells nothing about members.

The scan is deliberately smaller than CEL: what it does not understand (messages, leading dots, unknown characters) it
refuses. ``expressions`` compares its list of names with the library's, so a disagreement is refused too.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

BUILDING_MACROS: Final = frozenset({"map", "filter"})
"""Their result is a list; the library copies it for every element, so they cost the square of their length."""
TESTING_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
MACROS: Final = BUILDING_MACROS | TESTING_MACROS
_WORDS: Final = frozenset({"true", "false", "null", "in"})

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<string>
        (?:[rR][bB]?|[bB][rR]) (?: \"{3}[\s\S]*?\"{3} | '{3}[\s\S]*?'{3} | "[^"\r\n]*" | '[^'\r\n]*' )
      | [bB]? (?: \"{3}(?:\\[\s\S]|[^\\])*?\"{3} | '{3}(?:\\[\s\S]|[^\\])*?'{3}
                | "(?:\\[^\r\n]|[^"\\\r\n])*" | '(?:\\[^\r\n]|[^'\\\r\n])*' ) )
    | (?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_CLOSERS: Final = {")": "(", "]": "[", "}": "{"}


class ScanError(ValueError):
    """The text is not an expression of this language; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    kind: str
    """``string``, ``number``, ``name`` or ``mark``."""
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A root and the members read from it as far as they are plain names: ``steps.plan.output`` is three parts."""

    parts: tuple[str, ...]
    presence: bool = False
    """Only asked for: the whole argument of ``has(...)``, whose last member's value is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The text ``start:end`` that a comprehension runs over."""

    start: int
    end: int
    builds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    paths: frozenset[Path]
    names: frozenset[str]
    """Every variable name, roots and bound ones, as the library lists them."""
    nesting: int
    """How deep comprehensions stand inside each other."""
    receivers: tuple[Receiver, ...]


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """The tokens from ``start`` on, without space and comments; ``ScanError`` at the first character that begins none."""
    position = start
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ScanError(f"{text[position]!r} has no meaning here")
        position = match.end()
        if match.lastgroup and match.lastgroup != "space":
            yield Token(kind=match.lastgroup, text=match[0], start=match.start(), end=position)


def closing(text: str, start: int) -> int:
    """Where the ``}}`` stands that ends the expression begun at ``start``: strings and inner braces do not end it."""
    depth = 0
    for token in tokens(text, start):
        if token.text == "{":
            depth += 1
        elif token.text == "}":
            if depth == 0 and text.startswith("}}", token.start):
                return token.start
            depth -= 1
    raise ScanError("'{{' is never closed by '}}'")


@dataclass(slots=True)
class _Level:
    """One open bracket."""

    opener: str
    bound: str | None = None
    macro: bool = False
    primary: int = 0
    """Where the value being read at this level began; what stands before a ``.`` is the text from there."""


@dataclass(slots=True)
class _Scanner:
    items: list[Token]
    levels: list[_Level] = field(default_factory=lambda: [_Level("")])
    bound: Counter[str] = field(default_factory=Counter)
    paths: set[Path] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    receivers: list[Receiver] = field(default_factory=list)
    nesting: int = 0

    def at(self, index: int) -> str:
        return self.items[index].text if 0 <= index < len(self.items) else ""

    def is_name(self, index: int) -> bool:
        return 0 <= index < len(self.items) and self.items[index].kind == "name" and self.at(index) not in _WORDS

    def ends_value(self, index: int) -> bool:
        """Whether the token before may be followed by ``.``, ``(`` or ``[`` as a part of the same value."""
        if index < 0:
            return False
        token = self.items[index]
        return token.text in (")", "]", "}") or (token.kind != "mark" and token.text != "in")

    def run(self) -> None:
        for index, token in enumerate(self.items):
            if token.kind == "mark":
                self.mark(index, token)
            elif self.at(index - 1) != ".":
                self.levels[-1].primary = token.start
                if self.is_name(index):
                    self.variable(index, token)
        if len(self.levels) > 1:
            raise ScanError(f"'{self.levels[-1].opener}' is never closed")

    def mark(self, index: int, token: Token) -> None:
        if token.text == "." and not self.ends_value(index - 1):
            raise ScanError("a name cannot begin with '.'")
        if token.text in "([{":
            self.open(index, token)
        elif token.text in _CLOSERS:
            level = self.levels.pop()
            if level.opener != _CLOSERS[token.text]:
                raise ScanError(f"'{token.text}' closes nothing")
            if level.bound is not None:
                self.bound[level.bound] -= 1

    def open(self, index: int, token: Token) -> None:
        if not self.ends_value(index - 1):
            self.levels[-1].primary = token.start
        elif token.text == "{":
            raise ScanError("messages like 'Name{...}' are not part of this language")
        level = _Level(token.text, primary=token.end)
        if token.text == "(" and self.at(index - 1) in MACROS and self.at(index - 2) == ".":
            level.macro = True
            self.nesting = max(self.nesting, 1 + sum(outer.macro for outer in self.levels))
            end = self.items[index - 2].start
            builds = self.at(index - 1) in BUILDING_MACROS
            self.receivers.append(Receiver(start=self.levels[-1].primary, end=end, builds=builds))
            if self.is_name(index + 1) and self.at(index + 2) == ",":
                level.bound = self.at(index + 1)
                self.bound[level.bound] += 1
        self.levels.append(level)

    def variable(self, index: int, token: Token) -> None:
        if self.at(index + 1) == "(":
            return
        self.names.add(token.text)
        if self.bound[token.text] > 0:
            return
        presence = self.at(index - 1) == "(" and self.at(index - 2) == "has" and self.at(index - 3) != "."
        parts = [token.text]
        while self.at(index + 1) == "." and self.is_name(index + 2) and self.at(index + 3) != "(":
            parts.append(self.at(index + 2))
            index += 2
        whole = self.at(index + 1) == ")" and len(parts) > 1
        self.paths.add(Path(parts=tuple(parts), presence=presence and whole))


def scan(text: str) -> Scan:
    """The names, members and comprehensions in one expression; ``ScanError`` for what is not understood."""
    scanner = _Scanner(list(tokens(text)))
    scanner.run()
    return Scan(
        paths=frozenset(scanner.paths),
        names=frozenset(scanner.names),
        nesting=scanner.nesting,
        receivers=tuple(scanner.receivers),
    )
