"""Worktrees from real, sometimes hostile repositories: right content, nothing executed, nothing else touched."""

from pathlib import Path

import pytest

from runner.admission.package import SetupStep
from runner.admission.setup import run_setup
from runner.admission.target import target_expected
from runner.admission.worktree import (
    Checkout,
    claim_worktree,
    discover,
    in_place,
    make_worktree,
    planned_worktree,
    remove_worktree,
)
from runner.contract.errors import CallerError, Code, EnvironmentFault, RunnerError
from tests.admission.repositories import git, repository


def fresh(tmp_path: Path, base: str | None = None) -> Checkout:
    checkout = planned_worktree(discover(tmp_path / "repo"), base=base, directory=tmp_path / "trees" / "d1")
    claim_worktree(checkout)
    make_worktree(checkout)
    return checkout


def refused(code: Code, call: object, *arguments: object, **named: object) -> RunnerError:
    assert callable(call)
    with pytest.raises(RunnerError) as caught:
        call(*arguments, **named)
    assert caught.value.code is code
    return caught.value


def test_of_two_who_plan_the_same_worktree_one_gets_it(tmp_path: Path) -> None:
    """The other is refused before it has done anything that it would have to undo."""
    repository(tmp_path / "repo")
    planned = [planned_worktree(discover(tmp_path / "repo"), base=None, directory=tmp_path / "d1") for _ in range(2)]
    claim_worktree(planned[0])
    refused(Code.STATE_UNWRITABLE, claim_worktree, planned[1])
    make_worktree(planned[0])
    assert (planned[0].path / "a.txt").exists()


def test_a_fresh_worktree_holds_the_base_and_goes_again_without_a_trace(tmp_path: Path) -> None:
    """Detached at the base commit, clean, and removed with its registration; the user's own checkout is as before."""
    repo = repository(tmp_path / "repo")
    first = git(repo, "rev-parse", "HEAD")
    (repo / "a.txt").write_text("two\n")
    git(repo, "commit", "--quiet", "--all", "--message", "two")
    (repo / "a.txt").write_text("uncommitted\n")
    before = (git(repo, "status", "--porcelain"), git(repo, "for-each-ref"), git(repo, "reflog"))
    checkout = fresh(tmp_path, base="HEAD~1")
    assert (checkout.path / "a.txt").read_text() == "a\n"
    assert checkout.base_commit == first
    assert checkout.base_tree == git(repo, "rev-parse", "HEAD~1^{tree}")
    assert git(checkout.path, "status", "--porcelain") == ""
    remove_worktree(checkout)
    remove_worktree(checkout)
    assert not checkout.path.exists()
    assert git(repo, "worktree", "list").count("\n") == 0
    assert (git(repo, "status", "--porcelain"), git(repo, "for-each-ref"), git(repo, "reflog")) == before


def test_nothing_that_the_repository_configures_is_executed(tmp_path: Path) -> None:
    """Hooks, the file system monitor and filter drivers stay silent while worktrees are made, judged and removed."""
    repo = repository(tmp_path / "repo", {"a.txt": "a\n", "b.bin": "b\n"})
    witness = tmp_path / "witness"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {witness}\n")
        (hooks / name).chmod(0o755)
    git(repo, "config", "core.hooksPath", str(hooks))
    git(repo, "config", "core.fsmonitor", f"echo fsmonitor >> {witness}; false")
    for part in ("clean", "smudge", "process"):
        git(repo, "config", f"filter.evil=x.{part}", f"echo {part} >> {witness}; cat")
    git(repo, "config", "filter.evil=x.required", "true")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("*.bin filter=evil=x\n")
    (repo / "b.bin").touch()
    error = refused(Code.REPOSITORY_INVALID, fresh, tmp_path)
    assert [f.place for f in error.findings] == ["b.bin"]
    assert not (tmp_path / "trees").exists()
    refused(Code.REPOSITORY_INVALID, in_place, discover(repo), include_dirty=True)
    (repo / ".git" / "info" / "attributes").write_text("")
    remove_worktree(fresh(tmp_path))
    in_place(discover(repo), include_dirty=False)
    assert not witness.exists(), witness.read_text()


def test_a_dirty_checkout_is_refused_with_its_paths_or_taken_on_request(tmp_path: Path) -> None:
    """Changed, deleted, staged and untracked paths are named, hostile names included; ignored ones do not count."""
    repo = repository(tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n", ".gitignore": ".env\n"})
    (repo / ".env").write_text("x")
    assert not in_place(discover(repo), include_dirty=False).include_dirty
    (repo / "a.txt").write_text("changed")
    (repo / "b.txt").unlink()
    (repo / "new é\n x").write_text("x")
    error = refused(Code.WORKTREE_DIRTY, in_place, discover(repo), include_dirty=False)
    assert {f.place for f in error.findings} == {"a.txt", "b.txt", "new é\\n x"}
    assert in_place(discover(repo), include_dirty=True).include_dirty


def test_repositories_that_cannot_be_used_are_refused_by_name(tmp_path: Path) -> None:
    """Each says what it is."""
    cases = {"plain": "not inside", "gone": "not inside", "bare": "bare", "empty": "no commit", "sha256": "sha256"}
    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    git(tmp_path, "init", "--quiet", "empty")
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "sha256")
    for name, problem in cases.items():
        assert problem in refused(Code.REPOSITORY_INVALID, discover, tmp_path / name).message
    partial = repository(tmp_path / "partial")
    git(partial, "config", "remote.origin.promisor", "true")
    assert "partial clone" in refused(Code.REPOSITORY_INVALID, discover, partial).message
    elsewhere = repository(tmp_path / "elsewhere")
    git(elsewhere, "config", "core.worktree", str(tmp_path / "plain"))
    refused(Code.REPOSITORY_INVALID, discover, elsewhere)


