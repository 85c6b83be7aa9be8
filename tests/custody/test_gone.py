"""A Delivery that was cancelled or failed settles when its worktree, or the whole repository, is gone: to the same commit."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from custody import verify_custody
from custody.git import Git, Place
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import TerminalProposed
from runner.contract.ids import Digest
from runner.contract.outcomes import Outcome, Publication, Reason
from runner.contract.records import Draft
from tests.custody.fakes import ZERO_DIGEST, Delivery, Repo, new_repo, tree_of

Deliver = Callable[..., Delivery]
AUTHORIZATION = Digest(ZERO_DIGEST)
NOT_REQUESTED = Publication(disposition="not-requested", ref="refs/heads/result", old="absent", new="absent")


def interrupted(repo: Repo, deliver: Deliver, *, changes: bool = True) -> Delivery:
    """One finished attempt, then one that a kill left open; line ends that git converts among the changes."""
    work = repo.worktree("linked")
    delivery = deliver(work)
    delivery.custody.baseline()
    if changes:
        lines = b"one\r\ntwo\r\n"
        delivery.attempt(lambda: (work.write("src/kept.txt", lines), work.write(".gitattributes", "*.txt text\n")))
    delivery.begin()
    work.write("src/half.py", "half\n")
    delivery.restart()
    return delivery


def close(delivery: Delivery) -> str:
    """The terminal order as the coordinator has it done; the result's commit."""
    delivery.custody.settle_interrupted()
    _, commit = delivery.custody.preserve()
    assert delivery.custody.publish(requested=False) == NOT_REQUESTED
    delivery.custody.retire(AUTHORIZATION)
    return commit


def lose(delivery: Delivery, what: str) -> None:
    worktree = delivery.repo.path
    repository = worktree.parent / "repo"
    if what != "nothing":
        shutil.rmtree(worktree)
    if what == "pruned":
        Repo(repository).git("worktree", "prune")
    if what == "replaced":
        new_repo(worktree)
    if what == "everything":
        shutil.rmtree(repository)


@pytest.mark.parametrize("what", ["worktree", "pruned", "replaced", "everything"])
@pytest.mark.parametrize("changes", [True, False])
def test_it_settles_to_the_same_commit(tmp_path: Path, deliver: Deliver, what: str, *, changes: bool) -> None:
    """As with everything there; what stands in its place now is not touched; the record holds when it is verified."""
    commits = []
    for case in ("nothing", what):
        repo = new_repo(tmp_path / case / "repo")
        delivery = interrupted(repo, deliver, changes=changes)
        lose(delivery, case)
        delivery.restart()
        before = tree_of(delivery.repo.path) if case == "replaced" else {}
        commits.append(close(delivery))
        assert before in ({}, tree_of(delivery.repo.path) if case == "replaced" else {})
        checks = verify_custody(delivery.activation, delivery.layout, tuple(delivery.ledger.read()))
        assert [check for check in checks if not check.ok] == []
        delivery.close()
        shutil.rmtree(delivery.state)
    assert commits[0] == commits[1]


def test_a_result_without_a_repository_can_be_read(repo: Repo, deliver: Deliver) -> None:
    """It stands in a repository of its own in the Delivery's store, with its history ended where the other's was lost."""
    delivery = interrupted(repo, deliver)
    lose(delivery, "everything")
    delivery.restart()
    commit = close(delivery)
    kept = Place(git_dir=delivery.layout.store / "custody" / "result.git")
    assert Git().run(kept, "log", "--format=%H", "refs/runner/d1/result").stdout.decode().split() == [commit]
    assert Git().run(kept, "show", f"{commit}:src/kept.txt").stdout == b"one\ntwo\n"
    assert delivery.taken("step")[-1].not_captured == ("the worktree was gone, so it was not put back",)


def test_what_completed_waits_for_its_repository(repo: Repo, deliver: Deliver) -> None:
    """It is to be published: a fault that says which repository is missing, and nothing is recorded."""
    delivery = interrupted(repo, deliver)
    proposed = TerminalProposed(
        outcome=Outcome.COMPLETED, reason=Reason.ALL_STEPS_FINISHED, step=None, detail="", output=None
    )
    delivery.ledger.writer("coordinator").append(Draft(event=proposed))
    repository = delivery.repo.path.parent / "repo"
    away = repository.rename(repository.with_name("away"))
    delivery.restart()
    with pytest.raises(EnvironmentFault, match="repo") as caught:
        delivery.custody.preserve()
    assert caught.value.code is Code.WORKTREE_MISSING
    away.rename(repository)
    delivery.custody.preserve()
    assert delivery.custody.publish(requested=True).disposition == "published"
