"""The verdict: what an attempt did outside its scope is found, named, and put back; hiding it does not help."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from runner.contract import ports
from runner.contract.errors import Code, IntegrityError
from runner.contract.ids import StepRef
from runner.contract.scope import EVERYTHING, READ_ONLY
from tests.custody.fakes import Delivery, Repo, patterns, tree_of

Deliver = Callable[..., Delivery]


def test_writes_outside_the_scope_are_named_and_put_back(repo: Repo, delivery: Delivery) -> None:
    """Created, modified, deleted, chmod-ed and retyped paths, and empty directories, each with its kind; inside writes of
    the same attempt go too."""
    before = tree_of(repo.path)

    def work() -> None:
        repo.write("src/ok.py")
        repo.write("new.txt")
        repo.write("a.txt", "b\n")
        repo.write(".gitignore", "*\n").chmod(0o600)
        (repo.path / "empty").mkdir()
        (repo.path / "src/b.py").unlink()
        (repo.path / "src/b.py").symlink_to("/etc/passwd")

    verdict = delivery.attempt(work, patterns("src/ok.py"))
    assert isinstance(verdict, ports.Violation)
    assert verdict.paths == (
        "modified .gitignore",
        "modified a.txt",
        "created empty/",
        "created new.txt",
        "type src/b.py",
    )
    assert verdict.rule == "src/ok.py"
    assert verdict.allowed_by == (".gitignore", "a.txt", "empty", "new.txt", "src/b.py")
    assert verdict.savepoint.commit == delivery.custody.baseline().commit
    assert tree_of(repo.path) == before


def test_inside_the_scope_everything_is_accepted(repo: Repo, delivery: Delivery) -> None:
    """The changed paths are listed, files stay."""
    verdict = delivery.attempt(lambda: (repo.write("src/x/y.py"), repo.write("src/b.py", "2\n")), patterns("src/**"))
    assert isinstance(verdict, ports.Accepted)
    assert verdict.savepoint.changed == ("src/b.py", "src/x/y.py")
    assert repo.read("src/x/y.py") == b"x\n"


def test_a_failed_attempt_leaves_no_trace_even_inside_its_scope(repo: Repo, delivery: Delivery) -> None:
    """``discard`` names the opening savepoint and the tree is what it was."""
    before = tree_of(repo.path)
    opening = delivery.custody.current()
    verdict = delivery.attempt(lambda: repo.write("src/x.py"), keep=False)
    assert isinstance(verdict, ports.Accepted) and verdict.savepoint.commit == opening.commit
    assert tree_of(repo.path) == before


def test_new_ignore_rules_hide_nothing(repo: Repo, delivery: Delivery) -> None:
    """An agent's ``.gitignore`` with ``*``, at the root or below, an exclude line, and a removed rule change no verdict."""

    def work() -> None:
        repo.write(".gitignore", "*\n")
        repo.write("sub/.gitignore", "*\n")
        repo.write("sub/secret.txt")
        repo.write("x.log", "ignored by the admitted rules\n")

    verdict = delivery.attempt(work, patterns(".gitignore"))
    assert isinstance(verdict, ports.Violation)
    assert verdict.paths == ("created sub/.gitignore", "created sub/secret.txt")
    assert repo.read("x.log") == b"ignored by the admitted rules\n"


def test_ignore_files_below_keep_their_reach(tmp_path: object, repo: Repo, deliver: Deliver) -> None:
    """Rules of nested ignore files, negations and the exclude file mean what they mean to git."""
    repo.write("src/.gitignore", "*.tmp\n!keep.tmp\n/only-here\nd/\n")
    repo.write("we[i]rd/.gitignore", "x\n")
    repo.commit("ignore files")
    repo.write(".git/info/exclude", "*.excluded\n")
    names = [
        "src/a.tmp",
        "src/deep/b.tmp",
        "src/keep.tmp",
        "src/only-here",
        "src/deep/only-here",
        "a.tmp",
        "src/deep/d/f",
    ]
    names += ["we[i]rd/x", "weird/x", "z.excluded", "build/out", "src/only-here2"]
    work = deliver(repo)
    work.custody.baseline()
    verdict = work.attempt(lambda: [repo.write(name) for name in names])
    assert isinstance(verdict, ports.Accepted)
    ignored = repo.git("check-ignore", *names).splitlines()
    assert set(verdict.savepoint.changed) == set(names) - set(ignored)
    assert len(ignored) == 7


