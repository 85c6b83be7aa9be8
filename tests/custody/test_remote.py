"""Publication to a repository elsewhere: one push under a lease; what it did is read from the ref, whatever it said."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from custody.remote import Patience
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import PublicationAsked, PublicationKnown
from runner.contract.outcomes import Publication
from tests.custody.elsewhere import Server, bare, ref, served
from tests.custody.fakes import Delivery, Killed, Repo, fingerprint

Deliver = Callable[..., Delivery]
TARGET = "refs/heads/result"


@pytest.fixture
def server(place: Path) -> Iterator[Server]:
    (place / "srv").mkdir()
    with served(place / "srv") as made:
        yield made


def ready(deliver: Deliver, repo: Repo, remote: str, **options: object) -> tuple[Delivery, str]:
    """A Delivery with a preserved result that goes to ``remote``, and that result."""
    work = deliver(repo, remote=remote, **options)
    work.custody.baseline()
    work.attempt(lambda: repo.write("n.txt"))
    return work, work.custody.preserve()[1]


def published(commit: str, old: str = "absent") -> Publication:
    return Publication(disposition="published", ref=TARGET, old=old, new=commit)


def asked(work: Delivery) -> int:
    return len(list(work.ledger.read(kinds=frozenset({PublicationAsked.KIND}))))


def test_a_branch_is_made_and_moved_elsewhere(repo: Repo, deliver: Deliver, place: Path) -> None:
    """By path and by file:, with all its history; nothing of the user's changes; what comes second sees the first."""
    there = bare(place / "there.git")
    before = fingerprint(repo)
    work, first = ready(deliver, repo, str(there))
    assert work.custody.publish(requested=True) == published(first)
    assert ref(there, TARGET) == first and asked(work) == 1
    (repo.path / "n.txt").unlink()
    again, second = ready(deliver, repo, f"file://{there}", delivery="d2", expected=first)
    assert again.custody.publish(requested=True) == published(second, first)
    assert ref(there, f"{TARGET}^") == repo.git("rev-parse", "HEAD")
    (repo.path / "n.txt").unlink()
    assert fingerprint(repo) == before


def test_neither_hooks_nor_configuration_of_the_repository_take_part(repo: Repo, deliver: Deliver, place: Path) -> None:
    """No pre-push hook, no rewritten address, no program that a transport would start."""
    there, trap = bare(place / "there.git"), place / "trap"
    hook = repo.write(".git/hooks/pre-push", f"#!/bin/sh\ntouch {trap}\n", 0o755)
    repo.git("config", f"url.{place}/elsewhere.insteadOf", str(there))
    repo.git("config", "core.sshCommand", f"touch {trap}")
    repo.git("config", "push.followTags", "true")
    repo.git("tag", "-a", "-m", "mine", "mine")
    work, commit = ready(deliver, repo, str(there))
    assert work.custody.publish(requested=True) == published(commit)
    assert ref(there, "refs/tags/mine") == ""
    assert hook.exists() and not trap.exists()


def test_a_shallow_repository_pushes(repo: Repo, deliver: Deliver, place: Path) -> None:
    """What lies behind its border is with the other side."""
    repo.write("second.txt")
    repo.commit("second")
    there = bare(place / "there.git")
    repo.git("push", "-q", str(there), "main")
    shallow = Repo(place / "shallow")
    repo.git("clone", "-q", "--depth=1", f"file://{there}", str(shallow.path))
    work, commit = ready(deliver, shallow, str(there))
    assert work.custody.publish(requested=True) == published(commit)


@pytest.mark.parametrize("change", ["moved", "deleted", "created"])
def test_a_target_that_changed_meanwhile_is_a_conflict(repo: Repo, deliver: Deliver, place: Path, change: str) -> None:
    """Found when it is looked at, and nothing is pushed over it."""
    there, base = bare(place / "there.git"), repo.git("rev-parse", "HEAD")
    other = repo.git("commit-tree", "-m", "other", f"{base}^{{tree}}")
    if change != "created":
        repo.git("push", "-q", str(there), f"{base}:{TARGET}")
    work, _ = ready(deliver, repo, str(there), expected="absent" if change == "created" else base)
    repo.git("push", "-q", "-f", str(there), f":{TARGET}" if change == "deleted" else f"{other}:{TARGET}")
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason) == ("conflict", "moved")
    assert (found.old, found.new) == (work.expected, "absent" if change == "deleted" else other)
    assert ref(there, TARGET) == ("" if change == "deleted" else other)


def test_a_target_that_moves_between_looking_and_pushing_is_a_conflict(
    repo: Repo, deliver: Deliver, place: Path
) -> None:
    """The lease refuses it, and the ref says what it is."""
    there, base = bare(place / "there.git"), repo.git("rev-parse", "HEAD")

    def race(what: str) -> None:
        if what == "move target":
            repo.git("push", "-q", str(there), f"{base}:{TARGET}")

    work, _ = ready(deliver, repo, str(there), before_effect=race)
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason, found.new) == ("conflict", "moved", base)


