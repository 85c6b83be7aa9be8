"""What a step may write: ``read-only``, anchored path patterns, or ``everything`` (which never includes ``.git``).

Patterns are relative to the worktree, use ``/``, and match whole paths: ``*`` and ``?`` stay inside one component, ``**``
as a whole component spans any number of them. No negation, no character classes, no escapes: a pattern means one thing.
What means nothing (no path can match it, or another pattern of the list says it already) is refused.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from pydantic import model_validator

from runner.contract.model import Frozen

SCOPE_PATTERNS_MAX: Final = 256
NAME_BYTES_MAX: Final = 255
"""What file systems allow for one component."""
LITERAL_MAX: Final = 8
"""Paths that ``allowing`` names one by one; more are gathered by directory."""
_HFS_IGNORES: Final = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF], None
)
"""Code points that HFS+ leaves out when it compares names."""


class Scope(Frozen):
    """Frozen with the activation; its digest is part of every grant."""

    kind: Literal["read-only", "patterns", "everything"]
    patterns: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _meaningful(self) -> "Scope":
        if (self.kind == "patterns") != bool(self.patterns):
            raise ValueError("patterns stand exactly with kind 'patterns'")
        if len(self.patterns) > SCOPE_PATTERNS_MAX:
            raise ValueError(f"at most {SCOPE_PATTERNS_MAX} patterns")
        for number, mistake in scope_mistakes(self.patterns):
            raise ValueError(f"{self.patterns[number]!r}: {mistake.problem}")
        return self

    @property
    def writable(self) -> bool:
        """Whether anything at all may be written."""
        return self.kind != "read-only"

    def allows(self, path: str) -> bool:
        """Whether ``path`` (worktree-relative, ``/``-separated, as custody shows it) may be written. Never for a path
        that is absolute or has an empty, ``.`` or ``..`` component: it could name another file than it seems to."""
        if is_git_path(path) or any(part in ("", ".", "..") for part in path.split("/")):
            return False
        if self.kind == "patterns":
            return any(_compiled(p).fullmatch(path) for p in self.patterns)
        return self.kind == "everything"

    def __str__(self) -> str:
        return self.kind if self.kind != "patterns" else ", ".join(self.patterns)


def is_git_path(path: str) -> bool:
    """Whether any component is ``.git`` as any file system may fold it: case, trailing dots and spaces, ``git~1``, a
    stream name after ``:``, characters that HFS+ ignores (git's own core.protectNTFS and core.protectHFS)."""
    return any(
        part.translate(_HFS_IGNORES).partition(":")[0].rstrip(". ").lower() in (".git", "git~1")
        for part in path.split("/")
    )


class Mistake(NamedTuple):
    """What is wrong with a pattern, and what to write instead."""

    problem: str
    fix: str


def scope_mistakes(patterns: Sequence[str]) -> Iterator[tuple[int, Mistake]]:
    """Every pattern of a list that is not one or says nothing, by its place in the list."""
    for number, pattern in enumerate(patterns):
        mistake = pattern_mistake(pattern)
        if mistake is None and pattern in patterns[:number]:
            mistake = Mistake("stands twice", "remove it")
        if mistake is not None:
            yield number, mistake


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with one pattern, or None."""
    mistake = pattern_mistake(pattern)
    return mistake.problem if mistake else None


def pattern_mistake(pattern: str) -> Mistake | None:
    """Why ``pattern`` is not in the language, or None."""
    if not pattern:
        return Mistake("is empty", "remove it; for nothing at all write scope: read-only")
    if "\x00" in pattern:
        return Mistake("holds a NUL byte", "remove it: no name has one")
    if pattern.startswith("/"):
        return Mistake("must be relative to the worktree: no leading '/'", "begin at the worktree's root: src/**")
    if pattern.startswith("!"):
        return Mistake("negation is not part of the language", "list what may be written; nothing else may")
    if pattern.startswith(":"):
        return Mistake("pathspec magic is not part of the language", "write the path itself, such as src/**")
    if any(c in pattern for c in "[]{}\\"):
        return Mistake(
            "only '*', '?' and '**' are special; '[', ']', '{', '}' and '\\' are refused",
            "list each name, or write '?' for that one character",
        )
    return _component_mistake(pattern.split("/"))


def _component_mistake(parts: list[str]) -> Mistake | None:
    if any(part in ("", ".", "..") for part in parts):
        return Mistake("has an empty, '.' or '..' component", "write the plain path; all below a directory is dir/**")
    if any("**" in part and part != "**" for part in parts):
        return Mistake("'**' must be a whole component", "write dir/** for all below dir, name* inside one directory")
    if any(pair == ("**", "**") for pair in pairwise(parts)):
        return Mistake("'**' beside '**' says no more than one", "write one")
    if is_git_path("/".join(parts)):
        return Mistake("can never include .git", "remove it: what is git's own is no step's to write")
    if any(len(part.replace("*", "").encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX for part in parts):
        return Mistake(f"matches nothing: a name has at most {NAME_BYTES_MAX} bytes", "correct or remove it")
    return None


def allowing(paths: Iterable[str]) -> tuple[str, ...]:
    """Patterns that allow ``paths`` (as custody shows them for scopes): each by its name, or where there are many, all
    below the directories that hold them. Nothing for what no scope allows."""
    found = [path for path in dict.fromkeys(paths) if EVERYTHING.allows(path)]
    patterns = tuple(dict.fromkeys(_literal(path) for path in found))
    if len(patterns) > LITERAL_MAX:
        tops = (path.rpartition("/")[0] for path in found)
        patterns = tuple(dict.fromkeys(_literal(f"{top}/") + "**" if top else "*" for top in tops))
    if len(patterns) > LITERAL_MAX:
        patterns = tuple(
            dict.fromkeys(
                _literal(f"{top}/") + "**" if rest else "*" for top, _, rest in (p.partition("/") for p in found)
            )
        )
    return patterns if len(patterns) <= LITERAL_MAX else ("**",)


def _literal(path: str) -> str:
    """A pattern that allows ``path``, and others only where its name holds what no pattern can."""
    return re.sub(r"[*\[\]{}\\\x00]|^[!:]", "?", path)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = pattern.split("/")
    out = ""
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:[^/]+/)*"
            continue
        out += "".join("[^/]*" if c == "*" else "[^/]" if c == "?" else re.escape(c) for c in part)
        out += "" if last else "/"
    return re.compile(out, re.DOTALL)


READ_ONLY: Final = Scope(kind="read-only")
EVERYTHING: Final = Scope(kind="everything")
