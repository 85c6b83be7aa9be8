"""A machine that does not allow it: each time one clear message and exit 5, and the same Delivery goes on afterwards."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.conftest import Answer, CommandLine


@pytest.fixture
def words(runner: CommandLine) -> tuple[str, ...]:
    """A command line that carries out ``d1``."""
    package = world.package(runner.here)
    repo = world.repository(runner.home / "repo")
    return ("run", str(package), "--repo", str(repo), "--id", "d1")


def own(runner: CommandLine, *words: str) -> Answer:
    return runner.python("-m", "runner.cli", *words)


def fake_git(runner: CommandLine, script: str, mode: int = 0o755) -> None:
    """``git`` as the first on the path."""
    git = runner.home / "bin" / "git"
    git.parent.mkdir(exist_ok=True)
    git.write_text(f"#!/bin/sh\n{script}\n")
    git.chmod(mode)
    runner.environment["PATH"] = f"{git.parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("script", ["echo git version 2.20.1", "echo junk", "echo no >&2; exit 3"])
def test_a_git_that_will_not_do(runner: CommandLine, words: tuple[str, ...], script: str) -> None:
    """Too old, something else, or broken: named before anything is written, by every command that needs it."""
    fake_git(runner, script)
    for command in (words, ("doctor",)):
        answer = own(runner, *command)
        assert answer.code == 5 and "git 2.36 or newer" in answer.out + answer.err, answer
    assert not runner.state.exists()


def test_without_git(runner: CommandLine, words: tuple[str, ...]) -> None:
    """What needs no git works; what does says so."""
    empty = runner.home / "empty"
    empty.mkdir()
    runner.environment["PATH"] = str(empty)
    assert own(runner, *words).err.startswith("error[git-missing]: ")
    assert own(runner, "check", words[1]).code == 0
    assert own(runner, "inspect").code == 0


def test_git_goes_away_between_admission_and_execution(runner: CommandLine, words: tuple[str, ...]) -> None:
    """The Delivery stays open and goes on when git is back."""
    _, package, _, repo, _, _ = words
    assert runner("admit", package, "--repo", repo, "--id", "d1", "-o", "d1.json").code == 0
    fake_git(runner, "echo git version 2.20.1")
    answer = own(runner, "execute", "d1.json")
    assert answer.code == 5 and "error[git-missing]: 'git version 2.20.1' is too old" in answer.err
    runner.environment["PATH"] = os.environ["PATH"]
    assert own(runner, "execute", "d1.json").code == 0


@pytest.mark.parametrize("blocks", [0, 100])
def test_files_cannot_grow(runner: CommandLine, words: tuple[str, ...], blocks: int) -> None:
    """Wherever writing stops, in the fence, the ledger or the store: exit 5, and the same call goes on afterwards."""
    package = world.package(runner.here, "head -c 200000 /dev/urandom > one.txt")
    assert runner("admit", str(package), "--repo", words[3], "--id", "d1", "-o", "d1.json").code == 0
    stopped = runner.shell(f"ulimit -f {blocks}; runner execute d1.json")
    assert stopped.code == 5 and stopped.err.count("error[") == 1, stopped
    assert runner("execute", "d1.json").code == 0


@pytest.mark.parametrize("home", ["/dev/null", ""])
def test_a_home_that_is_none(runner: CommandLine, words: tuple[str, ...], home: str) -> None:
    """Where no state can be kept that is said; a config that names a place for it is enough."""
    (runner.here / "c.toml").write_text(f'state_root = "{runner.home}/state"\n[providers.recorded]\n')
    runner.environment["HOME"] = home
    if home:
        refused = own(runner, *words)
        assert refused.code == 5 and refused.err.startswith("error[state-unwritable]: the state root "), refused
    assert own(runner, "--config", "c.toml", *words).code == 0


def test_a_directory_that_is_gone(runner: CommandLine) -> None:
    """Started where no directory is any more: a message, not a crash."""
    answer = runner.shell("mkdir gone; cd gone; rmdir ../gone; runner inspect")
    assert answer.code in (0, 5) and "internal" not in answer.err


def test_two_at_once_under_one_id(runner: CommandLine, words: tuple[str, ...]) -> None:
    """One of them carries the Delivery out, the others are refused or find it busy, and nothing of theirs is left."""
    processes = [runner.start(*words) for _ in range(3)]
    codes = []
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err and "internal" not in err, err
        codes.append(process.returncode)
    assert codes.count(0) == 1 and set(codes) <= {0, 2, 5}, codes
    assert runner("inspect", "d1", "--json").document["outcome"] == "completed"
    assert world.git(Path(words[3]), "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_killed_in_the_middle_of_a_step(runner: CommandLine, words: tuple[str, ...], number: signal.Signals) -> None:
    """Whatever signal ends it, the same call goes on to a settlement, which the next one replays."""
    runner.uncontained()
    go = runner.home / "go"
    os.mkfifo(go)
    package = world.package(runner.here, f"echo one > one.txt; cat {go}; true")
    assert runner("admit", str(package), "--repo", words[3], "--id", "d1", "-o", "d1.json").code == 0
    process = runner.start("execute", "d1.json")
    with go.open("w"):  # Opened: the step has begun to read.
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == -number
    go.unlink()
    go.write_text("go")
    first, second = (runner("execute", "d1.json", "--json") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert first.document["settlement"] == second.document["settlement"]


def test_the_worktree_is_gone(runner: CommandLine, words: tuple[str, ...]) -> None:
    """Before it began: the place is named, nothing is written; put back, the Delivery goes on."""
    _, package, _, repo, _, _ = words
    assert runner("admit", package, "--repo", repo, "--id", "d1", "-o", "d1.json").code == 0
    worktree, away = runner.state / "worktrees" / "d1", runner.home / "away"
    worktree.rename(away)
    gone = runner("execute", "d1.json", "--json")
    assert (gone.code, gone.document["error"]["code"]) == (5, "worktree-missing")
    assert str(worktree) in gone.document["error"]["message"]
    assert not (runner.state / "deliveries").exists()
    worktree.write_text("a file")
    assert runner("execute", "d1.json", "--json").document["error"]["code"] == "worktree-missing"
    worktree.unlink()
    shutil.move(away, worktree)
    assert runner("execute", "d1.json").code == 0
