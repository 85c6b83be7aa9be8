"""The verdict, pure: what differs between two states, and which of it a scope does not allow. No rename detection."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from custody.paths import scope_text, show
from custody.state import SYMLINK, File, State
from runner.contract.scope import Scope

CHANGED_MAX: Final = 200
"""Paths that a record or a message lists."""


@dataclass(frozen=True, slots=True)
class Change:
    """``kind``: created, modified, deleted, mode, type, special, staged, uncaptured; directories end in ``/``."""

    kind: str
    path: bytes
    directory: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {show(self.path)}" + ("/" if self.directory else "")


def difference(before: State, after: State) -> tuple[Change, ...]:
    """Every change in path order: files by raw bytes and all mode bits, empty directories, special files, index entries,
    and paths that could not be captured."""
    found = [*_files(before, after), *_directories(before, after), *_specials(before, after), *_index(before, after)]
    for path, why in after.not_captured.items():
        if before.not_captured.get(path) != why:
            found.append(Change("uncaptured", path))
    return tuple(sorted(found, key=lambda c: (c.path, c.kind)))


def _files(before: State, after: State) -> Iterator[Change]:
    for path, new in after.files.items():
        old = before.files.get(path)
        if old is None:
            yield Change("created", path)
        elif old != new:
            yield Change(_kind(old, new), path)
    for path in before.files.keys() - after.files.keys():
        yield Change("deleted", path)


def _kind(old: File, new: File) -> str:
    if (old.mode == SYMLINK) != (new.mode == SYMLINK):
        return "type"
    return "modified" if old.oid != new.oid else "mode"


def _directories(before: State, after: State) -> Iterator[Change]:
    for path in after.empty - before.dirs.keys():
        yield Change("created", path, directory=True)
    for path in before.empty - after.dirs.keys() - after.not_captured.keys():
        yield Change("deleted", path, directory=True)
    for path, perm in after.dirs.items():
        if before.dirs.get(path, perm) != perm:
            yield Change("mode", path, directory=True)


def _specials(before: State, after: State) -> Iterator[Change]:
    for path in before.specials.keys() | after.specials.keys():
        if before.specials.get(path) != after.specials.get(path):
            yield Change("special", path)


def _index(before: State, after: State) -> Iterator[Change]:
    if before.index is after.index:
        return
    for key in before.index.keys() | after.index.keys():
        if before.index.get(key) != after.index.get(key):
            yield Change("staged", key[0])


def outside(changes: tuple[Change, ...], scope: Scope) -> tuple[Change, ...]:
    """The changes that ``scope`` does not allow."""
    return tuple(change for change in changes if not scope.allows(scope_text(change.path)))


def named(changes: tuple[Change, ...]) -> tuple[str, ...]:
    """For a message: at most ``CHANGED_MAX``, each once, and how many more there are."""
    texts = tuple(dict.fromkeys(str(change) for change in changes))
    return texts if len(texts) <= CHANGED_MAX else (*texts[:CHANGED_MAX], f"... and {len(texts) - CHANGED_MAX} more")


def paths_of(changes: tuple[Change, ...]) -> tuple[str, ...]:
    """The changed paths, shown, each once."""
    return tuple(dict.fromkeys(show(change.path) for change in changes))


def environment_changes(before: State, after: State) -> tuple[str, ...]:
    """Hooks, config, attributes and excludes of the repository that are not what they were, by name."""
    old, new = before.surroundings.environment, after.surroundings.environment
    words = {(True, False): "removed", (False, True): "added"}
    return tuple(
        f"{name} {words.get((name in old, name in new), 'changed')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )
