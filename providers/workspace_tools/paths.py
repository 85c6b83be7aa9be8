"""Paths and patterns as a model writes them. Pure; everything here may be hostile."""

from providers.workspace_tools.bounds import NAME_BYTES_MAX, PATH_BYTES_MAX
from runner.contract.scope import is_git_path, pattern_problem
from runner.contract.text import excerpt


class Refused(Exception):
    """A tool failure: the text is for the model."""


def parts_of(path: str) -> tuple[str, ...]:
    """The components of a worktree-relative path, empty for the worktree itself; ``Refused`` for anything else."""
    shown = excerpt(path, 200)
    if "\x00" in path:
        raise Refused(f"{shown}: a path cannot hold a NUL character")
    if path.startswith("/"):
        raise Refused(f"{shown}: paths are relative to the worktree; leave out the leading '/'")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Refused(f"{shown}: '..' is not allowed; name the path from the worktree's root")
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        raise Refused(f"{shown}: is not valid text") from None
    if any(size > NAME_BYTES_MAX for size in sizes) or sum(sizes) + len(sizes) > PATH_BYTES_MAX:
        raise Refused(f"{shown}: is too long for a path")
    if is_git_path("/".join(parts)):
        raise Refused(f"{shown}: .git is out of bounds")
    return parts


class Glob:
    """A pattern over worktree-relative paths: ``*`` and ``?`` inside a component, ``**`` for any number of components.
    Matching costs at most pattern times path, whatever the pattern."""

    def __init__(self, pattern: str) -> None:
        """``Refused`` for what is no pattern."""
        problem = "is too long" if len(pattern) > PATH_BYTES_MAX else pattern_problem(pattern)
        if problem:
            raise Refused(f"glob {excerpt(pattern, 200)}: {problem}")
        self._parts = tuple(pattern.split("/"))

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether the whole path fits."""
        reached = {0}
        for part in parts:
            reached = {following for at in self._spread(reached) for following in self._step(at, part)}
            if not reached:
                return False
        return len(self._parts) in self._spread(reached)

    def _spread(self, reached: set[int]) -> set[int]:
        """Positions after letting ``**`` stand for nothing; not the last one, which needs a component."""
        spread = set(reached)
        for at in sorted(reached):
            following = at
            while following < len(self._parts) - 1 and self._parts[following] == "**":
                following += 1
                spread.add(following)
        return spread

    def _step(self, at: int, part: str) -> tuple[int, ...]:
        if at == len(self._parts):
            return ()
        if self._parts[at] == "**":
            return (at, at + 1) if at == len(self._parts) - 1 else (at,)
        return (at + 1,) if fits(self._parts[at], part) else ()


def fits(pattern: str, name: str) -> bool:
    """Whether one component fits one part of a pattern. Goes back only to the last ``*``."""
    at_pattern = at_name = 0
    star, resume = -1, 0
    while at_name < len(name):
        if at_pattern < len(pattern) and pattern[at_pattern] == "*":
            star, resume = at_pattern, at_name
            at_pattern += 1
        elif at_pattern < len(pattern) and pattern[at_pattern] in ("?", name[at_name]):
            at_pattern += 1
            at_name += 1
        elif star >= 0:
            resume += 1
            at_pattern, at_name = star + 1, resume
        else:
            return False
    return all(c == "*" for c in pattern[at_pattern:])
