"""What a savepoint holds: everything that counts, byte for byte, whatever it is called and however it was written."""

import errno
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.reading import Reader, Unreadable
from custody.scan import Budget
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import SavepointTaken
from runner.contract.scope import EVERYTHING, READ_ONLY
from tests.custody.fakes import Delivery, Repo, new_repo, patterns, tree_of

Deliver = Callable[..., Delivery]

NAMES = [
    b"\xff\xfe",
    b"line\nbreak",
    b"tab\there",
    b"-n",
    b":(glob)x",
    b"x" * 255,
    b"quote\"s'\\",
    b" lead",
    b"\x1b[31m",
    b"%41",
    b"~",
]


def last_taken(delivery: Delivery) -> SavepointTaken:
    record = delivery.ledger.last(frozenset({SavepointTaken.KIND}))
    assert record is not None and isinstance(record.event, SavepointTaken)
    return record.event


def test_hostile_names_are_captured_shown_escaped_and_restored(repo: Repo, delivery: Delivery) -> None:
    """Every byte that a name may hold survives capture, rejection, publication; what is shown is printable text."""
    verdict = delivery.attempt(lambda: [repo.write(b"d/" + name, name) for name in NAMES])
    assert isinstance(verdict, ports.Accepted)
    assert "d/%FF%FE" in verdict.savepoint.changed and "d/line%0Abreak" in verdict.savepoint.changed
    assert all(path.isprintable() for path in verdict.savepoint.changed)
    full = tree_of(repo.path)

    def spoil() -> None:
        for name in NAMES:
            repo.at(b"d/" + name).unlink()
        for name in NAMES:
            repo.write(b"e/" + name)

    assert isinstance(delivery.attempt(spoil, READ_ONLY), ports.Violation)
    assert tree_of(repo.path) == full
    _, commit = delivery.custody.preserve()
    listed = repo.git("ls-tree", "-z", "--name-only", f"{commit}:d").split("\0")
    assert {os.fsencode(name) for name in listed if name} == set(NAMES)


def test_a_rewrite_in_the_same_second_with_its_time_put_back_is_noticed(repo: Repo, delivery: Delivery) -> None:
    """Same size, same mtime, whatever the user's ``trustctime`` and ``checkStat`` say."""
    path = repo.path / "a.txt"

    def forge(text: str) -> None:
        status = path.stat()
        with path.open("r+") as file:
            file.write(text)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    for text in ("b", "c", "d"):
        verdict = delivery.attempt(lambda text=text: forge(text))
        assert verdict.savepoint.changed == ("a.txt",)
    assert isinstance(delivery.attempt(lambda: forge("e"), READ_ONLY), ports.Violation)
    assert path.read_text() == "d\n"


def test_a_tracked_file_that_is_also_ignored_counts(tmp_path: Path, deliver: Deliver) -> None:
    """A forced file in an ignored directory is captured, judged and restored; its untracked neighbour is let alone."""
    repo = new_repo(tmp_path / "r", files={".gitignore": "build/\n*.log\n"})
    repo.write("build/kept.log", "kept\n")
    repo.write("build/other.log", "other\n")
    repo.git("add", "-f", "build/kept.log")
    repo.git("commit", "-q", "-m", "forced")
    work = deliver(repo)
    work.custody.baseline()
    spoil = lambda: (repo.write("build/kept.log", "1\n"), repo.write("build/other.log", "2\n"))  # noqa: E731
    verdict = work.attempt(spoil, READ_ONLY)
    assert isinstance(verdict, ports.Violation) and verdict.paths == ("modified build/kept.log",)
    assert (repo.read("build/kept.log"), repo.read("build/other.log")) == (b"kept\n", b"2\n")


def test_an_ignored_file_that_an_attempt_stages_is_never_deleted(repo: Repo, delivery: Delivery) -> None:
    """``git add -f`` of a secret outside the scope is undone in the index; the file itself, its bytes and mode stay."""
    repo.write("secret.log", "s3cret\n", 0o600)
    verdict = delivery.attempt(lambda: repo.git("add", "-f", "secret.log"), patterns("src/**"))
    assert isinstance(verdict, ports.Violation) and "staged secret.log" in verdict.paths
    assert repo.read("secret.log") == b"s3cret\n"
    assert (repo.path / "secret.log").stat().st_mode & 0o777 == 0o600
    assert repo.git("ls-files", "secret.log") == ""
    assert isinstance(delivery.attempt(lambda: None, READ_ONLY), ports.Accepted)


