"""Mid-step savepoints: exactly the known paths, cheap, and where an interrupted attempt goes on."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from custody.midstep import meant
from custody.paths import show
from custody.store import PACKS_MAX
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.scope import EVERYTHING, READ_ONLY
from tests.custody.fakes import Delivery, Killed, Repo, patterns, tree_of

Deliver = Callable[..., Delivery]


def crash(delivery: Delivery, repo: Repo) -> None:
    """A kill in the middle of the next tool call."""
    repo.write("half.txt", "half\n")
    (repo.path / "a.txt").unlink(missing_ok=True)
    delivery.restart()


def spoil(repo: Repo) -> list[str]:
    """Every kind of thing a tool call may do, and the paths that it names."""
    repo.write("new/deep/file.txt", "deep\n", 0o640)
    repo.write("run.sh", "#!/bin/sh\n", 0o755)
    repo.write("src/b.py", "b = 2\n")
    (repo.path / "gone").rename(repo.path / "moved")
    (repo.path / "made").mkdir()
    (repo.path / "link").symlink_to("a.txt")
    os.mkfifo(repo.path / "pipe")
    (repo.path / "only/one.txt").unlink()
    (repo.path / "was-file").unlink()
    repo.write("was-file/inner.txt")
    repo.write(b"odd\xff\n", "odd\n")
    repo.write("%41", "percent\n")
    shown = [show(b"odd\xff\n"), "%41", "was-file", "was-file/inner.txt", "only/one.txt", "moved/in/x", "moved/in/y"]
    return [*shown, "gone", "pipe", "link", "made", "src/b.py", "run.sh", "new/deep/file.txt"]


@pytest.fixture
def rich(repo: Repo, deliver: Deliver) -> Delivery:
    for name in ("gone/in/x", "gone/in/y", "only/one.txt", "was-file"):
        repo.write(name)
    (repo.path / "hollow").mkdir()
    work = deliver(repo)
    work.custody.baseline()
    return work


def test_an_interrupted_attempt_goes_on_from_its_last_mark(repo: Repo, rich: Delivery) -> None:
    """Files, modes, links, directories and their emptiness are those of the mark, of whatever kind the change was; the
    grant still names the opening savepoint, and the verdict judges against it."""
    grant = rich.begin()
    opening = rich.custody.current()
    kept = rich.mark(grant, *spoil(repo))
    marked = tree_of(repo.path)
    assert {"src/b.py", "odd%FF%0A", "gone", "gone/in/x", "made", "moved/in/y"} <= set(kept.changed)
    assert rich.custody.current() == opening
    for _ in range(2):
        crash(rich, repo)
        assert rich.custody.current().commit == opening.commit
        grant = rich.begin(resume=True)
        assert grant.savepoint == opening.commit
        assert {n: v for n, v in tree_of(repo.path).items() if v[0] != "special"} == {
            n: v for n, v in marked.items() if v[0] != "special"
        }
        assert (repo.path / "pipe").is_fifo()
    rich.mark(grant, "hollow")
    verdict = rich.custody.settle(grant)
    assert isinstance(verdict, ports.Accepted) and {"src/b.py", "new/deep/file.txt"} <= set(verdict.savepoint.changed)
    assert [event.role for event in rich.taken()] == ["baseline", "mid-step", "mid-step"]
    rich.end(verdict)
    assert rich.taken()[-1].role == "step"


def test_a_mark_of_nobody_knows_what_is_a_mark_of_everything(repo: Repo, rich: Delivery) -> None:
    """Where a process ran, the mark finds by itself what changed since the mark before it, and costs no more than that to
    keep; an interrupted attempt goes on from it as from any other."""
    grant = rich.begin()
    named = rich.mark(grant, *spoil(repo))
    assert rich.custody.mark(grant, None) == replace(named, changed=())
    rich.custody.discard(grant)
    grant = rich.begin()
    spoil(repo)
    (repo.path / "hollow").rmdir()
    kept = rich.custody.mark(grant, None)
    assert {"src/b.py", "odd%FF%0A", "gone", "gone/in/x", "made", "moved/in/y", "hollow"} <= set(kept.changed)
    marked = {n: v for n, v in tree_of(repo.path).items() if v[0] != "special"}
    rich.ledger.writer("host").append()
    crash(rich, repo)
    rich.begin(resume=True)
    assert {n: v for n, v in tree_of(repo.path).items() if v[0] != "special"} == marked


def test_marks_stand_on_each_other(repo: Repo, rich: Delivery) -> None:
    """Each holds all before it, also after a crash between; each is the parent of the next; the record names step,
    attempt, what changed, and the tree, which is the tree of exactly those files."""
    grant = rich.begin()
    first = rich.mark(grant, *spoil(repo))
    repo.write("new/deep/file.txt", "2\n")
    repo.write("unknown.txt")
    second = rich.mark(grant, "new/deep/file.txt")
    assert second.changed == ("new/deep/file.txt",)
    crash(rich, repo)
    grant = rich.begin(resume=True)
    assert not (repo.path / "unknown.txt").exists()
    (repo.path / "new/deep/file.txt").unlink()
    (repo.path / "new/deep").rmdir()
    third = rich.mark(grant, "new/deep")
    store = ("--git-dir", str(rich.layout.store))
    assert repo.git(*store, "rev-parse", f"{second.commit}^") == first.commit
    names = repo.git(*store, "ls-tree", "-r", "-z", "--name-only", f"{third.commit}:work").split("\0")
    there = {n for n, (kind, _, _) in tree_of(repo.path).items() if kind in ("file", "link")}
    assert {os.fsdecode(n.encode("utf-8", "surrogateescape")) for n in names if n} == there
    assert repo.git(*store, "rev-parse", f"{third.commit}:work") == third.tree
    assert [(r.step, r.attempt) for r in rich.ledger.read(kinds=frozenset({"savepoint.taken"}))][1:] == [
        (rich.step, 1)
    ] * 3
    crash(rich, repo)
    rich.begin(resume=True)
    assert not (repo.path / "new/deep").exists() and (repo.path / "new").is_dir()
    repo.git(*store, "fsck", "--strict")


def test_a_mark_that_was_never_recorded_does_not_count(repo: Repo, delivery: Delivery) -> None:
    """Its tool call has no result either: the files are those before it."""
    grant = delivery.begin()
    repo.write("a.txt", "1\n")
    delivery.mark(grant, "a.txt")
    repo.write("a.txt", "2\n")
    delivery.custody.mark(grant, ("a.txt",))
    crash(delivery, repo)
    delivery.begin(resume=True)
    assert repo.read("a.txt") == b"1\n"


def test_a_new_attempt_and_the_next_visit_know_no_marks(repo: Repo, delivery: Delivery) -> None:
    """They begin at a savepoint that steps go on from."""
    grant = delivery.begin()
    repo.write("a.txt", "1\n")
    delivery.mark(grant, "a.txt")
    delivery.end(delivery.custody.discard(grant))
    assert repo.read("a.txt") == b"a\n"
    delivery.begin()
    crash(delivery, repo)
    delivery.begin(resume=True)
    assert repo.read("a.txt") == b"a\n"


def test_the_verdict_is_about_the_whole_attempt(repo: Repo, delivery: Delivery) -> None:
    """A write outside the scope that a mark holds is a violation, in this process and after a crash, and is undone."""
    for restart in (False, True):
        grant = delivery.begin(patterns("src/**"))
        repo.write("a.txt", "outside\n")
        delivery.mark(grant, "a.txt")
        if restart:
            delivery.restart()
            grant = delivery.begin(patterns("src/**"), resume=True)
            assert repo.read("a.txt") == b"outside\n"
        verdict = delivery.custody.settle(grant)
        delivery.end(verdict)
        assert isinstance(verdict, ports.Violation) and verdict.paths == ("modified a.txt",)
        assert repo.read("a.txt") == b"a\n"


def test_an_attempt_that_was_marked_and_cancelled_is_undone(repo: Repo, delivery: Delivery) -> None:
    """``settle_interrupted`` goes back to the opening savepoint, not to a mark."""
    grant = delivery.begin()
    repo.write("a.txt", "1\n")
    delivery.mark(grant, "a.txt")
    delivery.restart()
    opening = ports.Savepoint(commit=grant.savepoint, tree=grant.savepoint)
    delivery.end(ports.Violation(paths=(), rule="", savepoint=opening))
    delivery.custody.settle_interrupted()
    assert repo.read("a.txt") == b"a\n"


def test_what_a_scan_would_pass_over_is_in_no_mark(repo: Repo, deliver: Deliver) -> None:
    """Ignored files, what is in a nested repository, and .git are not kept, whoever names them; a tracked ignored one is."""
    repo.write("forced.log", "forced\n")
    repo.git("add", "-f", "forced.log")
    repo.git("commit", "-q", "-m", "forced")
    delivery = deliver(repo)
    delivery.custody.baseline()
    grant = delivery.begin()
    names = [
        "build/deep/secret",
        "secret.log",
        "nested/inner.txt",
        "forced.log",
        ".git/config",
        "../outside",
        "src/b.py/x",
    ]
    repo.git("init", "-q", "nested")
    for name in names[:4]:
        repo.write(name, "secret\n")
    kept = delivery.mark(grant, *names)
    assert set(kept.changed) == {"nested", "forced.log"}
    listed = repo.git("--git-dir", str(delivery.layout.store), "ls-tree", "-r", "--name-only", f"{kept.commit}:work")
    assert listed.split() == [".gitignore", "a.txt", "forced.log", "src/b.py"]
    assert isinstance(delivery.custody.settle(grant), ports.Accepted)


def test_a_mark_without_changes_names_the_savepoint_before_it(repo: Repo, delivery: Delivery) -> None:
    """No commit is made; the record still stands beside the call's result."""
    grant = delivery.begin()
    kept = delivery.mark(grant, "a.txt", "no/such/file")
    assert (kept.commit, kept.changed) == (grant.savepoint, ())
    assert delivery.taken()[-1].role == "mid-step"


