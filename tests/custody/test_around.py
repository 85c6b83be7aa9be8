"""What is not a plain file: put in a file's place or around captured things, it hides nothing and stops no restore."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.contract import ports
from runner.contract.scope import EVERYTHING, READ_ONLY, Scope
from tests.custody.fakes import Delivery, Repo, new_repo, patterns, tree_of

Deliver = Callable[..., Delivery]


def undone(delivery: Delivery, work: Callable[[], object], scope: Scope = READ_ONLY) -> tuple[str, ...]:
    """What a violation names; the attempt after it is blamed for nothing."""
    verdict = delivery.attempt(work, scope)
    assert isinstance(verdict, ports.Violation)
    assert isinstance(delivery.attempt(lambda: None, READ_ONLY), ports.Accepted)
    return verdict.paths


@pytest.mark.parametrize("what", ["directory", "fifo", "link"])
def test_an_ignore_file_that_is_none_has_no_rules(repo: Repo, deliver: Deliver, what: str) -> None:
    """As for git; the baseline is taken all the same."""
    place = repo.path / "src/.gitignore"
    {"directory": place.mkdir, "fifo": lambda: os.mkfifo(place), "link": lambda: place.symlink_to("../a.txt")}[what]()
    work = deliver(repo)
    work.custody.baseline()
    verdict = work.attempt(lambda: repo.write("src/x.o"))
    assert verdict.savepoint.changed == ("src/x.o",)


def test_a_repository_in_a_directory_that_was_empty_stops_no_restore(repo: Repo, deliver: Deliver) -> None:
    """It is reported and stays, the rest goes back."""
    (repo.path / "vendor").mkdir()
    work = deliver(repo)
    work.custody.baseline()
    told = undone(work, lambda: (new_repo(repo.path / "vendor/lib"), repo.write("a.txt", "2\n")))
    assert told == ("modified a.txt", "uncaptured vendor/lib")
    shutil.rmtree(repo.path / "vendor/lib")
    told = undone(work, lambda: (repo.git("init", "-q", "vendor"), repo.write("a.txt", "2\n")))
    assert told == ("modified a.txt", "uncaptured vendor") and repo.read("a.txt") == b"a\n"


@pytest.mark.parametrize("made", ["empty/.git", "empty/deep/.git"])
def test_a_repository_around_what_holds_no_bytes_hides_nothing(repo: Repo, deliver: Deliver, made: str) -> None:
    """Empty directories and special files below it still count."""
    (repo.path / "empty/deep/est").mkdir(parents=True)
    os.mkfifo(repo.path / "empty/deep/pipe")
    work = deliver(repo)
    work.custody.baseline()

    def hide() -> None:
        repo.git("init", "-q", str(Path(made).parent))
        (repo.path / "empty/deep/est").rmdir()
        (repo.path / "empty/deep/pipe").unlink()

    told = undone(work, hide)
    assert {"deleted empty/deep/est/", "special empty/deep/pipe"} <= {*told}
    assert (repo.path / "empty/deep/est").is_dir() and (repo.path / "empty/deep/pipe").is_fifo()


def test_a_staged_gitlink_hides_no_directory(repo: Repo, delivery: Delivery) -> None:
    """New files behind it are found and undone, captured ones restored."""

    def hide() -> None:
        head = repo.git("rev-parse", "HEAD")
        for name in ("src", "new"):
            repo.git("rm", "-q", "-r", "--cached", "--ignore-unmatch", name)
            repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},{name}")
        repo.write("new/hidden.txt")
        repo.write("src/b.py", "hidden\n")

    before = tree_of(repo.path)
    told = undone(delivery, hide, patterns("new", "other"))
    assert {"created new/hidden.txt", "modified src/b.py", "staged src"} <= {*told}
    assert tree_of(repo.path) == before


def test_what_was_there_before_an_attempt_is_not_blamed_on_it_after_a_crash(repo: Repo, delivery: Delivery) -> None:
    """A repository that somebody else nested in the worktree, found again by the next process."""
    delivery.attempt(lambda: None)
    delivery.restart()
    new_repo(repo.path / "theirs")
    delivery.begin(READ_ONLY)
    delivery.restart()
    verdict = delivery.custody.settle(delivery.begin(READ_ONLY, resume=True))
    assert isinstance(verdict, ports.Accepted)
    assert delivery.taken()[-1].not_captured == ("theirs: nested repository",)


def test_what_a_violation_left_is_not_blamed_on_the_next_attempt_after_a_crash(repo: Repo, delivery: Delivery) -> None:
    """No restore can take a repository away."""
    undone(delivery, lambda: new_repo(repo.path / "clone"))
    delivery.begin(READ_ONLY)
    delivery.restart()
    verdict = delivery.custody.settle(delivery.begin(READ_ONLY, resume=True))
    assert isinstance(verdict, ports.Accepted), verdict


@pytest.mark.parametrize("again", ["fifo", "empty directory"])
def test_what_has_no_bytes_gives_way(repo: Repo, delivery: Delivery, again: str) -> None:
    """A FIFO in a file's place, an ignored directory with nothing in it."""
    name = "a.txt" if again == "fifo" else "build"
    if again != "fifo":
        delivery.attempt(lambda: repo.write(name, "a file\n"))
    before = tree_of(repo.path)

    def swap() -> None:
        (repo.path / name).unlink()
        if again == "fifo":
            os.mkfifo(repo.path / name)
        else:
            (repo.path / name).mkdir()

    undone(delivery, swap)
    assert tree_of(repo.path) == before


