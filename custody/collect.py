"""What custody made outside of a Delivery's directory, taken away: the result's ref, and a worktree that was made for it and
that nobody has touched since.

Every step may be killed and asked again. Branches are never touched; the ref goes before any object.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from custody.durable import sync_directory
from custody.environment import surroundings
from custody.git import Git, Place
from custody.repository import ABSENT, Repository, read_ref
from custody.restore import read_journal
from custody.result import AUTHOR
from custody.scan import Budget
from custody.scope import difference, named
from custody.store import Store
from custody.worktree import open_again
from runner.contract.activation import Activation
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.kept import Leftovers
from runner.contract.layout import DeliveryLayout

CHANGES_SHOWN_MAX = 5


class Outside:
    """Implements ``collection.Outside``. Stateless."""

    def repository_of(self, layout: DeliveryLayout) -> str:
        """The git directory that all worktrees of the Delivery's repository share."""
        return Store(Git(), layout.store).frozen().common_dir

    def changed_since(self, activation: Activation, layout: DeliveryLayout, savepoint: str) -> str:
        """Why the worktree is not what ``savepoint`` holds, HEAD included; empty when it is. For the holder of the fence."""
        git = Git()
        store = Store(git, layout.store)
        if read_journal(store) is not None:
            return "a restore was cut short in it"
        try:
            worktree = open_again(git, store, activation, budget=Budget(), before_effect=lambda _: None)
        except EnvironmentFault as error:
            return error.message
        try:
            last = store.load(savepoint)
            changes = difference(last.state, worktree.look(last).state)
            around = surroundings(worktree.repository)
        finally:
            worktree.close()
        if changes:
            return f"it was changed since: {', '.join(named(changes)[:CHANGES_SHOWN_MAX])}"
        before = last.state.surroundings
        moved = (around.head, dict(around.operations)) != (before.head, dict(before.operations))
        return "its HEAD was moved, or something is in progress in it" if moved else ""

    def remove(self, leftovers: Leftovers, *, worktree: bool, before_effect: Callable[[str], None]) -> tuple[str, ...]:
        """Removes the ref, if it is still the result's, and with ``worktree`` the worktree. What was left, and why."""
        common = Path(leftovers.repository)
        if not leftovers.repository or not common.is_dir():
            return (f"its repository {common} is not there",) if leftovers.repository else ()
        git = Git()
        form = "sha256" if len(leftovers.commit) == 64 else "sha1"
        repository = Repository(worktree=common, git_dir=common, common_dir=common, object_format=form)
        notes = _remove_ref(git, repository, leftovers, before_effect) if leftovers.ref else ()
        if worktree and leftovers.worktree:
            _remove_worktree(git, repository, Path(leftovers.worktree), before_effect)
        return notes


def _remove_ref(
    git: Git, repository: Repository, leftovers: Leftovers, before_effect: Callable[[str], None]
) -> tuple[str, ...]:
    ref, commit = leftovers.ref, leftovers.commit
    if read_ref(git, repository, ref) == commit:
        before_effect("delete ref")
        lines = f"start\ndelete {ref} {commit}\nprepare\ncommit\n"
        words = ("update-ref", "--no-deref", "--stdin")
        said = git.run(repository.place, *words, stdin=lines.encode(), env=AUTHOR, ok=range(256)).stderr
        if read_ref(git, repository, ref) == commit:
            raise EnvironmentFault(
                Code.GIT_FAILED, f"{ref} cannot be deleted: {said}", remedy="mend that, then run the same command again"
            )
    now = read_ref(git, repository, ref)
    return () if now == ABSENT else (f"{ref} is {now}, not its result, and was left",)


def _remove_worktree(git: Git, repository: Repository, path: Path, before_effect: Callable[[str], None]) -> None:
    aside = path.with_name(f".collecting-{path.name}")
    if path.is_dir() and not path.is_symlink():
        before_effect("set worktree aside")
        delete_tree(aside)
        path.rename(aside)
        sync_directory(path.parent)
    before_effect("delete worktree")
    delete_tree(aside)
    place = Place(git_dir=repository.common_dir)
    listing = git.run(place, "worktree", "list", "--porcelain", "-z").stdout
    if b"worktree " + os.fsencode(path) in listing.split(b"\0"):
        before_effect("unregister worktree")
        git.run(place, "worktree", "remove", "--force", "--force", "--", str(path))


def delete_tree(path: Path) -> None:
    """Whatever is at ``path``, without following a link; directories that are closed to their owner are opened."""
    if not path.exists():
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        for top, names, _ in os.walk(path):
            for name in names:
                below = Path(top, name)
                if not below.is_symlink():
                    below.chmod(0o700)
        shutil.rmtree(path)