def test_a_captured_file_that_cannot_be_kept_fails_the_mark(repo: Repo, deliver: Deliver) -> None:
    """It is named; a new file beyond the limit is reported instead, and the attempt's verdict says the same."""
    from custody.scan import Budget  # the limit of this one test

    work = deliver(repo, budget=Budget(file_bytes=100))
    work.custody.baseline()
    grant = work.begin()
    repo.write("big.bin", b"x" * 200)
    assert work.mark(grant, "big.bin").changed == ("big.bin",)
    repo.write("a.txt", b"x" * 200)
    with pytest.raises(EnvironmentFault, match=r"a\.txt") as caught:
        work.custody.mark(grant, ("a.txt",))
    assert caught.value.code is Code.CAPTURE_FAILED
    repo.write("a.txt", "small\n")
    assert work.mark(grant, "a.txt").changed == ("a.txt",)
    assert isinstance(work.custody.settle(grant), ports.Accepted)


def test_only_the_open_grant_may_mark(repo: Repo, delivery: Delivery) -> None:
    """Another, an altered one and one that was settled are refused; an expired one is the tools' business."""
    grant = delivery.begin(READ_ONLY)
    for forged in (replace(grant, scope=EVERYTHING), replace(grant, nonce="0"), replace(grant, attempt=2)):
        with pytest.raises(IntegrityError) as caught:
            delivery.custody.mark(forged, ("a.txt",))
        assert caught.value.code is Code.GRANT_INVALID
    delivery.clock.seconds += 3600
    delivery.custody.mark(grant, ("a.txt",))
    delivery.custody.settle(grant)
    with pytest.raises(IntegrityError):
        delivery.custody.mark(grant, ("a.txt",))


