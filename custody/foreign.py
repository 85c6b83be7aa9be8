"""Whose edit is it? What can be told apart, and how two people's work in one worktree is taken apart. Pure.

Between attempts nothing of the Delivery writes: every difference from the last savepoint is somebody else's.

An attempt that a crash interrupted has written, too. An agent's tools refuse every path outside its scope, so a path outside
that is not what the attempt's newest savepoint holds is somebody else's. Inside the scope nobody can tell: what is there is
kept on the private chain and put back. Neither can anybody tell for a command, because its process may have written anywhere:
everything goes back to where the attempt began, and the verdict on its second run is about what that run does.

Somebody else's part of an interrupted attempt is kept as a savepoint of its own: the attempt's opening savepoint with that
part laid over it. Adopted, it is what the attempt is judged against from then on; so adopted edits are never blamed on the
agent, and a failed attempt goes back to them and not behind them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from custody.paths import parents, scope_text
from custody.restore import unequal
from custody.scope import Change, outside
from custody.state import State, directories_of
from runner.contract.activation import Action, AgentAction
from runner.contract.scope import Scope


def confined(action: Action, scope: Scope) -> Scope | None:
    """The scope outside of which an interrupted attempt has surely not written; None when there is nothing like that."""
    return scope if isinstance(action, AgentAction) and scope.kind != "everything" else None


def somebody_elses(expected: State, found: State, scope: Scope | None) -> tuple[Change, ...]:
    """The changes that the Delivery did not make: all of them, or those outside ``scope``."""
    changes = unequal(expected, found)
    return changes if scope is None else outside(changes, scope)


def spliced(inside: State, around: State, scope: Scope) -> State:
    """``inside`` at the paths that ``scope`` allows, ``around`` everywhere else. Where both cannot be (one has a file where
    the other has a directory) ``around`` wins. Surroundings are those of ``inside``."""

    def taken(path: bytes) -> bool:
        return scope.allows(scope_text(path))

    def merged(own: Mapping[bytes, Any], other: Mapping[bytes, Any]) -> dict[bytes, Any]:
        return {**{p: v for p, v in other.items() if not taken(p)}, **{p: v for p, v in own.items() if taken(p)}}

    files, specials = merged(inside.files, around.files), merged(inside.specials, around.specials)
    occupied = directories_of(path for path in (*files, *specials) if not taken(path))
    blocked = {path for path in (*files, *specials) if not taken(path)}
    for kind in (files, specials):
        for path in [p for p in kind if taken(p) and (p in occupied or blocked.intersection(parents(p)))]:
            del kind[path]
    needed = directories_of((*files, *specials))
    dirs = {
        path: perm
        for path, perm in {**inside.dirs, **around.dirs, **merged(inside.dirs, around.dirs)}.items()
        if path in needed or (path in (inside.dirs if taken(path) else around.dirs) and path not in files)
    }
    holding = needed | directories_of(dirs)
    index = {
        **{key: entry for key, entry in around.index.items() if not taken(key[0])},
        **{key: entry for key, entry in inside.index.items() if taken(key[0])},
    }
    return replace(
        inside,
        files=files,
        dirs=dirs,
        empty=frozenset(d for d in (inside.empty | around.empty) & dirs.keys() if d not in holding),
        specials=specials,
        index=index,
        not_captured=merged(inside.not_captured, around.not_captured),
    )
