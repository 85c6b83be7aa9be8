"""Restoring: exactly what was, nothing outside, nothing that is in no savepoint, and from wherever a kill left it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.restore import TEMP_PREFIX
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.scope import READ_ONLY
from tests.custody.fakes import Delivery, Killed, Repo, fingerprint, lose_object, patterns, tree_of

Deliver = Callable[..., Delivery]


def test_untouched_files_keep_time_and_inode(repo: Repo, delivery: Delivery) -> None:
    """Only what differs is written."""
    before = (repo.path / "a.txt").stat()
    verdict = delivery.attempt(lambda: repo.write("src/b.py", "spoiled\n"), READ_ONLY)
    assert isinstance(verdict, ports.Violation)
    after = (repo.path / "a.txt").stat()
    assert (after.st_mtime_ns, after.st_ino, after.st_ctime_ns) == (
        before.st_mtime_ns,
        before.st_ino,
        before.st_ctime_ns,
    )


def test_empty_directories_and_modes_come_back(repo: Repo, deliver: Deliver) -> None:
    """0600, 0755, 0700, 0555 and directories with nothing in them."""
    repo.write("private", mode=0o600)
    repo.write("run", mode=0o755)
    for name, mode in (("empty/inner", 0o755), ("closed", 0o700), ("fixed", 0o755)):
        (repo.path / name).mkdir(parents=True)
        (repo.path / name).chmod(mode)
    repo.write("fixed/f.txt")
    (repo.path / "fixed").chmod(0o555)
    work = deliver(repo)
    work.custody.baseline()
    before = tree_of(repo.path)

    def spoil() -> None:
        for name in ("private", "run"):
            (repo.path / name).chmod(0o777)
        (repo.path / "empty/inner").rmdir()
        (repo.path / "empty").rmdir()
        (repo.path / "closed").chmod(0o755)
        (repo.path / "fixed").chmod(0o755)
        (repo.path / "fixed/f.txt").unlink()
        (repo.path / "new/deep/er").mkdir(parents=True)

    verdict = work.attempt(spoil, READ_ONLY)
    assert isinstance(verdict, ports.Violation)
    assert {"mode closed/", "mode fixed/", "deleted empty/inner/", "created new/deep/er/"} <= set(verdict.paths)
    assert tree_of(repo.path) == before
    (repo.path / "fixed").chmod(0o755)


def test_directories_swapped_for_links_lead_nowhere(repo: Repo, delivery: Delivery) -> None:
    """A directory that became a link to the outside, or a dangling one, is a directory again, and the outside is as it
    was."""
    outside = repo.path.parent / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("not ours\n")
    before = tree_of(repo.path)

    for target in (str(outside), "/nonexistent/place"):

        def swap(target: str = target) -> None:
            (repo.path / "src/b.py").unlink()
            (repo.path / "src").rmdir()
            (repo.path / "src").symlink_to(target)

        assert isinstance(delivery.attempt(swap, READ_ONLY), ports.Violation)
        assert tree_of(repo.path) == before
        assert tree_of(outside) == {"b.py": ("file", 0o644, b"not ours\n")}


def test_files_and_directories_change_places_and_back(repo: Repo, delivery: Delivery) -> None:
    """A file where a directory was, a directory where a file was, links where files were."""
    before = tree_of(repo.path)

    def swap() -> None:
        (repo.path / "src/b.py").unlink()
        (repo.path / "src").rmdir()
        repo.write("src", "now a file\n")
        (repo.path / "a.txt").unlink()
        repo.write("a.txt/inner/deep.txt")
        (repo.path / "link").symlink_to("a.txt")

    assert isinstance(delivery.attempt(swap, READ_ONLY), ports.Violation)
    assert tree_of(repo.path) == before
    assert isinstance(delivery.attempt(swap), ports.Accepted)
    swapped = tree_of(repo.path)

    def back() -> None:
        (repo.path / "a.txt/inner/deep.txt").unlink()
        (repo.path / "a.txt/inner").rmdir()
        (repo.path / "a.txt").rmdir()
        (repo.path / "src").unlink()
        repo.write("a.txt")
        repo.write("src/b.py")
        (repo.path / "link").unlink()

    assert isinstance(delivery.attempt(back, READ_ONLY), ports.Violation)
    assert tree_of(repo.path) == swapped


def test_an_ignored_file_in_the_way_is_never_deleted(repo: Repo, delivery: Delivery) -> None:
    """Where a directory that holds one must become a file again, nothing is touched and the message names it; moved away,
    the same call succeeds."""
    grant = delivery.begin(READ_ONLY)
    (repo.path / "a.txt").unlink()
    keep = repo.write("a.txt/precious.log", "precious\n")
    repo.write("src/b.py", "spoiled\n")
    spoiled = tree_of(repo.path)
    with pytest.raises(EnvironmentFault, match=r"a\.txt/precious\.log") as caught:
        delivery.custody.settle(grant)
    assert caught.value.code is Code.RESTORE_BLOCKED
    assert tree_of(repo.path) == spoiled
    keep.rename(repo.path.parent / "kept.log")
    assert isinstance(delivery.custody.settle(grant), ports.Violation)
    assert repo.read("a.txt") == b"a\n" and repo.read("src/b.py") == b"b = 1\n"


def test_what_is_deleted_or_overwritten_is_in_the_store(repo: Repo, delivery: Delivery) -> None:
    """The rejected work of an attempt can be read from the store's history."""
    delivery.attempt(lambda: repo.write("lost.txt", "an idea\n"), READ_ONLY)
    store = ("--git-dir", str(delivery.layout.store))
    assert repo.git(*store, "show", "refs/custody/savepoints:work/lost.txt") == "an idea"
    repo.git(*store, "fsck", "--strict")


