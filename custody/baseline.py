"""The first savepoint: is the worktree what was admitted, and what holds for the whole Delivery from here on?"""

from pathlib import Path
from typing import Final

from custody.git import Git
from custody.ignore import frozen_rules
from custody.paths import Root
from custody.repository import ABSENT, Repository, discover, read_ref
from custody.result import result_ref
from custody.store import Frozen, Store
from runner.contract.activation import Activation
from runner.contract.canonical import digest_bytes
from runner.contract.errors import CallerError, Code

CONVERSION_SETTINGS: Final = ("core.autocrlf", "core.eol")
PATHS_SHOWN_MAX: Final = 20


def admitted_repository(git: Git, activation: Activation) -> Repository:
    """The repository of the admitted worktree; ``CORRELATION_MISMATCH`` when it is not at the admitted commit, or keeps a
    result of another Delivery with this id."""
    workspace = activation.workspace
    repository = discover(git, Path(workspace.worktree))
    asked = ("HEAD^{commit}", f"{workspace.base_commit}^{{tree}}")
    found = [
        git.run(repository.place, "rev-parse", "-q", "--verify", name, ok=(0, 1, 128)).stdout.decode().strip()
        for name in asked
    ]
    if found != [workspace.base_commit, workspace.base_tree]:
        raise mismatch(
            f"{workspace.worktree} was admitted at {workspace.base_commit} (tree {workspace.base_tree}) and is now at "
            f"{found[0] or 'no commit'} (tree of the admitted commit: {found[1] or 'none'})",
            "check the admitted commit out again, or admit the workflow anew",
        )
    ref = result_ref(activation.delivery)
    now = read_ref(git, repository, ref)
    if now != ABSENT:
        raise mismatch(
            f"{ref} exists already ({now}): another Delivery of this id has run on this repository",
            f"admit under another id, or drop that result: git update-ref -d {ref}",
        )
    return repository


def freeze(git: Git, repository: Repository, store: Store, root: Root) -> Frozen:
    """Makes the store and writes down the ignore rules and conversion settings as they are now."""
    store.create(repository)
    rules = frozen_rules(git, repository, root)
    settings = {name: git.user_setting(repository.place, name) for name in (*CONVERSION_SETTINGS, "core.fileMode")}
    frozen = Frozen(
        git_dir=str(repository.git_dir),
        common_dir=str(repository.common_dir),
        object_format=repository.object_format,
        conversions=tuple(f"{name}={settings[name]}" for name in CONVERSION_SETTINGS if settings[name] is not None),
        modes_count=settings["core.fileMode"] not in ("false", "no", "off", "0"),
        ignore_digest=digest_bytes(rules),
    )
    store.freeze(frozen, rules)
    return frozen


def dirty(activation: Activation, paths: tuple[str, ...]) -> CallerError:
    """Edits that were not admitted."""
    shown = ", ".join(paths[:PATHS_SHOWN_MAX]) + (
        f" and {len(paths) - PATHS_SHOWN_MAX} more" if len(paths) > PATHS_SHOWN_MAX else ""
    )
    return mismatch(
        f"{activation.workspace.worktree} has edits that were not admitted: {shown}",
        "commit or undo them, or admit the workflow with --include-dirty",
    )


def mismatch(message: str, remedy: str) -> CallerError:
    return CallerError(Code.CORRELATION_MISMATCH, message, remedy=remedy)
