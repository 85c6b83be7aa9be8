"""Publication: one ref, one compare-and-swap, and the truth about it from the ref itself, whatever happens in between."""

from collections.abc import Callable

import pytest

from custody.publish import decide
from runner.contract.outcomes import Publication
from tests.custody.fakes import Delivery, Killed, Repo, fingerprint

Deliver = Callable[..., Delivery]
NEW, OLD, ELSE = "1" * 40, "2" * 40, "3" * 40


@pytest.mark.parametrize(
    ("asked", "current", "expected", "taken", "step"),
    [
        (False, OLD, OLD, False, "ask"),
        (True, OLD, OLD, False, "ask"),
        (False, "absent", "absent", False, "ask"),
        (False, OLD, OLD, True, "checked-out"),
        (True, NEW, OLD, True, "published"),
        (True, NEW, "absent", False, "published"),
        (False, NEW, OLD, False, "already-at-target"),
        (True, NEW, NEW, False, "already-at-target"),
        (False, ELSE, OLD, False, "moved"),
        (True, ELSE, OLD, False, "moved"),
        (False, "absent", OLD, False, "moved"),
        (False, OLD, "absent", False, "moved"),
    ],
)
def test_what_the_targets_value_means(asked: bool, current: str, expected: str, taken: bool, step: str) -> None:
    """Every row of the decision."""
    assert decide(asked=asked, current=current, expected=expected, new=NEW, taken=taken, symbolic=False) == step
    assert decide(asked=asked, current=current, expected=expected, new=NEW, taken=taken, symbolic=True) == "denied"


def ready(deliver: Deliver, repo: Repo, **options: object) -> tuple[Delivery, str]:
    """A Delivery with a preserved result, and that result."""
    work = deliver(repo, **options)
    work.custody.baseline()
    work.attempt(lambda: repo.write("n.txt"))
    return work, work.custody.preserve()[1]


def test_an_existing_branch_moves_from_its_expected_value(repo: Repo, deliver: Deliver) -> None:
    """Old and new are both named, and its reflog, if it has one, says who moved it."""
    repo.git("branch", "result")
    old = repo.git("rev-parse", "result")
    work, commit = ready(deliver, repo, expected=old)
    found = work.custody.publish(requested=True)
    assert found == Publication(disposition="published", ref="refs/heads/result", old=old, new=commit)
    assert "runner: publish" in repo.git("reflog", "show", "result")


@pytest.mark.parametrize("change", ["moved", "deleted", "created"])
def test_a_target_that_changed_meanwhile_is_a_conflict(repo: Repo, deliver: Deliver, change: str) -> None:
    """Both values are named; nothing is written; the result stays preserved."""
    base = repo.git("rev-parse", "HEAD")
    other = repo.git("commit-tree", "-m", "other", f"{base}^{{tree}}")
    if change != "created":
        repo.git("branch", "result")
    work, commit = ready(deliver, repo, expected="absent" if change == "created" else base)
    if change == "deleted":
        repo.git("branch", "-D", "result")
    else:
        repo.git("update-ref", "refs/heads/result", other)
    before = fingerprint(repo)
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason) == ("conflict", "moved")
    assert (found.old, found.new) == (work.expected, "absent" if change == "deleted" else other)
    assert fingerprint(repo) == before
    assert repo.git("rev-parse", "refs/runner/d1/result") == commit


def test_a_target_checked_out_anywhere_is_a_conflict(repo: Repo, deliver: Deliver) -> None:
    """Also in another worktree, also while that one rebases it."""
    repo.git("branch", "result")
    work, _ = ready(deliver, repo, expected=repo.git("rev-parse", "result"))
    repo.git("worktree", "add", "-q", str(repo.path.parent / "there"), "result")
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason) == ("conflict", "checked-out")
    assert repo.git("rev-parse", "result") == work.expected


def test_a_symbolic_target_is_not_followed(repo: Repo, deliver: Deliver) -> None:
    """Moving it would move another branch."""
    work, _ = ready(deliver, repo, target="refs/heads/alias", expected=repo.git("rev-parse", "HEAD"))
    repo.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    before = fingerprint(repo)
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason) == ("conflict", "denied")
    assert fingerprint(repo) == before


def test_a_name_that_git_cannot_make_is_denied(repo: Repo, deliver: Deliver) -> None:
    """A branch below an existing branch: the ref is as it was, the reason is git's refusal."""
    work, _ = ready(deliver, repo, target="refs/heads/main/below")
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason, found.new) == ("conflict", "denied", "absent")


def test_not_requested_is_recorded_and_moves_nothing(repo: Repo, deliver: Deliver) -> None:
    """The fact stands, whatever is asked later."""
    work, _ = ready(deliver, repo)
    found = work.custody.publish(requested=False)
    assert (found.disposition, found.old, found.new) == ("not-requested", "absent", "absent")
    assert work.custody.publish(requested=True) == found
    assert repo.git("rev-parse", "-q", "--verify", "refs/heads/result", ok=False) == ""


@pytest.mark.parametrize(
    "effect", ["write result", "keep result", "record result", "move target", "record publication"]
)
def test_killed_at_any_point_it_is_published_once(repo: Repo, deliver: Deliver, effect: str) -> None:
    """After a kill anywhere between preserving and knowing, the next process ends with the same commit published."""

    def kill(what: str) -> None:
        if what == effect:
            raise Killed(what)

    work = deliver(repo, before_effect=kill)
    work.custody.baseline()
    work.attempt(lambda: repo.write("n.txt"))
    with pytest.raises(Killed):
        work.custody.preserve()
        work.custody.publish(requested=True)
    work.before_effect = None
    work.restart()
    _, commit = work.custody.preserve()
    found = work.custody.publish(requested=True)
    assert found == Publication(disposition="published", ref="refs/heads/result", old="absent", new=commit)


def test_a_ref_lock_of_ours_is_healed_and_anothers_is_not(repo: Repo, deliver: Deliver) -> None:
    """A lock with exactly our commit in it was left by a git of ours; any other denies the publication and stays."""
    for number, content in enumerate(["ours", "somebody's\n", ""]):
        work, commit = ready(deliver, repo, delivery=f"lock-{number}", target=f"refs/heads/t{number}")
        lock = repo.write(f".git/refs/heads/t{number}.lock", commit + "\n" if content == "ours" else content)
        found = work.custody.publish(requested=True)
        (repo.path / "n.txt").unlink()
        if content == "ours":
            assert found.disposition == "published" and not lock.exists()
        else:
            assert (found.disposition, found.reason) == ("conflict", "denied") and lock.exists()