def test_staging_outside_the_scope_is_a_violation(repo: Repo, delivery: Delivery) -> None:
    """Index entries count: a staged path outside is named and its entry put back; ``git status`` alone is no change."""
    entries = repo.git("ls-files", "-s", "-v")

    def work() -> None:
        repo.write("a.txt", "staged\n")
        repo.git("add", "a.txt")
        repo.git("update-index", "--skip-worktree", "src/b.py")
        repo.git("rm", "-q", "--cached", ".gitignore")

    verdict = delivery.attempt(work, patterns("src/**"))
    assert isinstance(verdict, ports.Violation)
    assert verdict.paths == ("staged .gitignore", "modified a.txt", "staged a.txt")
    assert repo.git("ls-files", "-s", "-v") == entries
    assert repo.git("status", "--porcelain") == ""
    assert isinstance(delivery.attempt(lambda: repo.git("status"), READ_ONLY), ports.Accepted)


def test_a_conflict_in_the_index_is_kept_and_put_back(repo: Repo, deliver: Deliver) -> None:
    """With a merge in progress all stages are captured; an attempt that resolves it outside its scope is undone."""
    repo.git("checkout", "-q", "-b", "other")
    repo.write("a.txt", "other\n")
    repo.commit("other")
    repo.git("checkout", "-q", "main")
    repo.write("a.txt", "mine\n")
    repo.commit("mine")
    repo.git("merge", "other", ok=False)
    entries = repo.git("ls-files", "-s")
    assert "\ta.txt" in entries and entries.count("a.txt") == 3
    work = deliver(repo, include_dirty=True)
    work.custody.baseline()
    verdict = work.attempt(lambda: (repo.write("a.txt", "resolved\n"), repo.git("add", "a.txt")), patterns("src/**"))
    assert isinstance(verdict, ports.Violation)
    assert repo.git("ls-files", "-s") == entries
    assert (repo.path / ".git/MERGE_HEAD").exists() and b"<<<<<<<" in repo.read("a.txt")


def test_planted_hooks_and_config_are_reported_and_never_run(repo: Repo, delivery: Delivery) -> None:
    """fsmonitor, filters, hooksPath and hooks appear during an attempt: the verdict names them, the attempt's files go back,
    and nothing of them runs in this or any later operation."""
    evil = repo.path.parent / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {repo.path.parent}/ran\nexit 1\n")
    evil.chmod(0o755)

    def work() -> None:
        for name, value in (
            ("core.fsmonitor", str(evil)),
            ("core.hooksPath", str(repo.path.parent)),
            ("filter.x.clean", str(evil)),
            ("filter.x.required", "true"),
        ):
            repo.git("config", name, value)
        for hook in ("reference-transaction", "post-index-change", "pre-commit"):
            repo.write(f".git/hooks/{hook}", evil.read_bytes(), 0o755)
            (repo.path.parent / hook).write_bytes(evil.read_bytes())
            (repo.path.parent / hook).chmod(0o755)
        repo.write("n.txt")

    verdict = delivery.attempt(work)
    assert isinstance(verdict, ports.EnvironmentChanged)
    assert "config changed" in verdict.what and "hooks/pre-commit added" in verdict.what
    assert not (repo.path / "n.txt").exists()
    assert isinstance(delivery.attempt(lambda: repo.write("m.txt")), ports.Accepted)
    delivery.custody.preserve()
    assert delivery.custody.publish(requested=True).disposition == "published"
    assert not (repo.path.parent / "ran").exists()