def test_a_lost_blob_is_named_before_anything_is_touched(repo: Repo, delivery: Delivery) -> None:
    """A restore that cannot be finished is not begun."""
    delivery.attempt(lambda: repo.write("n.txt", "only here\n"))
    grant = delivery.begin(READ_ONLY)
    repo.write("n.txt", "2\n")
    repo.write("a.txt", "2\n")
    oid = repo.git("hash-object", "--stdin", stdin=b"only here\n")
    lose_object(delivery.layout.store, oid)
    with pytest.raises(IntegrityError, match=r"n\.txt") as caught:
        delivery.custody.settle(grant)
    assert caught.value.code is Code.SAVEPOINT_MISSING
    assert repo.read("a.txt") == b"2\n"


@pytest.mark.parametrize("effect", ["delete new.txt", "rename a.txt", "close journal"])
def test_a_process_that_still_writes_is_noticed(repo: Repo, deliver: Deliver, effect: str) -> None:
    """What it writes while the worktree is put back is neither overwritten nor deleted before it is kept, and the operation
    says that it failed; when nothing writes any more, the same call finds the same verdict."""
    late = {"delete new.txt": "new.txt", "rename a.txt": "a.txt", "close journal": "src/b.py"}[effect]
    running = [True]

    def write(what: str) -> None:
        if what == effect and running:
            repo.write(late, "written late, and longer\n")

    work = deliver(repo, before_effect=write)
    work.custody.baseline()
    grant = work.begin(READ_ONLY)
    repo.write("a.txt", "spoiled\n")
    repo.write("new.txt", "new\n")
    if effect == "close journal":
        # Between the proof and the end nothing is looked at any more: the next attempt's verdict finds it.
        work.end(work.custody.settle(grant))
        running.clear()
        work.restart()
        assert isinstance(work.ask(), ports.ForeignEdit)
        return
    with pytest.raises(EnvironmentFault, match=late) as caught:
        work.custody.settle(grant)
    assert caught.value.code is Code.CAPTURE_FAILED
    assert repo.read(late) == b"written late, and longer\n"
    running.clear()
    assert work.custody.settle(grant) == ports.Violation(
        paths=("modified a.txt", "created new.txt"),
        rule="read-only",
        savepoint=work.custody.current(),
        allowed_by=("a.txt", "new.txt"),
    )
    assert tree_of(repo.path).keys() == {".gitignore", "a.txt", "src", "src/b.py"} and repo.read("a.txt") == b"a\n"
    log = repo.git("--git-dir", str(work.layout.store), "log", "--format=%H", "refs/custody/savepoints").split()
    store = str(work.layout.store)
    kept = [repo.git("--git-dir", store, "show", f"{commit}:work/{late}", ok=False) for commit in log]
    assert "written late, and longer" in kept


def test_a_temporary_file_that_is_ignored_is_swept_too(repo: Repo, deliver: Deliver) -> None:
    """Ignore rules that match everything with a dot do not keep what a kill left."""
    repo.write(".gitignore", ".*\n")
    repo.git("add", "-f", ".gitignore")
    repo.git("commit", "-q", "-m", "dots")

    def kill(what: str) -> None:
        if what.startswith("rename"):
            raise Killed(what)

    work = deliver(repo, before_effect=kill)
    work.custody.baseline()
    grant = work.begin(READ_ONLY)
    repo.write("src/b.py", "spoiled\n")
    with pytest.raises(Killed):
        work.custody.settle(grant)
    assert list((repo.path / "src").glob(os.fsdecode(TEMP_PREFIX) + "*"))
    work.before_effect = None
    work.restart()
    work.begin(READ_ONLY, resume=True)
    assert [p.name for p in (repo.path / "src").iterdir()] == ["b.py"]