def test_somebodys_fifo_is_noticed(repo: Repo, delivery: Delivery) -> None:
    """It is an edit like any other; discarded, it goes."""
    delivery.attempt(lambda: None)
    delivery.restart()
    os.mkfifo(repo.path / "pipe")
    found = delivery.ask()
    assert isinstance(found, ports.ForeignEdit) and found.paths == ("special pipe",)
    delivery.resolve("discard")
    delivery.begin(resume=True)
    assert not (repo.path / "pipe").exists()


def leaves_a_directory(repo: Repo) -> tuple[str, ...]:
    (repo.path / "src/b.py").unlink()
    (repo.path / "src/rest").mkdir(exist_ok=True)
    return "src/b.py", "src/rest"


def becomes_a_fifo(repo: Repo) -> tuple[str, ...]:
    (repo.path / "src/b.py").unlink()
    os.mkfifo(repo.path / "src/b.py")
    return ("src/b.py",)


def becomes_an_ignored_directory(repo: Repo) -> tuple[str, ...]:
    (repo.path / "build").unlink()
    (repo.path / "build").mkdir()
    return ("build",)


def replaces_a_repository(repo: Repo) -> tuple[str, ...]:
    shutil.rmtree(repo.path / "clone")
    (repo.path / "clone").symlink_to("a.txt")
    return ("clone",)


@pytest.mark.parametrize(
    "change", [leaves_a_directory, becomes_a_fifo, becomes_an_ignored_directory, replaces_a_repository]
)
def test_a_mark_holds_what_a_path_became(
    repo: Repo, deliver: Deliver, change: Callable[[Repo], tuple[str, ...]]
) -> None:
    """After a crash the attempt goes on with exactly that."""
    repo.write("build", "a file\n")
    new_repo(repo.path / "clone")
    work = deliver(repo)
    work.custody.baseline()
    grant = work.begin(EVERYTHING)
    paths = change(repo)
    work.mark(grant, *paths)
    marked = tree_of(repo.path)
    work.restart()
    for path in paths:
        place = repo.path / path
        shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink(missing_ok=True)
    if (repo.path / "src").is_dir() and not any((repo.path / "src").iterdir()):
        (repo.path / "src").rmdir()
    again = work.begin(EVERYTHING, resume=True)
    ignored = {"build"} if change is becomes_an_ignored_directory else set()
    assert {k: v for k, v in tree_of(repo.path).items() if k not in ignored} == {
        k: v for k, v in marked.items() if k not in ignored
    }
    assert isinstance(work.custody.settle(again), ports.Accepted)


def test_a_tracked_name_that_is_ignored_is_undone_when_it_leaves_the_index(repo: Repo, deliver: Deliver) -> None:
    """A file that was deleted and is still tracked: written anew and taken out of the index, it is no ignored file."""
    repo.write("old.log")
    repo.git("add", "-f", "old.log")
    repo.git("commit", "-q", "-m", "forced")
    (repo.path / "old.log").unlink()
    work = deliver(repo, include_dirty=True)
    work.custody.baseline()
    told = undone(work, lambda: (repo.write("old.log", "new\n"), repo.git("rm", "-q", "--cached", "old.log")))
    assert told == ("created old.log", "staged old.log")
    assert not (repo.path / "old.log").exists() and repo.git("ls-files", "old.log") == "old.log"
