"""Whole Deliveries: what is published, and that nothing of the user's is touched on the way."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.contract import ports
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.ids import Digest
from tests.custody.fakes import ADMITTED_AT, Delivery, Repo, fingerprint, new_repo, patterns

AUTHORIZATION = Digest("sha256:" + "1" * 64)
OTHER = Digest("sha256:" + "2" * 64)
Deliver = Callable[..., Delivery]


def test_a_whole_delivery_publishes_its_changes_on_the_base(repo: Repo, delivery: Delivery) -> None:
    """The published commit has the base as its only parent, the changed files, the Runner's name, the admission's date."""
    base = repo.git("rev-parse", "HEAD")
    verdict = delivery.attempt(lambda: (repo.write("src/c.py", "c\n"), repo.write("a.txt", "A\n")))
    assert isinstance(verdict, ports.Accepted)
    assert verdict.savepoint.changed == ("a.txt", "src/c.py")
    tree, commit = delivery.custody.preserve()
    published = delivery.custody.publish(requested=True)
    assert (published.disposition, published.old, published.new) == ("published", "absent", commit)
    assert repo.git("rev-parse", "result") == commit
    assert (
        repo.git("show", "-s", "--format=%P %T %an %ae %cn", commit) == f"{base} {tree} Runner runner@localhost Runner"
    )
    assert repo.git("show", "-s", "--format=%aI %cI", commit) == " ".join([ADMITTED_AT.replace("Z", "+00:00")] * 2)
    assert repo.git("show", "-s", "--format=%(trailers:key=Runner-Delivery,valueonly)", commit) == "d1"
    assert repo.git("diff", "--name-status", base, commit).split() == ["M", "a.txt", "A", "src/c.py"]
    assert repo.git("rev-parse", "refs/runner/d1/result") == commit


def test_nothing_of_the_users_changes(repo: Repo, deliver: Deliver) -> None:
    """Refs, HEAD, index bytes, stash, reflogs, config and hooks are the same bytes before and after everything that custody
    does, with violations, discards and a conflict among it."""
    repo.write("a.txt", "stashed\n")
    repo.git("stash")
    hook = repo.write(".git/hooks/reference-transaction", "#!/bin/sh\ntouch ran\n", 0o755)
    for name in ("pre-commit", "post-checkout", "post-index-change"):
        repo.write(f".git/hooks/{name}", hook.read_bytes(), 0o755)
    repo.git("config", "commit.gpgsign", "true")
    repo.git("update-index", "--refresh")
    (repo.path / "ran").unlink()  # the user's own command ran a hook, as it should
    before = fingerprint(repo, target="refs/heads/result")
    work = deliver(repo)
    custody = work.custody
    custody.baseline()
    work.attempt(lambda: repo.write("src/new.py"), patterns("src/**"))
    work.attempt(lambda: repo.write("outside.txt"), patterns("src/**"))
    work.attempt(lambda: repo.write("a.txt", "gone again\n"), keep=False)
    custody.settle_interrupted()
    custody.preserve()
    custody.publish(requested=True)
    custody.retire(AUTHORIZATION)
    assert fingerprint(repo, target="refs/heads/result") == before
    assert not (repo.path / "ran").exists() and not (repo.path / ".git/ran").exists()
    assert repo.git("status", "--porcelain") == "?? src/new.py"


def test_the_same_attempts_give_the_same_commit_whether_killed_or_not(tmp_path: Path, deliver: Deliver) -> None:
    """A run with a restart and a rejected attempt in the middle preserves the same commit as a straight one."""
    commits = []
    for name in ("straight", "killed"):
        repo = new_repo(tmp_path / name)
        work = deliver(repo, delivery="same", target="refs/heads/out") if name == "straight" else None
        if work is None:
            work = Delivery(repo, tmp_path / "other-state", delivery="same", target="refs/heads/out")
        work.custody.baseline()
        if name == "killed":
            work.begin()
            repo.write("half.txt")
            work.restart()
            grant = work.begin(resume=True)
            assert not (repo.path / "half.txt").exists()
            repo.write("one.txt")
            work.end(work.custody.settle(grant))
        else:
            work.attempt(lambda repo=repo: repo.write("one.txt"))
        commits.append(work.custody.preserve())
        work.close()
    assert commits[0] == commits[1]


def test_every_operation_answers_the_same_again(repo: Repo, delivery: Delivery) -> None:
    """Asked again, in this process or the next, each gives the recorded fact and records nothing new."""
    delivery.attempt(lambda: repo.write("n.txt"))

    def everything() -> list[object]:
        custody = delivery.custody
        return [
            custody.baseline().commit,
            custody.current().commit,
            custody.preserve(),
            custody.publish(requested=True),
            custody.retire(AUTHORIZATION),
        ]

    first, head = everything(), delivery.ledger.head()
    assert everything() == first
    delivery.restart()
    assert everything() == first
    assert delivery.ledger.head() == head


def test_a_foreign_retirement_is_refused(delivery: Delivery) -> None:
    """Only the authorization that retired custody replays the fact."""
    delivery.custody.retire(AUTHORIZATION)
    with pytest.raises(IntegrityError) as caught:
        delivery.custody.retire(OTHER)
    assert caught.value.code is Code.AUTHORIZATION_FOREIGN


def test_without_changes_the_result_is_the_base(repo: Repo, delivery: Delivery) -> None:
    """No empty commit is made; the base itself is kept and published."""
    delivery.attempt(lambda: None)
    base = repo.git("rev-parse", "HEAD")
    assert delivery.custody.preserve() == (repo.git("rev-parse", "HEAD^{tree}"), base)
    assert delivery.custody.publish(requested=True).new == base
    assert repo.git("rev-parse", "refs/runner/d1/result") == base


def test_an_unchanged_tree_keeps_its_savepoint(repo: Repo, delivery: Delivery) -> None:
    """An attempt that changes nothing names the savepoint before it, with no commit of its own."""
    first = delivery.custody.current()
    verdict = delivery.attempt(lambda: repo.git("status"))
    assert verdict == ports.Accepted(savepoint=ports.Savepoint(commit=first.commit, tree=first.tree))


def test_a_worktree_elsewhere_than_admitted_is_refused(repo: Repo, deliver: Deliver) -> None:
    """Another HEAD, a tracked edit, a staged edit, a deleted file: the baseline says which, and records nothing."""
    for spoil, named in (
        (lambda: repo.write("a.txt", "edited\n"), "a.txt"),
        (lambda: (repo.write("src/b.py", "staged\n"), repo.git("add", "src/b.py")), "src/b.py"),
        ((repo.path / "a.txt").unlink, "a.txt"),
        (lambda: repo.git("commit", "-q", "--allow-empty", "-m", "moved"), "is now at"),
    ):
        work = deliver(repo, delivery="d" + str(os.urandom(4).hex()))
        spoil()
        with pytest.raises(CallerError) as caught:
            work.custody.baseline()
        assert caught.value.code is Code.CORRELATION_MISMATCH
        assert named in caught.value.message
        assert work.ledger.head() == 0
        repo.git("reset", "-q", "--hard", work.activation.workspace.base_commit)


def test_admitted_edits_belong_to_the_result(repo: Repo, deliver: Deliver) -> None:
    """With ``include_dirty`` tracked edits, new files and deletions found at acceptance are in the result."""
    repo.write("a.txt", "edited\n")
    repo.write("new.txt")
    (repo.path / "src/b.py").unlink()
    work = deliver(repo, include_dirty=True)
    work.custody.baseline()
    _, commit = work.custody.preserve()
    assert repo.git("diff", "--name-status", "HEAD", commit).split() == ["M", "a.txt", "A", "new.txt", "D", "src/b.py"]


def test_files_made_by_setup_stay_out_of_the_result(repo: Repo, deliver: Deliver) -> None:
    """What was untracked at the baseline is published only if an attempt changes it."""
    repo.write("made.txt")
    repo.write("used.txt")
    work = deliver(repo)
    work.custody.baseline()
    work.attempt(lambda: repo.write("used.txt", "used\n"))
    _, commit = work.custody.preserve()
    assert repo.git("diff", "--name-only", "HEAD", commit) == "used.txt"


def test_a_delivery_id_used_before_on_the_repository_is_refused(repo: Repo, deliver: Deliver) -> None:
    """The result of another Delivery of the same id is never overwritten."""
    repo.git("update-ref", "refs/runner/d1/result", "HEAD")
    with pytest.raises(CallerError, match="refs/runner/d1/result"):
        deliver(repo).custody.baseline()


def test_two_deliveries_over_two_worktrees_do_not_disturb_each_other(repo: Repo, deliver: Deliver) -> None:
    """Attempts of both interleave; each result holds its own change only."""
    works = []
    for name in ("left", "right"):
        tree = repo.worktree(name)
        work = deliver(tree, delivery=name, target=f"refs/heads/{name}")
        work.custody.baseline()
        works.append((name, tree, work))
    grants = [work.begin() for _, _, work in works]
    for (name, tree, work), grant in zip(works, grants, strict=True):
        tree.write(f"{name}.txt")
        work.end(work.custody.settle(grant))
    for name, _, work in works:
        work.custody.preserve()
        assert work.custody.publish(requested=True).disposition == "published"
        assert repo.git("diff", "--name-only", "main", name) == f"{name}.txt"


def test_a_sha256_repository_works(tmp_path: Path, deliver: Deliver) -> None:
    """Ids are 64 digits long and everything else is the same."""
    repo = new_repo(tmp_path / "wide", object_format="sha256")
    work = deliver(repo)
    work.custody.baseline()
    assert isinstance(work.attempt(lambda: repo.write("n.txt")), ports.Accepted)
    assert isinstance(work.attempt(lambda: repo.write("m.txt"), patterns("x")), ports.Violation)
    work.custody.preserve()
    assert len(work.custody.publish(requested=True).new) == 64
