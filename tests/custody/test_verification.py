"""``verify_custody``: what it looks at, what it finds, and that it changes nothing."""

import shutil
from collections.abc import Callable

import pytest

from custody import verify_custody
from runner.contract.outcomes import Check
from tests.custody.fakes import Delivery, Repo, lose_object, tree_of

Deliver = Callable[..., Delivery]


@pytest.fixture
def done(repo: Repo, deliver: Deliver) -> tuple[Repo, Delivery]:
    """A Delivery in a worktree of its own, with a mark, a foreign edit and a published result."""
    place = repo.worktree("tree")
    work = deliver(place)
    work.custody.baseline()
    grant = work.begin()
    place.write("n.txt")
    work.mark(grant, "n.txt")
    place.write("n.txt", "more\n")
    work.end(work.custody.settle(grant))
    work.restart()
    place.write("m.txt", "by hand\n")
    work.visit += 1
    work.ask()
    work.resolve("adopt")
    work.custody.preserve()
    work.custody.publish(requested=True)
    return repo, work


def verify(work: Delivery) -> dict[str, Check]:
    checks = verify_custody(work.activation, work.layout, work.ledger.read())
    assert len({check.name for check in checks}) == len(checks)
    return {check.name: check for check in checks}


def test_a_whole_record_holds_with_and_without_the_worktree(done: tuple[Repo, Delivery]) -> None:
    """All checks pass, say what they looked at, and leave store and repository as they are."""
    repo, work = done
    before = tree_of(work.layout.store), repo.git("for-each-ref")
    checks = verify(work)
    assert [check.name for check in checks.values() if check.ok] == [
        "savepoints",
        "savepoint objects",
        "preserved result",
        "publication",
    ]
    assert checks["savepoints"].detail.startswith("4 recorded")
    assert (tree_of(work.layout.store), repo.git("for-each-ref")) == before
    work.custody.close()
    repo.git("worktree", "remove", "--force", str(work.repo.path))
    assert verify(work) == checks


def test_before_the_baseline_there_is_nothing_to_check(repo: Repo, deliver: Deliver) -> None:
    """A Delivery that was only accepted holds."""
    assert verify(deliver(repo))["savepoints"].ok


def spoil_object(repo: Repo, work: Delivery, what: str) -> None:
    """Takes one object of the private store away."""
    lose_object(work.layout.store, repo.git("--git-dir", str(work.layout.store), "rev-parse", what))


@pytest.mark.parametrize(
    ("damage", "failed"),
    [
        (lambda repo, work: spoil_object(repo, work, "refs/custody/savepoints:work/m.txt"), {"savepoint objects"}),
        (lambda repo, work: (work.layout.store / "refs/custody/savepoints").unlink(), {"savepoints"}),
        (lambda repo, work: shutil.rmtree(work.layout.store), {"savepoints"}),
        (lambda repo, work: repo.git("update-ref", "-d", "refs/runner/d1/result"), {"preserved result"}),
        (lambda repo, work: repo.git("update-ref", "refs/runner/d1/result", "HEAD"), {"preserved result"}),
        (lambda repo, work: shutil.rmtree(repo.path), {"preserved result"}),
        (lambda repo, work: repo.git("update-ref", "refs/heads/result", "HEAD"), set()),
    ],
    ids=["lost blob", "lost chain", "lost store", "lost result", "other result", "lost repository", "moved target"],
)
def test_what_does_not_hold_is_named(
    done: tuple[Repo, Delivery], damage: Callable[[Repo, Delivery], object], failed: set[str]
) -> None:
    """Each kind of damage fails its check and is no exception; a target that somebody moved later is told, not held against
    the record."""
    repo, work = done
    damage(repo, work)
    checks = verify(work)
    assert {check.name for check in checks.values() if not check.ok} == failed
    if not failed:
        assert "and is now" in checks["publication"].detail
