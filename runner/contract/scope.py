"""What a step may write: ``read-only``, anchored path patterns, or ``everything`` (which never includes ``.git``).

Patterns are relative to the worktree, use ``/``, and match whole paths: ``*`` and ``?`` stay inside one component, ``**``
as a whole component spans any number of them. No negation, no character classes, no escapes: a pattern means one thing.
"""

import re
from functools import lru_cache
from typing import Final, Literal

from pydantic import model_validator

from runner.contract.model import Frozen

SCOPE_PATTERNS_MAX: Final = 256
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
        for pattern in self.patterns:
            problem = pattern_problem(pattern)
            if problem:
                raise ValueError(f"{pattern!r}: {problem}")
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


READ_ONLY: Final = Scope(kind="read-only")
EVERYTHING: Final = Scope(kind="everything")


def is_git_path(path: str) -> bool:
    """Whether any component is ``.git`` as any file system may fold it: case, trailing dots and spaces, ``git~1``, a
    stream name after ``:``, characters that HFS+ ignores (git's own core.protectNTFS and core.protectHFS)."""
    return any(
        part.translate(_HFS_IGNORES).partition(":")[0].rstrip(". ").lower() in (".git", "git~1")
        for part in path.split("/")
    )


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with one pattern, or None."""
    if not pattern:
        return "is empty"
    if "\x00" in pattern:
        return "holds a NUL byte"
    if pattern.startswith("/"):
        return "must be relative to the worktree: no leading '/'"
    if pattern.startswith("!"):
        return "negation is not part of the language"
    if pattern.startswith(":"):
        return "pathspec magic is not part of the language"
    if any(c in pattern for c in "[]{}\\"):
        return "only '*', '?' and '**' are special; '[', ']', '{', '}' and '\\' are refused"
    parts = pattern.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty, '.' or '..' component"
    if any("**" in part and part != "**" for part in parts):
        return "'**' must be a whole component"
    if is_git_path(pattern):
        return "can never include .git"
    return None


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
