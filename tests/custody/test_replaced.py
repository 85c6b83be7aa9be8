"""What stands where the worktree was, but is not the worktree: nothing of it is touched."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.contract.errors import Code, EnvironmentFault
from tests.custody.fakes import Delivery, Repo, new_repo, tree_of


def another_repository(path: Path) -> None:
    new_repo(path, files={"a.txt": "another project's\n", "precious.txt": "p\n"})
    (path / "untracked.txt").write_text("u\n")


def a_directory(path: Path) -> None:
    path.mkdir()
    (path / "precious.txt").write_text("p\n")


def another_worktree(path: Path) -> None:
    a_directory(path)
    (path / ".git").write_text(f"gitdir: {path.parent}/repo/.git/worktrees/other\n")


def a_link(path: Path) -> None:
    a_directory(path)
    (path / ".git").symlink_to("/nonexistent")


@pytest.mark.parametrize("make", [another_repository, a_directory, another_worktree, a_link])
def test_something_else_in_its_place(
    repo: Repo, deliver: Callable[..., Delivery], make: Callable[[Path], None]
) -> None:
    """After a kill in the middle of an attempt its savepoint is not restored over what is no part of it: refused with the
    place, not a byte changed. Put back, the attempt goes on."""
    work = repo.worktree("linked")
    delivery = deliver(work)
    delivery.custody.baseline()
    delivery.begin()
    work.write("src/half.py", "half\n")
    delivery.restart()
    away = work.path.rename(work.path.with_name("away"))
    make(work.path)
    before = tree_of(work.path)
    with pytest.raises(EnvironmentFault, match="is not the worktree that was admitted") as caught:
        delivery.begin(resume=True)
    assert caught.value.code is Code.WORKTREE_MISSING and "worktree repair" in caught.value.remedy
    assert tree_of(work.path) == before
    work.path.rename(work.path.with_name("other"))
    away.rename(work.path)
    delivery.begin(resume=True)
    assert not (work.path / "src" / "half.py").exists()
