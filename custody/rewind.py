"""A settled Delivery's worktree put back to one of its savepoints, at a person's wish. What is there now is kept first.

For whoever holds the Delivery's fence and the worktree's lease. The restore is journaled: killed anywhere, the same call
finishes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from custody.export import missing, nothing
from custody.git import Git
from custody.scan import Budget
from custody.scope import difference
from custody.store import Store
from custody.worktree import Worktree, open_again
from runner.contract.activation import Activation
from runner.contract.kept import Restoration
from runner.contract.layout import DeliveryLayout


def preview(activation: Activation, layout: DeliveryLayout, savepoint: str) -> Restoration:
    """What ``rewind`` would change. Nothing of the worktree is touched, unless an earlier one was cut short: that is finished."""
    with _opened(activation, layout, nothing) as (store, worktree):
        target = store.load(savepoint)
        changes = difference(worktree.look(target).state, target.state)
    told = tuple(str(change) for change in changes if change.kind != "uncaptured")
    return Restoration(savepoint=target.commit, changes=told, missing=missing(target))


def rewind(
    activation: Activation,
    layout: DeliveryLayout,
    savepoint: str,
    newest: str,
    before_effect: Callable[[str], None] = nothing,
) -> Restoration:
    """Puts files and index entries back to ``savepoint``, after keeping the present on top of ``newest``, the Delivery's last
    savepoint. HEAD stays where it is. Errors as in a restore of the Delivery's own."""
    with _opened(activation, layout, before_effect) as (store, worktree):
        target = store.load(savepoint)
        present = worktree.take(store.load(newest), f"found before somebody went back to {target.commit}")
        changes = difference(present.state, target.state)
        worktree.restore(target, present)
    told = tuple(str(change) for change in changes if change.kind != "uncaptured")
    return Restoration(savepoint=target.commit, changes=told, present=present.commit, missing=missing(target))


@contextmanager
def _opened(
    activation: Activation, layout: DeliveryLayout, before_effect: Callable[[str], None]
) -> Iterator[tuple[Store, Worktree]]:
    git = Git()
    store = Store(git, layout.store)
    worktree = open_again(git, store, activation, budget=Budget(), before_effect=before_effect)
    try:
        worktree.finish_restore()
        yield store, worktree
    finally:
        worktree.close()
