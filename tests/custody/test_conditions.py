"""Worktrees as they are found: other index formats, other owners, writers at work, many at once, too much of everything."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from custody.scan import Budget
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.scope import READ_ONLY
from tests.custody.fakes import Delivery, Repo, fingerprint, new_repo, tree_of

Deliver = Callable[..., Delivery]


def test_the_baseline_writes_only_what_the_base_does_not_have(place: Path, deliver: Deliver) -> None:
    """Every file of a clean checkout is known already: besides the base's objects there are the savepoint's own four."""
    repo = new_repo(place / "r", files={f"d{n % 7}/f{n}.txt": f"{n}\n" for n in range(300)})
    work = deliver(repo)
    work.custody.baseline()

    def objects(git_dir: Path) -> set[str]:
        listed = repo.git("--git-dir", str(git_dir), "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        return set(listed.split())

    new = objects(work.layout.store) - objects(repo.path / ".git")
    kinds = [repo.git("--git-dir", str(work.layout.store), "cat-file", "-t", oid) for oid in new]
    assert sorted(kinds) == ["blob", "commit", "tree", "tree"]


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(files=40), "more than 40 files"),
        (Budget(bytes=3000), "more than 3000 bytes"),
        (Budget(seconds=0.0), "not scanned within 0 s"),
    ],
)
def test_each_budget_ends_a_scan_and_says_where_most_is(
    repo: Repo, deliver: Deliver, budget: Budget, says: str
) -> None:
    """Files, bytes and time: a forgotten build directory, or a home directory, ends in a typed error and not in a full disk."""
    for number in range(60):
        repo.write(f"out/obj/{number}.o", b"x" * 100)
    with pytest.raises(EnvironmentFault, match=says) as caught:
        deliver(repo, budget=budget).custody.baseline()
    assert caught.value.code is Code.CAPTURE_BUDGET and ".gitignore" in caught.value.remedy


WRITER = """
import os, sys
print("ready", flush=True)
parent = os.getppid()
while os.getppid() == parent:
    with open(sys.argv[1], "r+b") as file:
        file.truncate(10)
        file.write(b"y" * 400_000)
"""


def test_a_file_that_is_written_all_the_time_is_captured_whole_or_not_at_all(repo: Repo, delivery: Delivery) -> None:
    """Neither a crash nor a torn file: a savepoint holds one of the states that the writer made, or the operation says what
    changes; no lock stays."""
    grant = delivery.begin()
    path = repo.write("busy.bin", b"y" * 400_000)
    words = (sys.executable, "-c", WRITER, str(path))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline()
        for _ in range(20):
            try:
                verdict = delivery.custody.settle(grant)
            except EnvironmentFault as fault:
                assert fault.code is Code.CAPTURE_FAILED and "busy.bin" in fault.message
            else:
                assert isinstance(verdict, ports.Accepted)
                delivery.end(verdict)
                grant = delivery.begin()
        writer.kill()
    delivery.end(delivery.custody.settle(grant))
    store = ("--git-dir", str(delivery.layout.store))
    kept = [repo.git(*store, "show", f"{at.savepoint}:work/busy.bin", ok=False) for at in delivery.taken()]
    assert all(set(text) <= {"y"} for text in kept) and kept[-1].encode() == path.read_bytes()
    assert not (repo.path / ".git/index.lock").exists()


def v4(repo: Repo) -> None:
    repo.git("update-index", "--index-version", "4")


def split(repo: Repo) -> None:
    repo.git("update-index", "--split-index")
    repo.write("src/b.py", "b = 1\n")
    repo.git("update-index", "--refresh")


def sparse(repo: Repo) -> None:
    repo.git("config", "index.sparse", "true")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")


@pytest.mark.parametrize("form", [v4, split, sparse])
def test_an_index_keeps_its_form(repo: Repo, deliver: Deliver, form: Callable[[Repo], None]) -> None:
    """Not a byte of it changes until entries have to be put back; then only those do, and git reads all of it."""
    repo.write("far/away/deep.txt")
    repo.write("far/off.txt")
    repo.commit("far")
    form(repo)
    work = deliver(repo)
    before, entries = fingerprint(repo), repo.git("ls-files", "-s", "-v")
    work.custody.baseline()
    work.attempt(lambda: repo.write("src/n.py"))
    work.attempt(lambda: repo.write("src/b.py", "2\n"), READ_ONLY)
    assert fingerprint(repo) == before
    verdict = work.attempt(lambda: (repo.write("src/b.py", "3\n"), repo.git("add", "src/b.py")), READ_ONLY)
    assert isinstance(verdict, ports.Violation) and "staged src/b.py" in verdict.paths
    assert repo.git("ls-files", "-s", "-v") == entries
    assert repo.git("status", "--porcelain") == "?? src/n.py"
    repo.git("fsck", "--strict")


def test_a_repository_of_another_owner_works(place: Path, repo: Repo, deliver: Deliver) -> None:
    """Git refuses such a one where it has to find it by itself; custody is told where it is, and runs nothing of it."""
    for path in [repo.path, *repo.path.rglob("*")]:
        if os.geteuid() == 0:
            os.lchown(path, 65534, 65534)
    work = deliver(repo) if os.geteuid() else delivered_as_root(repo, deliver)
    work.custody.baseline()
    before = tree_of(repo.path)
    assert isinstance(work.attempt(lambda: repo.write("a.txt", "2\n"), READ_ONLY), ports.Violation)
    assert tree_of(repo.path) == before
    work.attempt(lambda: repo.write("n.txt"))
    work.custody.preserve()
    assert work.custody.publish(requested=True).disposition == "published"


def delivered_as_root(repo: Repo, deliver: Deliver) -> Delivery:
    """The user's own git needs to be told that the repository is safe; ours is not told."""
    refused = subprocess.run(["git", "status"], cwd=repo.path, capture_output=True, text=True, check=False)
    assert "dubious ownership" in refused.stderr
    home = repo.path.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[safe]\n\tdirectory = {repo.path}\n")
    return deliver(repo)


def test_ten_worktrees_of_one_repository_at_once(repo: Repo, deliver: Deliver) -> None:
    """Attempts, violations and publications of all at the same time: no lock fails, nothing is mixed up."""
    names = [f"w{number}" for number in range(10)]
    trees = {name: repo.worktree(name) for name in names}
    works = {name: deliver(trees[name], delivery=name, target=f"refs/heads/{name}") for name in names}

    for work in works.values():
        work.close()  # a ledger belongs to the thread that opened it

    def whole(name: str) -> str:
        work, tree = works[name], trees[name]
        work.reopen()
        work.custody.baseline()
        for number in range(3):
            work.attempt(lambda: (tree.write(f"{name}.txt", f"{number}\n"), tree.git("add", f"{name}.txt")))  # noqa: B023
            verdict = work.attempt(lambda: (tree.write("a.txt", name), tree.git("add", "a.txt")), READ_ONLY)
            assert isinstance(verdict, ports.Violation)
        work.custody.preserve()
        published = work.custody.publish(requested=True).disposition
        work.close()
        return published

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(whole, names)) == ["published"] * len(names)
    for name in names:
        assert repo.git("diff", "--name-only", "main", name) == f"{name}.txt"
        assert trees[name].read("a.txt") == b"a\n"
