"""What a Delivery still has when its worktree is gone: the repository behind it, else a small one of its own.

A cancelled or failed Delivery settles all the same. Its result follows from the activation, the baseline and the last
savepoint, all of which the private store has, so it is the same commit wherever it is made. With the repository gone too it
is kept in ``result.git`` beside the store's other things, whose objects it borrows.
"""

from pathlib import Path
from typing import Final

from custody.durable import write_synced
from custody.git import Git, Place
from custody.repository import Repository
from custody.store import Frozen, Store
from runner.contract.errors import Code, EnvironmentFault

OWN: Final = "result.git"


def own_place(store: Store) -> Path:
    """Where the result is kept when no repository is there to keep it."""
    return store.custody / OWN


def repository_behind(frozen: Frozen) -> Repository | None:
    """The repository that the worktree belonged to, by what all its worktrees share; None when that is gone too."""
    common = Path(frozen.common_dir)
    if not (common / "objects").is_dir():
        return None
    return _at(common, frozen)


def kept_aside(store: Store, frozen: Frozen) -> Repository | None:
    """The repository of the result's own, if one was made. Changes nothing."""
    place = own_place(store)
    return _at(place, frozen) if place.is_dir() else None


def own_repository(git: Git, store: Store, frozen: Frozen) -> Repository:
    """Made if it is not there. Killed midway, the next call finishes it."""
    place = own_place(store)
    place.mkdir(mode=0o700, exist_ok=True)
    form = f"--object-format={frozen.object_format}"
    git.run(Place(git_dir=place), "init", "-q", "--bare", "--template=", form)
    (place / "objects" / "info").mkdir(exist_ok=True)
    write_synced(place / "objects" / "info" / "alternates", b"../../../objects\n")
    return _at(place, frozen)


def end_history(repository: Repository, commit: str) -> None:
    """``commit`` has no parent there: the admitted commit is gone with the repository that had it."""
    write_synced(repository.git_dir / "shallow", commit.encode() + b"\n")


def gone(frozen: Frozen) -> EnvironmentFault:
    """For what cannot be done without a repository."""
    return EnvironmentFault(
        Code.WORKTREE_MISSING,
        f"the repository {frozen.common_dir} is gone, and the result is to be published there",
        remedy="put the repository back where it was, then execute again",
    )


def _at(place: Path, frozen: Frozen) -> Repository:
    return Repository(worktree=place, git_dir=place, common_dir=place, object_format=frozen.object_format)