def test_a_hook_that_refuses_denies_it(repo: Repo, deliver: Deliver, place: Path) -> None:
    """The ref was read back first; the result stays preserved."""
    there = bare(place / "there.git", hook="echo no; exit 1")
    work, commit = ready(deliver, repo, str(there))
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason, found.old, found.new) == ("conflict", "denied", "absent", "absent")
    assert repo.git("rev-parse", "refs/runner/d1/result") == commit


def test_a_server_that_forbids_writing_denies_it(repo: Repo, deliver: Deliver, place: Path, server: Server) -> None:
    """Reading is allowed, so the ref could be read back."""
    there = bare(place / "srv" / "a.git")
    work, _ = ready(deliver, repo, server.url(there))
    server.fate = "forbids"
    found = work.custody.publish(requested=True)
    assert (found.disposition, found.reason) == ("conflict", "denied")


def test_a_server_that_dies_after_the_update_has_published(
    repo: Repo, deliver: Deliver, place: Path, server: Server
) -> None:
    """The push failed, the ref is ours: it is not asked for again."""
    there = bare(place / "srv" / "a.git")
    work, commit = ready(deliver, repo, server.url(there))
    server.fate = "dies after"
    assert work.custody.publish(requested=True) == published(commit)
    assert server.pushes == 1


@pytest.mark.parametrize("fate", ["dies before", "hangs"])
def test_without_an_answer_and_without_an_update_it_stays_open(
    repo: Repo, deliver: Deliver, place: Path, server: Server, fate: str
) -> None:
    """Nobody guesses; once the other side answers, the same push is asked again and counts once."""
    there = bare(place / "srv" / "a.git")
    work, commit = ready(deliver, repo, server.url(there), patience=Patience(push_s=0.5))
    server.fate = fate  # type: ignore[assignment]
    with pytest.raises(EnvironmentFault) as fault:
        work.custody.publish(requested=True)
    assert fault.value.code is Code.REMOTE_UNREACHABLE
    assert work.ledger.last(frozenset({PublicationKnown.KIND})) is None and asked(work) == 1
    server.fate, work.patience = "serves", Patience()
    work.restart()
    assert work.custody.publish(requested=True) == published(commit)
    assert asked(work) == 1


def test_what_cannot_be_reached_stays_open(repo: Repo, deliver: Deliver, place: Path) -> None:
    """Nothing was asked; the repository that comes later is published to."""
    work, commit = ready(deliver, repo, str(place / "later.git"))
    with pytest.raises(EnvironmentFault) as fault:
        work.custody.publish(requested=True)
    assert fault.value.code is Code.REMOTE_UNREACHABLE and asked(work) == 0
    bare(place / "later.git")
    assert work.custody.publish(requested=True) == published(commit)


def test_what_was_not_requested_asks_nobody(repo: Repo, deliver: Deliver, place: Path) -> None:
    """A failed Delivery settles while the other side is away."""
    work, _ = ready(deliver, repo, str(place / "nowhere.git"))
    assert work.custody.publish(requested=False).disposition == "not-requested"


@pytest.mark.parametrize("effect", ["record asking", "move target", "record publication"])
def test_killed_at_any_point_it_is_published_once(repo: Repo, deliver: Deliver, place: Path, effect: str) -> None:
    """The next process finds out from the ref what the one before did."""

    def kill(what: str) -> None:
        if what == effect:
            raise Killed(what)

    there = bare(place / "there.git")
    work, commit = ready(deliver, repo, str(there), before_effect=kill)
    with pytest.raises(Killed):
        work.custody.publish(requested=True)
    work.before_effect = None
    work.restart()
    assert work.custody.publish(requested=True) == published(commit)
    assert asked(work) == 1


def test_a_login_comes_from_netrc_only(
    repo: Repo, deliver: Deliver, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nobody is asked for one; with it the push goes through."""
    home = place / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text("[credential]\nhelper = !touch trap\n")
    (place / "srv").mkdir()
    there = bare(place / "srv" / "a.git")
    with served(place / "srv", login=True) as server:
        work, commit = ready(deliver, repo, server.url(there))
        with pytest.raises(EnvironmentFault, match="could not read Username"):
            work.custody.publish(requested=True)
        (home / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
        assert work.custody.publish(requested=True) == published(commit)


def test_ssh_asks_nobody(repo: Repo, deliver: Deliver, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's ssh and agent are used, in batch mode; one that refuses leaves the Delivery open."""
    there, said = bare(place / "there.git"), place / "said"
    ssh = place / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        f'#!/bin/sh\necho "$SSH_AUTH_SOCK $*" >> {said}\n[ -e {place}/open ] || exit 255\nfor last; do :; done\neval "$last"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(ssh.parent), prepend=":")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    work, commit = ready(deliver, repo, f"me@host.example:{there}")
    with pytest.raises(EnvironmentFault):
        work.custody.publish(requested=True)
    (place / "open").touch()
    assert work.custody.publish(requested=True) == published(commit)
    assert "/agent -o BatchMode=yes" in said.read_text()
