"""A savepoint as files in a directory of its own: byte for byte, with modes, links and empty directories. Private store only."""

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from custody.git import Git
from custody.paths import Root, show
from custody.repository import Repository
from custody.restore import TEMP_PREFIX, Restorer, plan_between
from custody.scope import difference
from custody.state import FIFO, Kept, State, Surroundings
from custody.store import Store
from runner.contract.activation import Activation
from runner.contract.errors import CallerError, Code
from runner.contract.kept import Restoration
from runner.contract.layout import DeliveryLayout

NOTHING = State(
    files={},
    dirs={},
    empty=frozenset(),
    specials={},
    index={},
    not_captured={},
    surroundings=Surroundings(head="", operations={}, environment={}),
)
"""An empty directory."""


def nothing(_: str) -> None:
    """The default seam: no effect is disturbed."""


def export(
    activation: Activation,
    layout: DeliveryLayout,
    savepoint: str,
    directory: Path,
    *,
    state_root: Path,
    before_effect: Callable[[str], None] = nothing,
) -> Restoration:
    """Writes ``savepoint`` to ``directory``, which is made or must be empty. ``CallerError`` for one that holds something, or
    lies in the worktree, its repository or the state root; ``SAVEPOINT_MISSING`` before anything is written. One that was cut
    short holds part of the files."""
    git = Git()
    store = Store(git, layout.store)
    frozen, kept = store.frozen(), store.load(savepoint)
    repository = Repository(
        worktree=Path(activation.workspace.worktree),
        git_dir=Path(frozen.git_dir),
        common_dir=Path(frozen.common_dir),
        object_format=frozen.object_format,
    )
    place = directory.resolve()
    _refuse(directory, place, (repository.worktree, repository.git_dir, repository.common_dir, state_root))
    plan = replace(plan_between(NOTHING, kept.state), index=())
    place.mkdir(parents=True, exist_ok=True)
    root = Root(place)
    try:
        restorer = Restorer(
            git=git,
            repository=repository,
            store=store,
            root=root,
            before_effect=before_effect,
            is_still=lambda path, status: False,
        )
        restorer.check(plan)
        restorer.carry_out(plan, kept.state, os.fsdecode(TEMP_PREFIX) + secrets.token_hex(8))
    finally:
        root.close()
    changes = difference(replace(NOTHING, index=kept.state.index, not_captured=kept.state.not_captured), kept.state)
    return Restoration(savepoint=kept.commit, changes=tuple(str(change) for change in changes), missing=missing(kept))


def missing(kept: Kept) -> tuple[str, ...]:
    """What ``kept`` does not hold, and why."""
    special = {path: f"is a {kind}" for path, kind in kept.state.specials.items() if kind != FIFO}
    return tuple(f"{show(path)}: {why}" for path, why in sorted({**kept.state.not_captured, **special}.items()))


def _refuse(asked: Path, place: Path, taken: tuple[Path, ...]) -> None:
    inside = next((path for path in taken if place.is_relative_to(path.resolve())), None)
    if inside is not None:
        raise _unfit(asked, f"lies in {inside}")
    if place.exists() and not place.is_dir():
        raise _unfit(asked, "is not a directory")
    if place.is_dir() and any(place.iterdir()):
        raise _unfit(asked, "is not empty")


def _unfit(directory: Path, why: str) -> CallerError:
    return CallerError(Code.USAGE, f"{str(directory)!r:.300} {why}", remedy="name a new directory somewhere else")
