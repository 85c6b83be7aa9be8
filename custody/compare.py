"""What differs between two savepoints, from the private store alone: beside a live driver, without worktree and repository."""

from collections.abc import Sequence
from typing import Final, Literal

from custody.git import Git
from custody.naming import savepoint_named
from custody.objects import commit_trees
from custody.paths import scope_text
from custody.store import Store
from runner.contract.kept import Difference, FileDifference
from runner.contract.layout import DeliveryLayout
from runner.contract.records import Record

_WORDS: Final = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color")


def compare(layout: DeliveryLayout, records: Sequence[Record], before: str, after: str) -> Difference:
    """From the savepoint that is called ``before`` to the one called ``after``; see ``naming`` for how, and for the errors."""
    git = Git()
    store = Store(git, layout.store)
    old, new = (find_savepoint(layout, records, word) for word in (before, after))
    trees = commit_trees(git, store.place, (old, new))
    return Difference(
        delivery=layout.root.name,
        before=old,
        after=new,
        before_tree=trees[old],
        after_tree=trees[new],
        files=_files(git, store, trees[old], trees[new]),
    )


def find_savepoint(layout: DeliveryLayout, records: Sequence[Record], word: str) -> str:
    """The savepoint that is called ``word``; see ``naming``."""
    return savepoint_named(word, records, Store(Git(), layout.store).chain())


def patch(layout: DeliveryLayout, difference: Difference, *, stat: bool, binary: bool) -> bytes:
    """``difference`` as ``git diff`` shows it: its statistics, or a patch. With ``binary`` the patch carries the bytes of binary
    files, so that ``git apply`` makes them."""
    git = Git()
    form = ("--stat=78",) if stat else ("--patch", *(("--binary", "--full-index") if binary else ()))
    trees = (difference.before_tree, difference.after_tree)
    return git.run(Store(git, layout.store).place, "diff", *_WORDS, *form, *trees, "--").stdout


def _files(git: Git, store: Store, before: str, after: str) -> tuple[FileDifference, ...]:
    words = ("diff-tree", "-r", "-z", "--no-renames")
    raw = git.run(store.place, *words, "--raw", before, after).stdout.split(b"\0")
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    for line in git.run(store.place, *words, "--numstat", before, after).stdout.split(b"\0"):
        if line:
            added, deleted, path = line.split(b"\t", 2)
            counts[path] = (_count(added), _count(deleted))
    found = []
    for meta, path in zip(raw[0::2], raw[1::2], strict=False):
        old, new, old_id, new_id, status = meta.lstrip(b":").decode().split(" ")
        added_lines, deleted_lines = counts.get(path, (0, 0))
        found.append(
            FileDifference(
                path=scope_text(path),
                status=_status(status, same=old_id == new_id and old != new),
                added=added_lines,
                deleted=deleted_lines,
            )
        )
    return tuple(found)


def _status(letter: str, *, same: bool) -> Literal["added", "deleted", "modified", "mode", "type"]:
    match letter:
        case "A":
            return "added"
        case "D":
            return "deleted"
        case "T":
            return "type"
        case _:
            return "mode" if same else "modified"


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
