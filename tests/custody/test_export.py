"""A savepoint into a directory, and a settled Delivery's worktree back to one: exact, and never over what is somebody's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from custody import rewind
from custody.export import export
from custody.git import Git
from custody.store import Store
from runner.contract.errors import CallerError, Code
from runner.contract.kept import Restoration
from tests.custody.fakes import Delivery, KillAt, Killed, Repo, fingerprint, tree_of

Deliver = Callable[..., Delivery]


def fill(repo: Repo) -> None:
    """One of everything that a savepoint holds."""
    repo.write("src/b.py", "b = 2\n", 0o600)
    repo.write(b"odd\n\xff/run.sh", b"#!/bin/sh\r\n\0", 0o700)
    repo.at(b"link").symlink_to("/nowhere")
    repo.at(b"empty/below").mkdir(parents=True)
    repo.at(b"closed").mkdir()
    repo.write("closed/x")
    repo.at(b"closed").chmod(0o500)
    repo.write("kept.log", "ignored\n")


@pytest.fixture
def work(repo: Repo, deliver: Deliver) -> Delivery:
    made = deliver(repo)
    made.custody.baseline()
    made.attempt(lambda: fill(repo))
    return made


def commits(work: Delivery) -> tuple[str, str]:
    """Of the baseline and of the newest savepoint."""
    taken = work.taken()
    return taken[0].savepoint, taken[-1].savepoint


def write(work: Delivery, directory: Path) -> Restoration:
    """The newest savepoint to ``directory``."""
    return export(work.activation, work.layout, commits(work)[1], directory, state_root=work.state)


@pytest.mark.parametrize("made", [True, False])
def test_a_savepoint_is_written_exactly(work: Delivery, repo: Repo, place: Path, made: bool) -> None:
    """Into a new or an empty directory: bytes, modes, links, empty directories; nothing that was ignored; nothing else changes."""
    there = place / "out" / "deep"
    if made:
        there.mkdir(parents=True)
    before, worktree = fingerprint(repo), tree_of(repo.path)
    done = write(work, there)
    worktree.pop("kept.log")
    assert tree_of(there) == worktree
    assert fingerprint(repo) == before
    assert "created src/b.py" in done.changes and done.missing == ()


def test_a_place_that_is_taken_is_refused(work: Delivery, repo: Repo, place: Path) -> None:
    """Anything in it, a file, the worktree, its repository, the state root, also through a link."""
    (place / "full").mkdir()
    (place / "full" / "x").touch()
    (place / "file").touch()
    (place / "link").symlink_to(repo.path)
    places = ("full", "file", "repo/new", "repo/.git/new", "state/new", "link/new", "repo")
    before = {name: thing for name, thing in tree_of(place).items() if not name.startswith("state/")}
    for name in places:
        with pytest.raises(CallerError) as refused:
            write(work, place / name)
        assert refused.value.code is Code.USAGE
    now = tree_of(place)
    assert {name: now[name] for name in before} == before and "state/new" not in now


def test_what_a_savepoint_does_not_hold_is_named(repo: Repo, deliver: Deliver, place: Path) -> None:
    """A nested repository among the files."""
    made = deliver(repo)
    made.custody.baseline()
    made.attempt(lambda: repo.git("init", "-q", "nested"))
    assert any("nested" in what for what in write(made, place / "x").missing)


def test_a_worktree_goes_back_and_forth(work: Delivery, repo: Repo) -> None:
    """To the baseline with what somebody did since kept, and with its savepoint to exactly what it was."""
    repo.write("mine.txt", "after the end\n")
    repo.git("add", "mine.txt")
    work.custody.close()
    before, entries = tree_of(repo.path), repo.git("ls-files", "-s")
    first, last = commits(work)
    told = rewind.preview(work.activation, work.layout, first)
    assert tree_of(repo.path) == before
    done = rewind.rewind(work.activation, work.layout, first, last)
    assert done.changes == told.changes and "deleted mine.txt" in done.changes
    assert set(tree_of(repo.path)) == {"a.txt", "src", "src/b.py", ".gitignore", "kept.log"}
    assert done.present is not None
    rewind.rewind(work.activation, work.layout, done.present, last)
    assert tree_of(repo.path) == before
    assert repo.git("ls-files", "-s") == entries


def test_killed_anywhere_the_same_call_finishes_it(work: Delivery, repo: Repo) -> None:
    """The worktree is the savepoint in the end, and what was there can be had back."""
    repo.write("mine.txt", "after the end\n")
    work.custody.close()
    first, last = commits(work)
    before = tree_of(repo.path)
    number = 0
    while True:
        try:
            rewind.rewind(work.activation, work.layout, first, last, KillAt(number))
        except Killed:
            rewind.rewind(work.activation, work.layout, first, last)
            assert "mine.txt" not in tree_of(repo.path)
            kept = next(commit for commit in Store(Git(), work.layout.store).chain() if has_mine(work, commit))
            rewind.rewind(work.activation, work.layout, kept, last)
            assert tree_of(repo.path) == before
            number += 1
            continue
        break
    assert number > 10


def has_mine(work: Delivery, commit: str) -> bool:
    """Whether the savepoint is one of the worktree before anything was put back."""
    listing = work.repo.git("--git-dir", str(work.layout.store), "ls-tree", "-r", "--name-only", f"{commit}:work")
    return {"mine.txt", "closed/x", "src/b.py", "link"} <= set(listing.splitlines())
