"""``runner diff``, ``runner restore``, ``runner gc``: what a person sees and what a script gets."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.world import git, package, repository, reviewed


@pytest.fixture
def settled(runner: CommandLine, tmp_path: Path) -> Path:
    """The repository of the settled Delivery d1, whose worktree was kept."""
    repo = repository(tmp_path / "repo")
    assert runner("run", str(package(tmp_path)), "--repo", str(repo), "--id", "d1", "--keep").code == 0
    return repo


def test_a_difference_is_told_in_every_form(runner: CommandLine, settled: Path) -> None:
    """A patch that git takes, statistics, names, a document; a step's savepoint by its name."""
    patch = runner("diff", "d1")
    assert patch.code == 0
    subprocess.run(["git", "apply", "--check", "-"], cwd=settled, input=patch.out.encode(), check=True)
    assert "2 files changed" in runner("diff", "d1", "--stat").out
    assert runner("diff", "d1", "first", "--name-only").out == "two.txt\n"
    document = runner("diff", "d1", "baseline", "first@1", "--json").document
    assert document["files"] == [{"path": "one.txt", "status": "modified", "added": 1, "deleted": 1}]


def test_a_difference_of_one_that_waits(runner: CommandLine, tmp_path: Path) -> None:
    """An open Delivery is looked at as well."""
    repo = repository(tmp_path / "repo")
    assert runner("run", str(reviewed(tmp_path)), "--repo", str(repo), "--id", "d1").code == 3
    assert runner("diff", "d1", "--name-only").out == "made.txt\n"
    refused = runner("restore", "d1", "baseline", "--in-place", "--yes")
    assert refused.code == 2 and "delivery-open" in refused.err and "runner fork d1" in refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("diff", "d2"), "delivery-unknown"),
        (("diff", "d1", "nothing"), "savepoint-unknown"),
        (("diff", "d1", "--stat", "--json"), "one of"),
        (("restore", "d1", "newest"), "--to DIR or --in-place"),
        (("restore", "d1", "newest", "--to", "."), "is not empty"),
        (("restore", "d1", "baseline", "--in-place"), "add --yes"),
    ],
)
def test_what_cannot_be_is_refused(runner: CommandLine, settled: Path, words: tuple[str, ...], says: str) -> None:
    """With the place and what to do."""
    (runner.here / "x").touch()
    answer = runner(*words)
    assert answer.code == 2 and says in answer.out + answer.err


def test_a_savepoint_is_had_as_files(runner: CommandLine, settled: Path, tmp_path: Path) -> None:
    """In a new directory."""
    answer = runner("restore", "d1", "first", "--to", str(tmp_path / "out"), "--json")
    assert answer.code == 0 and answer.document["directory"] == str(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one.txt"]
    assert (tmp_path / "out" / "one.txt").read_text() == "one\n"


def test_a_worktree_goes_back_and_the_printed_command_undoes_it(runner: CommandLine, settled: Path) -> None:
    """What was there meanwhile is kept; the branch that was published stays; the record still holds."""
    worktree, branch = runner.state / "worktrees" / "d1", git(settled, "rev-parse", "runner/d1")
    (worktree / "mine.txt").write_text("mine\n")
    answer = runner("restore", "d1", "baseline", "--in-place", "--yes")
    assert answer.code == 0
    assert sorted(path.name for path in worktree.iterdir()) == [".git", "one.txt"]
    assert (worktree / "one.txt").read_text() == "1\n"
    undo = next(line for line in answer.out.splitlines() if "undo: " in line).partition("undo: ")[2]
    assert runner.shell(f"{undo} --yes").code == 0
    assert (worktree / "mine.txt").read_text() == "mine\n" and (worktree / "two.txt").exists()
    assert runner("restore", "d1", "baseline", "--in-place", "--json").code == 2
    assert git(settled, "rev-parse", "runner/d1") == branch
    assert runner("verify", "d1").code == 0


def test_collecting_says_what_goes_and_what_stays(runner: CommandLine, settled: Path) -> None:
    """First without doing it; then it is gone, and every command says so."""
    assert "kept" in runner("gc").out
    told = runner("gc", "--dry-run", "d1")
    assert told.code == 0 and "would go" in told.out and "would be freed" in told.out
    assert runner("gc", "d2").code == 2
    document = runner("gc", "--keep-days", "0", "--keep-count", "0", "--json").document
    assert [(one["delivery"], one["state"]) for one in document["deliveries"]] == [("d1", "collected")]
    assert document["bytes"] > 0
    assert "only its settlement is kept" in runner("inspect", "d1").out
    assert runner("inspect", "--json").document["deliveries"][0]["phase"] == "collected"
    assert "collected" in runner("verify", "d1").out
    refused = runner("diff", "d1")
    assert refused.code == 2 and "delivery-collected" in refused.err
    assert "completed" in runner("execute", "d1").out
    assert git(settled, "rev-parse", "--verify", "runner/d1")


def test_one_that_is_named_and_stays_is_told_by_the_exit(runner: CommandLine, tmp_path: Path) -> None:
    """An open Delivery is never collected."""
    repo = repository(tmp_path / "repo")
    runner("run", str(reviewed(tmp_path)), "--repo", str(repo), "--id", "d1")
    answer = runner("gc", "d1", "--failed")
    assert answer.code == 1 and "it is open" in answer.out


def test_a_delivery_is_pushed(runner: CommandLine, tmp_path: Path) -> None:
    """To a remote by its name, resolved when it is admitted; and shown where it went."""
    repo = repository(tmp_path / "repo")
    there = tmp_path / "there.git"
    git(tmp_path, "init", "-q", "--bare", str(there))
    git(repo, "remote", "add", "origin", "../there.git")
    done = runner("run", str(package(tmp_path)), "--repo", str(repo), "--id", "d1", "--push", "origin", "--target", "x")
    assert done.code == 0 and f"branch x of {there}" in done.out
    assert git(there, "log", "--format=%s", "x").splitlines() == ["touch", "one"]
    assert runner("verify", "d1").code == 0
    for push, says in (("nowhere", "the remote"), (str(repo), "the repository itself"), ("ext::sh", "the remote")):
        refused = runner("run", str(package(tmp_path)), "--repo", str(repo), "--id", "d2", "--push", push)
        assert refused.code == 2 and "target-invalid" in refused.err and says in refused.err
    away = runner("run", str(package(tmp_path)), "--repo", str(repo), "--id", "d2", "--push", str(tmp_path / "no.git"))
    assert away.code == 5 and "remote-unreachable" in away.err
