"""What a savepoint is called, and what two of them differ in: from the private store, whatever became of the worktree."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.compare import compare, find_savepoint, patch
from runner.contract.errors import CallerError, Code
from tests.custody.fakes import Delivery, Repo

Deliver = Callable[..., Delivery]


@pytest.fixture
def work(repo: Repo, deliver: Deliver) -> Delivery:
    """Two visits of a step: text and bytes and a mode; then a name that is none."""
    made = deliver(repo)
    made.custody.baseline()

    def first() -> None:
        repo.write("src/b.py", "b = 2\n")
        repo.write("bin", b"\0\1\2")
        repo.at(b"a.txt").chmod(0o755)

    def second() -> None:
        repo.at(b".gitignore").unlink()
        repo.write(b"n\xff\n.txt", "\x1b[31mred\n")

    made.attempt(first)
    made.attempt(second)
    return made


def differs(work: Delivery, *names: str) -> dict[str, tuple[str, int | None, int | None]]:
    found = compare(work.layout, tuple(work.ledger.read()), *names)
    return {file.path: (file.status, file.added, file.deleted) for file in found.files}


def test_savepoints_have_names(work: Delivery) -> None:
    """A step is its last visit; an id may be shortened as long as it is one's own."""
    records = tuple(work.ledger.read())
    baseline, first, second = (event.savepoint for event in work.taken())
    names = {
        "baseline": baseline,
        "newest": second,
        "work": second,
        "work@1": first,
        "work@2": second,
        first[:7]: first,
        first: first,
    }
    assert {name: find_savepoint(work.layout, records, name) for name in names} == names
    for name in ("", "abc", "work@3", "elsewhere", "0" * 40, "-x"):
        with pytest.raises(CallerError) as refused:
            find_savepoint(work.layout, records, name)
        assert refused.value.code is Code.SAVEPOINT_UNKNOWN


def test_every_kind_of_change_is_told(work: Delivery) -> None:
    """Lines of text are counted, bytes are not; names that are no text are escaped."""
    assert differs(work, "baseline", "work@1") == {
        "a.txt": ("mode", 0, 0),
        "bin": ("added", None, None),
        "src/b.py": ("modified", 1, 1),
    }
    assert differs(work, "work@1", "newest") == {".gitignore": ("deleted", 0, 2), "n%FF\n.txt": ("added", 1, 0)}
    assert differs(work, "newest", "newest") == {}


def test_neither_worktree_nor_repository_is_needed(work: Delivery, repo: Repo) -> None:
    """The store is complete in itself."""
    before = differs(work, "baseline", "newest")
    work.custody.close()
    shutil.rmtree(repo.path)
    assert differs(work, "baseline", "newest") == before


def test_a_patch_makes_the_one_from_the_other(work: Delivery, repo: Repo, place: Path) -> None:
    """Applied to the base it gives the files of the savepoint, bytes and modes too."""
    found = compare(work.layout, tuple(work.ledger.read()), "baseline", "newest")
    data = patch(work.layout, found, stat=False, binary=True)
    fresh = repo.worktree("fresh")
    subprocess.run(["git", "apply", "--index", "-"], cwd=fresh.path, input=data, check=True)
    assert fresh.git("write-tree") == found.after_tree
    assert b"Binary files" in patch(work.layout, found, stat=False, binary=False)
    assert b"5 files changed" in patch(work.layout, found, stat=True, binary=False)