def test_an_interrupted_attempt_goes_back_to_where_it_started(repo: Repo, delivery: Delivery) -> None:
    """With ``opened_at`` a half-done attempt of a killed process is undone; what a person wrote stays in the store."""
    delivery.attempt(lambda: repo.write("n.txt"))
    full = tree_of(repo.path)
    delivery.begin(patterns("**"))
    repo.write("half.txt")
    repo.write("n.txt", "half\n")
    delivery.restart()
    grant = delivery.begin(patterns("**"), resume=True)
    assert tree_of(repo.path) == full
    assert isinstance(delivery.custody.settle(grant), ports.Accepted)


def test_an_attempt_left_open_at_the_end_is_undone(repo: Repo, delivery: Delivery) -> None:
    """``settle_interrupted`` undoes it in this process and in the next one, once; an edit after that is the user's."""
    full = tree_of(repo.path)
    for restart in (False, True):
        grant = delivery.begin(patterns("**"))
        repo.write("half.txt")
        if restart:
            delivery.restart()
        delivery.end(
            ports.Violation(paths=(), rule="", savepoint=ports.Savepoint(commit=grant.savepoint, tree=grant.savepoint))
        )
        delivery.custody.settle_interrupted()
        assert tree_of(repo.path) == full
        delivery.custody.preserve()
        delivery.custody.publish(requested=False)
        delivery.ledger.writer("host").append()
    delivery.restart()
    repo.write("mine.txt")
    delivery.custody.settle_interrupted()
    assert (repo.path / "mine.txt").exists()


def test_a_lock_of_somebody_else_is_reported_and_stays(repo: Repo, delivery: Delivery) -> None:
    """An ``index.lock`` that is not ours stops the restore of entries by name; removed by its owner, the call succeeds."""
    grant = delivery.begin(READ_ONLY)
    repo.write("a.txt", "2\n")
    repo.git("add", "a.txt")
    lock = repo.write(".git/index.lock", "")
    with pytest.raises(EnvironmentFault, match=r"index\.lock"):
        delivery.custody.settle(grant)
    assert lock.exists()
    lock.unlink()
    assert isinstance(delivery.custody.settle(grant), ports.Violation)
    assert repo.git("status", "--porcelain") == ""


def test_stale_locks_in_the_store_are_healed(repo: Repo, delivery: Delivery) -> None:
    """What a killed git of ours left in the private store hinders no later process."""
    store = delivery.layout.store
    delivery.begin()
    for name in ("refs/custody/savepoints.lock", "objects/pack/tmp_pack_x", "fast_import_crash_1", "packed-refs.lock"):
        (store / name).write_text("")
    delivery.restart()
    grant = delivery.begin(resume=True)
    repo.write("n.txt")
    assert isinstance(delivery.custody.settle(grant), ports.Accepted)
    assert not [
        p for p in Path(store).rglob("*") if "lock" in p.name or p.name.startswith(("tmp_", "fast_import_crash"))
    ]


@pytest.mark.parametrize("kind", ["merge", "rebase", "cherry-pick", "detached"])
def test_operations_in_progress_are_left_as_they_are(repo: Repo, deliver: Deliver, kind: str) -> None:
    """A Delivery with a rejected attempt in the middle of a merge, rebase or cherry-pick disturbs none of its state."""
    repo.git("checkout", "-q", "-b", "other")
    repo.write("a.txt", "other\n")
    repo.commit("other")
    repo.git("checkout", "-q", "main")
    repo.write("a.txt", "mine\n")
    repo.commit("mine")
    if kind == "detached":
        repo.git("checkout", "-q", "--detach")
    else:
        repo.git(kind, "other", ok=False)
    before = fingerprint(repo, target="refs/heads/result")
    work = deliver(repo, include_dirty=True)
    work.custody.baseline()
    assert isinstance(work.attempt(lambda: repo.write("a.txt", "x\n"), READ_ONLY), ports.Violation)
    work.custody.preserve()
    work.custody.publish(requested=True)
    assert fingerprint(repo, target="refs/heads/result") == before