def test_a_shallow_clone_and_a_subfolder_are_fine(tmp_path: Path) -> None:
    """What matters is there."""
    repository(tmp_path / "origin", {"sub/a.txt": "a\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{tmp_path}/origin", "repo")
    assert discover(tmp_path / "repo" / "sub").root == (tmp_path / "repo").resolve()
    assert (fresh(tmp_path).path / "sub" / "a.txt").exists()


def test_planning_writes_nothing(tmp_path: Path) -> None:
    """Not a byte in the repository, whatever it configures, nor a folder."""
    repo = repository(tmp_path / "repo")
    git(repo, "config", "core.splitIndex", "true")
    git(repo, "config", "core.untrackedCache", "true")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    planned = planned_worktree(discover(repo), base=None, directory=tmp_path / "trees" / "d1")
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    make_worktree(planned)
    assert git(planned.path, "status", "--porcelain") == ""


def test_an_unknown_base_or_a_taken_folder_leaves_nothing(tmp_path: Path) -> None:
    """Refused before anything is made; what was there stays."""
    repo = repository(tmp_path / "repo")
    refused(Code.REPOSITORY_INVALID, fresh, tmp_path, "--upload-pack=x")
    assert not (tmp_path / "trees").exists()
    taken = tmp_path / "trees" / "d1"
    taken.mkdir(parents=True)
    (taken / "mine").write_text("x")
    refused(Code.STATE_UNWRITABLE, fresh, tmp_path)
    assert (taken / "mine").exists()
    assert git(repo, "worktree", "list").count("\n") == 0


def test_the_target_is_what_it_is_now_or_refused(tmp_path: Path) -> None:
    """Absent or an object id; names git refuses, checked-out branches and names in the way are refused."""
    repo = repository(tmp_path / "repo")
    git(repo, "branch", "other")
    found = discover(repo)
    assert target_expected(found, "refs/heads/new/x") == "absent"
    assert target_expected(found, "refs/heads/other") == found.head
    git(repo, "symbolic-ref", "refs/heads/sym", "refs/heads/other")
    for ref in (
        "refs/heads/main",
        "refs/heads/a..b",
        "refs/heads/a b",
        "refs/heads/other/x",
        "refs/heads/sym",
        "refs/stash",
        "refs/heads/" + "x/" * 10,
        "HEAD",
    ):
        assert isinstance(refused(Code.TARGET_INVALID, target_expected, found, ref), CallerError)
    git(repo, "branch", "deep/er")
    refused(Code.TARGET_INVALID, target_expected, found, "refs/heads/deep")


def setup(checkout: Checkout, *steps: dict[str, object], **more: float) -> None:
    run_setup([SetupStep.model_validate_json(__import__("json").dumps(step)) for step in steps], checkout, **more)


def test_setup_runs_copies_and_links_what_git_ignores(tmp_path: Path) -> None:
    """Commands run in the new worktree; ignored paths come from the user's checkout."""
    repo = repository(tmp_path / "repo")
    (repo / ".env").write_text("KEY=1")
    (repo / ".venv").mkdir()
    checkout = fresh(tmp_path)
    refused(Code.SETUP_FAILED, setup, checkout, {"link": ".venv"})
    (checkout.path / ".venv").unlink()
    setup(checkout, {"copy": ".env"}, {"copy": ".venv"}, {"run": ["sh", "-c", "pwd > .venv/here"]})
    assert (checkout.path / ".env").read_text() == "KEY=1"
    assert (checkout.path / ".venv" / "here").read_text().strip() == str(checkout.path)
    assert not (repo / ".venv" / "here").exists()


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ({"run": ["sh", "-c", "echo out; echo err >&2; exit 3"]}, "status 3:\nout\nerr"),
        ({"run": ["no-such-program"]}, "cannot run"),
        ({"run": ["sleep", "60"]}, "did not end"),
        ({"copy": "gone"}, "is not in"),
        ({"copy": "a.txt"}, "git tracks it"),
        ({"link": "out/secret"}, "leads out"),
        ({"run": ["touch", "left"]}, "does not ignore"),
    ],
)
def test_setup_that_fails_says_why(tmp_path: Path, step: dict[str, object], problem: str) -> None:
    """The end of the output, or the path and what is wrong with it."""
    repo = repository(tmp_path / "repo")
    (repo / "out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("x")
    error = refused(Code.SETUP_FAILED, setup, fresh(tmp_path), step, timeout_s=5.0 if "sleep" not in str(step) else 0.2)
    assert problem in error.message
    assert isinstance(error, CallerError | EnvironmentFault)