def test_an_ignored_secret_is_in_no_savepoint(repo: Repo, deliver: Deliver) -> None:
    """Its bytes are not in the store, and the store is for its owner only."""
    path = repo.write("secret.log", "do-not-keep\n", 0o600)
    work = deliver(repo)
    work.custody.baseline()
    work.attempt(lambda: repo.write("n.txt"))
    work.attempt(lambda: repo.write("n.txt", "2\n"), READ_ONLY)
    oid = repo.git("hash-object", "--no-filters", str(path))
    store = str(work.layout.store)
    assert oid not in repo.git("--git-dir", store, "cat-file", "--batch-all-objects", "--batch-check")
    assert path.read_bytes() == b"do-not-keep\n" and path.stat().st_mode & 0o777 == 0o600
    assert Path(store).stat().st_mode & 0o777 == 0o700


def test_special_files_are_reported_and_never_opened(repo: Repo, delivery: Delivery) -> None:
    """A FIFO or socket outside the scope is a violation and goes; nothing blocks on it."""

    def work() -> None:
        os.mkfifo(repo.path / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(repo.path / "sock"))

    verdict = delivery.attempt(work, READ_ONLY)
    assert isinstance(verdict, ports.Violation) and verdict.paths == ("special pipe", "special sock")
    assert not (repo.path / "pipe").exists()


def test_nested_repositories_are_reported_and_their_siblings_captured(repo: Repo, delivery: Delivery) -> None:
    """With and without a commit; nothing in them is read or moved."""

    def work() -> None:
        repo.git("init", "-q", "empty-sub")
        nested = new_repo(repo.path / "full/sub")
        nested.write("inner.txt")
        repo.write("full/sibling.txt")

    verdict = delivery.attempt(work)
    assert isinstance(verdict, ports.Accepted)
    assert "full/sibling.txt" in verdict.savepoint.changed
    assert last_taken(delivery).not_captured == ("empty-sub: nested repository", "full/sub: nested repository")
    assert isinstance(delivery.attempt(lambda: repo.write("a.txt", "2\n"), keep=False), ports.Accepted)
    assert (repo.path / "full/sub/inner.txt").exists() and (repo.path / "full/sub/.git/HEAD").exists()


def test_a_repository_made_around_captured_files_hides_none_of_them(repo: Repo, delivery: Delivery) -> None:
    """``git init`` in a directory that holds captured files: they are still judged and restored."""
    verdict = delivery.attempt(lambda: (repo.git("init", "-q", "src"), repo.write("src/b.py", "hidden?\n")), READ_ONLY)
    assert isinstance(verdict, ports.Violation)
    assert "modified src/b.py" in verdict.paths and "uncaptured src/.git" in verdict.paths
    assert repo.read("src/b.py") == b"b = 1\n"


def test_a_file_above_the_limit_is_reported_and_left(repo: Repo, deliver: Deliver) -> None:
    """It is named with its size, is no part of the result, and no restore deletes it."""
    work = deliver(repo, budget=Budget(file_bytes=1000))
    work.custody.baseline()
    verdict = work.attempt(lambda: (repo.write("big.bin", b"x" * 2000), repo.write("n.txt")))
    assert isinstance(verdict, ports.Accepted)
    assert last_taken(work).not_captured == ("big.bin: too large (2000 bytes)",)
    work.attempt(lambda: repo.write("n.txt", "2\n"), keep=False)
    assert len(repo.read("big.bin")) == 2000
    _, commit = work.custody.preserve()
    assert repo.git("diff", "--name-only", "HEAD", commit) == "n.txt"


def test_a_captured_file_that_outgrows_the_limit_is_no_deletion(repo: Repo, deliver: Deliver) -> None:
    """There is no savepoint then, and the message names the file."""
    work = deliver(repo, budget=Budget(file_bytes=1000))
    work.custody.baseline()
    grant = work.begin()
    repo.write("a.txt", b"x" * 2000)
    with pytest.raises(EnvironmentFault, match=r"a\.txt") as caught:
        work.custody.settle(grant)
    assert caught.value.code is Code.CAPTURE_FAILED
    repo.write("a.txt", "small again\n")
    assert isinstance(work.custody.settle(grant), ports.Accepted)