def test_inherited_git_variables_are_ignored(repo: Repo, deliver: Deliver, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIT_DIR and its like in the parent's environment steer nothing."""
    work = deliver(repo)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, "/nonexistent/elsewhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "maybe")
    work.custody.baseline()
    assert isinstance(work.attempt(lambda: repo.write("n.txt")), ports.Accepted)
    work.custody.preserve()
    assert work.custody.publish(requested=True).disposition == "published"


def test_head_may_move_and_the_result_still_stands_on_the_base(repo: Repo, delivery: Delivery) -> None:
    """An agent that commits changes the files it changed, no more: the result's parent is the admitted commit."""
    base = repo.git("rev-parse", "HEAD")
    verdict = delivery.attempt(lambda: (repo.write("n.txt"), repo.commit("agent's own")))
    assert isinstance(verdict, ports.Accepted)
    _, commit = delivery.custody.preserve()
    assert repo.git("rev-parse", f"{commit}^") == base


def test_only_the_open_grant_is_judged(repo: Repo, delivery: Delivery) -> None:
    """A grant of an earlier attempt, another step, a changed scope, another worktree, or one used twice is refused."""
    first = delivery.begin(READ_ONLY)
    delivery.end(delivery.custody.settle(first))
    grant = delivery.begin(READ_ONLY)
    other = StepRef.parse("work@7").key
    for forged in (
        first,
        replace(grant, scope=EVERYTHING),
        replace(grant, step=other),
        replace(grant, worktree="/"),
        replace(grant, inode=grant.inode + 1),
    ):
        with pytest.raises(IntegrityError) as caught:
            delivery.custody.settle(forged)
        assert caught.value.code is Code.GRANT_INVALID
    delivery.clock.seconds += 3600
    assert isinstance(delivery.custody.settle(grant), ports.Accepted)
    with pytest.raises(IntegrityError):
        delivery.custody.settle(grant)


def test_what_git_does_in_the_worktree_is_reported_and_never_put_back(repo: Repo, delivery: Delivery) -> None:
    """A commit, a tag and another branch made by an attempt do not stop it: they are told with the savepoint. A rejected
    attempt's files and index entries go back; HEAD stays where the attempt left it, and the next attempt is not blamed."""
    base = repo.git("rev-parse", "HEAD")
    verdict = delivery.attempt(lambda: (repo.write("n.txt"), repo.commit("agent's own"), repo.git("tag", "mine")))
    assert isinstance(verdict, ports.Accepted)
    made = repo.git("rev-parse", "HEAD")
    assert delivery.taken()[-1].not_captured == (
        f"refs/heads/main: was {base}, is {made}; it is reported, never put back",
        f"refs/tags/mine: was absent, is {made}; it is reported, never put back",
    )
    full, entries = tree_of(repo.path), repo.git("ls-files", "-s")
    switch = lambda: (repo.git("checkout", "-q", "-b", "elsewhere", base), repo.write("m.txt"))  # noqa: E731
    assert isinstance(delivery.attempt(switch, patterns("src/**")), ports.Violation)
    assert (tree_of(repo.path), repo.git("ls-files", "-s")) == (full, entries)
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/elsewhere"
    assert any(note.startswith("HEAD: was ref: refs/heads/main") for note in delivery.taken()[-1].not_captured)
    assert isinstance(delivery.attempt(lambda: repo.write("k.txt")), ports.Accepted)
    assert delivery.taken()[-1].not_captured == ()
    _, commit = delivery.custody.preserve()
    assert repo.git("rev-parse", f"{commit}^") == base
    assert repo.git("diff", "--name-only", base, commit).split() == ["k.txt", "n.txt"]


def test_a_hook_planted_before_a_crash_is_still_the_attempts(repo: Repo, delivery: Delivery) -> None:
    """A kill makes nothing legal: what an interrupted attempt did to hooks or config is judged when it goes on. What
    somebody changed before it began is not its doing, with and without a crash."""
    delivery.attempt(lambda: repo.write("n.txt"))
    repo.git("config", "user.name", "somebody")
    delivery.begin()
    delivery.restart()
    grant = delivery.begin(resume=True)
    delivery.end(delivery.custody.settle(grant))
    grant = delivery.begin()
    repo.write(".git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    delivery.restart()
    grant = delivery.begin(resume=True)
    verdict = delivery.custody.settle(grant)
    assert isinstance(verdict, ports.EnvironmentChanged) and verdict.what == ("hooks/pre-commit added",)