def test_a_mark_costs_one_git_process(repo: Repo, delivery: Delivery) -> None:
    """And a second one for the first new path of an attempt, which stays; somebody who ends that one changes nothing."""
    grant = delivery.begin()
    counts = []
    for number in range(5):
        before = delivery.custody.git_processes
        repo.write(f"new{number}.txt")
        repo.write("a.txt", f"{number}\n")
        delivery.mark(grant, "a.txt", f"new{number}.txt")
        counts.append(delivery.custody.git_processes - before)
    assert counts[1:] == [1] * 4


def test_packs_are_gathered_and_nothing_is_lost(repo: Repo, deliver: Deliver) -> None:
    """Each savepoint is one pack; however many there were, few are left, and every one of them can be read."""
    told: list[str] = []
    work = deliver(repo, before_effect=told.append)
    work.custody.baseline()
    grant, commits = work.begin(), []
    for number in range(PACKS_MAX + 10):
        repo.write("n.txt", f"{number}\n")
        commits.append(work.mark(grant, "n.txt").commit)
    assert told.count("gather packs") == 1
    assert len(list((work.layout.store / "objects/pack").glob("*.pack"))) < PACKS_MAX
    asked = "".join(f"{commit}:work/n.txt\n" for commit in commits).encode()
    store = ("--git-dir", str(work.layout.store))
    texts = repo.git(*store, "cat-file", "--batch=", stdin=asked).split("\n")
    assert [text for text in texts if text] == [str(number) for number in range(PACKS_MAX + 10)]
    repo.git(*store, "fsck", "--strict")