def test_a_budget_names_the_directory_that_broke_it(repo: Repo, deliver: Deliver) -> None:
    """A forgotten build directory ends in a typed error, not in a hang."""
    for number in range(60):
        repo.write(f"out/obj/{number % 3}/{number}.o")
    work = deliver(repo, budget=Budget(files=40))
    with pytest.raises(EnvironmentFault, match="out/obj/") as caught:
        work.custody.baseline()
    assert caught.value.code is Code.CAPTURE_BUDGET


def test_an_unreadable_captured_file_fails_the_savepoint_by_name(
    tmp_path: Path, repo: Repo, delivery: Delivery
) -> None:
    """A path that was captured and cannot be read is neither skipped nor taken for deleted; nor is a directory."""
    for spoiled in ("a.txt", "src"):
        grant = delivery.begin(EVERYTHING)
        mode = (repo.path / spoiled).stat().st_mode & 0o777
        (repo.path / spoiled).chmod(0)
        repo.write("n.txt")
        with as_nobody(repo.path.parent), pytest.raises(EnvironmentFault, match=spoiled) as caught:
            delivery.custody.settle(grant)
        assert caught.value.code is Code.CAPTURE_FAILED
        (repo.path / spoiled).chmod(mode)
        delivery.end(delivery.custody.discard(grant))
        assert not (repo.path / "n.txt").exists()


