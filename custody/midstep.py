"""Mid-step savepoints: what is at a few known paths, laid over the savepoint that the attempt began with. Pure.

A mark looks at the paths that a tool call named and at the directories above them, and at nothing else, so it costs what they
cost. Its commit has the true tree of files (the trees along the paths are rewritten, the others are shared) and carries the
manifest of the savepoint it began from, unchanged, beside an ``overlay``: every path that any mark of the attempt found to be
other than there. Its index entries and surroundings are those of the beginning; the verdict at the attempt's end scans all.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from custody.paths import decode, encode, show
from custody.state import At, Directory, File, Kept, Special, State, Uncaptured
from runner.contract.canonical import canonical, parse, thaw

FORMAT: Final = "runner.overlay/1"
_ESCAPES: Final = re.compile(r"(?:%[0-9A-F]{2})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The newest savepoint of an open attempt: the one it goes on from, and what marks have found since."""

    start: Kept
    commit: str
    tree: str
    root: str
    touched: Mapping[bytes, At]

    @staticmethod
    def at_start(kept: Kept) -> "Mark":
        return Mark(start=kept, commit=kept.commit, tree=kept.tree, root=kept.root, touched=kept.touched)

    def at(self, path: bytes) -> At:
        """What it holds at ``path``."""
        return self.touched[path] if path in self.touched else at(self.start.state, path)

    def differing(self, now: State) -> Iterator[bytes]:
        """Every path at which ``now`` holds something else."""
        for path in sorted({*_paths(self.start.state), *self.touched, *_paths(now)}):
            if self.at(path) != at(now, path):
                yield path

    def below(self, directory: bytes) -> Iterator[bytes]:
        """Every path it holds something at below ``directory``. Costs the whole tree; asked only for a directory that went."""
        prefix = directory + b"/"
        for path in {*_paths(self.start.state), *self.touched}:
            if path.startswith(prefix) and self.at(path) is not None:
                yield path


def _paths(state: State) -> Iterator[bytes]:
    return chain(state.files, state.dirs, state.specials, state.not_captured)


def at(state: State, path: bytes) -> At:
    """What ``state`` holds at ``path``."""
    file = state.files.get(path)
    if file is not None:
        return file
    if path in state.dirs:
        return Directory(state.dirs[path], path in state.empty)
    if path in state.specials:
        return Special(state.specials[path])
    return Uncaptured(state.not_captured[path]) if path in state.not_captured else None


def overlaid(state: State, touched: Mapping[bytes, At]) -> State:
    """``state`` with other things at the paths of ``touched``."""
    if not touched:
        return state
    files, dirs, specials = dict(state.files), dict(state.dirs), dict(state.specials)
    empty, uncaptured = set(state.empty), dict(state.not_captured)
    for path, found in touched.items():
        for kind in (files, dirs, specials, uncaptured):
            kind.pop(path, None)
        empty.discard(path)
        match found:
            case File():
                files[path] = found
            case Directory(perm=perm, empty=is_empty):
                dirs[path] = perm
                empty |= {path} if is_empty else set()
            case Special(kind=name):
                specials[path] = name
            case Uncaptured(why=why):
                uncaptured[path] = why
    return replace(state, files=files, dirs=dirs, specials=specials, empty=frozenset(empty), not_captured=uncaptured)


def overlay(touched: Mapping[bytes, At]) -> bytes:
    """Canonical JSON. A file's mode and blob are in the tree."""
    found: dict[str, Any] = {}
    for path, what in touched.items():
        match what:
            case File(perm=perm):
                found[encode(path)] = {"file": perm}
            case Directory(perm=perm, empty=empty):
                found[encode(path)] = {"directory": perm, "empty": empty}
            case Special(kind=kind):
                found[encode(path)] = {"special": kind}
            case Uncaptured(why=why):
                found[encode(path)] = {"uncaptured": why}
            case None:
                found[encode(path)] = None
    return canonical({"format": FORMAT, "at": found})


def read_overlay(data: bytes, files: Mapping[bytes, tuple[int, str]]) -> dict[bytes, At]:
    """The inverse of ``overlay``, given the tree's work files. ``ValueError`` or ``KeyError`` for anything else."""
    value: Any = thaw(parse(data))
    if value.get("format") != FORMAT:
        raise ValueError(f"not a {FORMAT} overlay")
    touched: dict[bytes, At] = {}
    for name, what in value["at"].items():
        path = decode(name)
        match what:
            case None:
                touched[path] = None
            case {"file": perm}:
                mode, oid = files[path]
                touched[path] = File(mode, oid, perm)
            case {"directory": perm, "empty": empty}:
                touched[path] = Directory(perm, empty)
            case {"special": kind}:
                touched[path] = Special(kind)
            case {"uncaptured": why}:
                touched[path] = Uncaptured(why)
            case _:
                raise ValueError(f"{name}: not an entry of an overlay")
    return touched


def meant(text: str) -> tuple[bytes, ...]:
    """Every path that custody shows as ``text``, or that is ``text``: ``%0A`` may stand for a line break or be three
    characters of the name. Looking at one too many is harmless: what is found there is true."""
    literal = text.encode("utf-8", "surrogateescape")
    decoded = _ESCAPES.sub(lambda run: _unescaped(run[0]), text).encode("utf-8", "surrogateescape")
    return (literal,) if decoded == literal else (literal, decoded)


def _unescaped(run: str) -> str:
    """A run of escapes with those undone that ``show`` makes: of bytes that are no UTF-8 and of unsafe characters."""
    characters = decode(run).decode("utf-8", "surrogateescape")
    raw = [c.encode("utf-8", "surrogateescape") for c in characters]
    return "".join(
        c if show(b) != c else "".join(f"%{byte:02X}" for byte in b) for c, b in zip(characters, raw, strict=True)
    )