def test_a_mark_that_fails_is_tried_again(repo: Repo, deliver: Deliver) -> None:
    """A full disk leaves nothing behind that the next try would trip over or trust."""
    failing = [True]

    def full(what: str) -> None:
        if what == "keep mark" and failing.pop():
            raise OSError(28, "No space left on device")

    work = deliver(repo, before_effect=full)
    work.custody.baseline()
    grant = work.begin()
    repo.write("a.txt", "1\n")
    with pytest.raises(EnvironmentFault) as caught:
        work.custody.mark(grant, ("a.txt",))
    assert caught.value.code is Code.DISK_FULL
    failing.append(False)
    work.mark(grant, "a.txt")
    crash(work, repo)
    failing.append(False)
    work.begin(resume=True)
    assert repo.read("a.txt") == b"1\n"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a/b.txt", (b"a/b.txt",)),
        ("%41", (b"%41",)),
        ("%C3%A9", (b"%C3%A9",)),
        ("x%FF", (b"x%FF", b"x\xff")),
        ("x%0Ay", (b"x%0Ay", b"x\ny")),
        ("%41%FF", (b"%41%FF", b"%41\xff")),
        ("é%E2%80%8B", ("é%E2%80%8B".encode(), "é\u200b".encode())),
    ],
)
def test_a_shown_name_means_every_path_that_is_shown_so(text: str, paths: tuple[bytes, ...]) -> None:
    """The text itself, and what ``show`` would have escaped to it."""
    assert meant(text) == paths
    assert all(show(path) == text for path in paths)


def test_killed_while_going_back_to_a_mark(repo: Repo, deliver: Deliver) -> None:
    """The next process ends at the mark all the same."""
    work = deliver(repo)
    work.custody.baseline()
    grant = work.begin()
    repo.write("a.txt", "1\n")
    work.mark(grant, "a.txt")
    repo.write("a.txt", "2\n")

    def kill(what: str) -> None:
        if what.startswith("rename"):
            raise Killed(what)

    work.before_effect = kill
    work.restart()
    with pytest.raises(Killed):
        work.begin(resume=True)
    work.before_effect = None
    work.restart()
    work.begin(resume=True)
    assert repo.read("a.txt") == b"1\n"