class as_nobody:
    """Root may read everything: the block runs as an ordinary user, who owns the files meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._root = os.geteuid() == 0

    def _own(self, uid: int) -> None:
        for place in [self._path, *self._path.rglob("*")]:
            os.lchown(place, uid, -1)
        for above in self._path.parents:
            if above.name.startswith(("pytest", "popen", "test_")):
                above.chmod(above.stat().st_mode | 0o011)

    def __enter__(self) -> None:
        if self._root:
            self._own(65534)
            os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        if self._root:
            os.seteuid(0)
            self._own(0)


CONFIGS = [
    {"core.autocrlf": "true"},
    {"core.fileMode": "false"},
    {"core.ignorecase": "true"},
    {"core.trustctime": "false", "core.checkStat": "minimal"},
    {"core.symlinks": "false"},
    {"filter.boom.clean": "false", "filter.boom.smudge": "false", "filter.boom.required": "true"},
]


@pytest.mark.parametrize("config", CONFIGS, ids="-".join)
def test_content_and_modes_come_back_byte_for_byte(repo: Repo, deliver: Deliver, config: dict[str, str]) -> None:
    """Line ends, ident, UTF-16 and modes are raw in a savepoint, whatever attributes and config say."""
    repo.write(
        ".gitattributes", "*.txt eol=crlf\n*.id ident\n*.w working-tree-encoding=UTF-16LE eol=lf\n*.f filter=boom\n"
    )
    repo.write("pointer.f", "oid\n")
    repo.write("lines.txt", "one\r\ntwo\r\n")
    repo.write("i.id", "$Id$\n")
    repo.write("wide.w", "wide\n".encode("utf-16-le"))
    repo.write("run.sh", "#!/bin/sh\n", 0o755)
    repo.commit("converted")
    for name, value in config.items():
        repo.git("config", name, value)
    repo.write("raw.dat", b"mixed\r\nends\n", 0o600)
    (repo.path / "private").mkdir(mode=0o700)
    work = deliver(repo, include_dirty=True)
    work.custody.baseline()
    before = tree_of(repo.path)

    def spoil() -> None:
        for name in ("lines.txt", "i.id", "wide.w", "raw.dat", "run.sh", "pointer.f"):
            repo.write(name, "spoiled\n", 0o644)
        (repo.path / "private").rmdir()

    assert isinstance(work.attempt(spoil, READ_ONLY), ports.Violation)
    assert tree_of(repo.path) == before


def test_only_changed_paths_are_converted_in_the_result(repo: Repo, deliver: Deliver) -> None:
    """A changed file is stored as git would store it; an unchanged one keeps the base's entry even where the conversion
    would give another."""
    repo.write(".gitattributes", "*.txt eol=crlf\n*.w working-tree-encoding=UTF-16LE\n*.id ident\n")
    repo.write("x.txt", "one\r\ntwo\r\n")
    repo.write("w.w", "wide\n".encode("utf-16-le"))
    repo.write("i.id", "$Id$\n")
    repo.write("odd.dat", "kept\r\nas it is\r\n")
    repo.commit("converted")
    repo.git("config", "core.autocrlf", "input")
    work = deliver(repo)
    work.custody.baseline()

    def edit() -> None:
        repo.write("x.txt", "one\r\nTWO\r\n")
        repo.write("w.w", "wider\n".encode("utf-16-le"))
        repo.write("i.id", "$Id: 123 $ new\n")

    work.attempt(edit)
    _, commit = work.custody.preserve()
    assert repo.show(commit, "x.txt") == b"one\nTWO\n"
    assert repo.show(commit, "w.w") == b"wider\n"
    assert repo.show(commit, "i.id") == b"$Id$ new\n"
    assert repo.show(commit, "odd.dat") == b"kept\r\nas it is\r\n"


def test_a_changed_file_behind_an_external_filter_is_refused_by_name(repo: Repo, deliver: Deliver) -> None:
    """Unchanged ones are no obstacle, neither at the baseline nor in the result."""
    repo.write(".gitattributes", "*.big filter=lfs\n")
    repo.write("p.big", "pointer\n")
    repo.commit("filtered")
    repo.write("p.big", "smudged content\n")
    for name, changed in (("n.txt", False), ("q.big", True)):
        work = deliver(repo, delivery=f"filter-{changed}".lower())
        work.custody.baseline()
        work.attempt(lambda name=name: repo.write(name))
        if changed:
            with pytest.raises(EnvironmentFault, match=r"q\.big \(filter lfs\)"):
                work.custody.preserve()
        else:
            work.custody.preserve()


def test_a_sparse_checkout_loses_nothing(repo: Repo, deliver: Deliver) -> None:
    """What is outside the cone is neither deleted in the result nor created by a restore; the index stays sparse."""
    repo.write("far/away.txt")
    repo.commit("far")
    repo.git("sparse-checkout", "set", "--cone", "src")
    flags = repo.git("ls-files", "-t")
    assert not (repo.path / "far").exists()
    work = deliver(repo)
    work.custody.baseline()
    work.attempt(lambda: repo.write("src/n.py"))
    work.attempt(lambda: repo.write("src/m.py"), READ_ONLY)
    _, commit = work.custody.preserve()
    assert repo.git("diff", "--name-only", "HEAD", commit) == "src/n.py"
    assert repo.git("ls-files", "-t") == flags and not (repo.path / "far").exists()


def test_the_users_gc_between_all_steps_loses_no_savepoint(repo: Repo, delivery: Delivery) -> None:
    """Staged content, dropped commits and base objects that only a savepoint needs stay restorable."""
    work = lambda: (repo.write("a.txt", "staged\n"), repo.git("add", "a.txt"), repo.write("n.txt"))  # noqa: E731
    verdict = delivery.attempt(work)
    assert isinstance(verdict, ports.Accepted)
    full, entries = tree_of(repo.path), repo.git("ls-files", "-s")

    def lose() -> None:
        repo.git("reset", "-q", "--hard")
        repo.git("reflog", "expire", "--expire=now", "--all")
        repo.git("gc", "-q", "--prune=now")

    assert isinstance(delivery.attempt(lose, READ_ONLY), ports.Violation)
    assert (tree_of(repo.path), repo.git("ls-files", "-s")) == (full, entries)
    assert repo.git("cat-file", "-p", ":a.txt") == "staged"
    repo.git("fsck", "--strict")


def test_git_processes_per_attempt_do_not_grow(repo: Repo, delivery: Delivery) -> None:
    """However many attempts came before, one that writes one known file starts one process, and one more while the index is
    so young that its time proves nothing."""
    counts = []
    for number in range(10):
        before = delivery.custody.git_processes
        delivery.attempt(lambda number=number: repo.write("n.txt", f"{number}\n"))
        counts.append(delivery.custody.git_processes - before)
    assert set(counts[1:]) <= {1, 2}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EAGAIN])
def test_a_machine_that_refuses_makes_no_file_unreadable(tmp_path: Path, number: int) -> None:
    """An error while a new file's content is kept is no property of that file: it travels, and nothing is left out."""
    (tmp_path / "new").write_bytes(b"new")

    def keep(oid: str, data: bytes) -> None:
        raise OSError(number, os.strerror(number))

    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            Reader("sha1", 1000).regular(directory, b"new", 0, keep)
    finally:
        os.close(directory)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_an_error_of_the_machine_is_no_property_of_a_path(number: int) -> None:
    """Whoever cannot open a file for want of handles or memory must not report it as unreadable and go on."""
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        Unreadable.of(OSError(number, os.strerror(number)))
    assert "Permission denied" in Unreadable.of(OSError(errno.EACCES, "")).why
