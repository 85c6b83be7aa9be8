"""A Delivery that starts from another one: that one's savepoints become its own, and its worktree starts at one of them.

Both come before anything is recorded, so both are found done, or half done, after a kill. The store is whole once its
``frozen.json`` is there, which is written last. The worktree has to be the admitted one; then it is put to the savepoint by a
journaled restore, which the next process finishes.

The rules that say which files are looked at are the source's, frozen at its baseline, as its savepoints were taken by them.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from custody import baseline
from custody.desk import Desk
from custody.git import Git
from custody.objects import missing_objects
from custody.paths import show
from custody.restore import unequal
from custody.state import Kept
from custody.store import Frozen, Store
from custody.worktree import Worktree
from runner.contract.activation import Activation
from runner.contract.errors import CallerError, Code, EnvironmentFault, IntegrityError
from runner.contract.ids import ObjectId

NAMED_MAX: Final = 5


def nothing(_: str) -> None:
    """The default seam: no effect is disturbed."""


def bring(
    activation: Activation,
    source: Path,
    store: Path,
    savepoints: tuple[ObjectId, ...],
    before_effect: Callable[[str], None] = nothing,
) -> None:
    """The git stores ``source`` -> ``store``: ``savepoints`` and what they stand on, synced. See ``ports.Assembly.bring``."""
    try:
        _bring(activation, source, store, savepoints, before_effect)
    except OSError as error:
        code = Code.DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else Code.CAPTURE_FAILED
        problem = f"cannot bring the savepoints of {source}: {error.strerror} ({error.filename})"
        raise EnvironmentFault(code, problem, remedy="mend that, then run the same command again") from error


def _bring(
    activation: Activation,
    source: Path,
    store: Path,
    savepoints: tuple[ObjectId, ...],
    before_effect: Callable[[str], None],
) -> None:
    git = Git()
    old, new = Store(git, source), Store(git, store)
    repository = baseline.admitted_repository(git, activation)
    if (new.custody / "frozen.json").exists():
        return
    rules, frozen = _frozen(old)
    lost = missing_objects(git, old.place, savepoints)
    if lost:
        raise _gone(source, f"it does not have {', '.join(lost[:NAMED_MAX])}")
    before_effect("make store")
    new.create(repository)
    before_effect("copy savepoints")
    new.copy_from(old, (*savepoints, activation.workspace.base_tree))
    before_effect("keep savepoints")
    new.keep_tip(savepoints)
    before_effect("freeze store")
    new.freeze(
        Frozen(
            git_dir=str(repository.git_dir),
            common_dir=str(repository.common_dir),
            object_format=repository.object_format,
            conversions=frozen.conversions,
            modes_count=frozen.modes_count,
            ignore_digest=frozen.ignore_digest,
        ),
        rules,
    )


def arrive(desk: Desk) -> tuple[Kept, Literal["step", "mid-step"]]:
    """The worktree at the savepoint that the Delivery starts from, kept with what surrounds it now, and what kind of savepoint
    that is. ``CORRELATION_MISMATCH`` when the worktree is not as it was admitted."""
    activation = desk.case.activation
    assert activation.origin is not None  # noqa: S101 - only a Delivery with an origin arrives
    worktree = desk.worktree()
    target = desk.store.load(activation.origin.savepoint)
    present = worktree.look(target)
    if unequal(target.state, present.state):
        edits = (*worktree.unadmitted(present), *_strange(worktree, present, target))
        if edits:
            raise baseline.dirty(activation, tuple(sorted(set(edits))))
        worktree.return_to(target, "the Delivery starts there")
    kept = worktree.take(target, f"{desk.delivery} starts here, from {activation.origin.delivery}")
    return kept, "mid-step" if target.touched else "step"


def _strange(worktree: Worktree, present: Kept, target: Kept) -> tuple[str, ...]:
    """Files of neither the base nor the savepoint: somebody's, and no savepoint they know of would have them."""
    base = worktree.base.files
    return tuple(show(path) for path in present.state.files if path not in base and path not in target.state.files)


def _frozen(old: Store) -> tuple[bytes, Frozen]:
    try:
        return old.rules.read_bytes(), old.frozen()
    except (OSError, IntegrityError) as error:
        raise _gone(old.path, str(error)) from None


def _gone(source: Path, why: str) -> CallerError:
    return CallerError(
        Code.ORIGIN_INVALID,
        f"the savepoints to start from cannot be had from {source}: {why}",
        remedy="it may have been collected; start anew with 'runner run', or bring that directory back",
    )
