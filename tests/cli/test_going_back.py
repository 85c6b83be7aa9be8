"""``savepoints``, ``retry`` and ``fork`` as a person types them."""

import re
from pathlib import Path

import pytest

from runner.cli.savepoint_listing import shortest
from runner.contract.outcomes import SavepointState
from tests.cli.conftest import CommandLine
from tests.cli.world import git, recordings, repository

FAILS = """\
name: fails
setup: [{{ run: ["touch", "made.log"] }}]
steps:
  - id: first
    command: {{ run: "head -c 20 /dev/urandom | base64 > one.txt", shell: true, scope: everything, effect: workspace }}
  - id: second
    needs: [first]
    command: {{ run: "{second}", shell: true, scope: ["*.txt"], effect: external }}
"""


@pytest.fixture
def failed(runner: CommandLine, tmp_path: Path) -> Path:
    """The repository of the Delivery ``d1``, which failed in its second step."""
    repo = repository(tmp_path / "repo")
    (repo / ".gitignore").write_text("*.log\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "ignore")
    answer = runner("run", str(package(tmp_path, "false")), "--id", "d1", "--repo", str(repo))
    assert answer.code == 1
    assert "runner retry d1" in answer.out
    return repo


def package(directory: Path, second: str, name: str = "fails") -> Path:
    file = directory / f"{name}.yaml"
    file.write_text(FAILS.format(second=second, name=name))
    return file


def test_retry_goes_on_in_a_new_delivery(runner: CommandLine, failed: Path, tmp_path: Path) -> None:
    """With a mended package: its set-up is run, the failed step is done again, what had ended is not; effects that the old one
    may have had outside are named; ``inspect`` and ``verify`` say where it came from."""
    mended = package(tmp_path, "test -e made.log", "mended")
    told = runner("retry", "d1", "--package", str(mended), "--dry-run", "--json").document
    assert (told["delivery"], told["kept"], told["again"]) == ("d1-2", ["first@1"], ["second@1"])
    assert (told["changed"], told["repeated"]) == ([], ["second@1/1/t1: command"])
    assert git(failed, "branch", "--list", "runner/*") == ""
    retried = runner("retry", "d1", "--package", str(mended))
    assert retried.code == 0, retried.err
    assert "may repeat second@1/1/t1: command" in retried.err
    old, new = (git(failed, "show", f"{ref}:one.txt") for ref in ("refs/runner/d1/result", "runner/d1-2"))
    assert old == new
    assert git(failed, "ls-tree", "--name-only", "runner/d1-2").split() == [".gitignore", "one.txt"]
    assert re.search(r"origin +d1 at record \d+", runner("inspect", "d1-2").out)
    verified = runner("verify", "d1-2")
    assert verified.code == 0
    assert "taken over from d1" in verified.out


def test_savepoints_are_listed_and_forked(runner: CommandLine, failed: Path) -> None:
    """Every listed name starts a fork, or says why not; nothing is made by a dry run."""
    found = runner("savepoints", "d1", "--json").document["savepoints"]
    assert [s["role"] for s in found] == ["baseline", "step", "step"]
    answers = [runner("fork", "d1", s["name"], "--dry-run") for s in found]
    assert [answer.code for answer in answers] == [0, 0, 2]
    assert "nothing would be left to do" in answers[2].err
    assert runner("fork", "d1", "first", "--id", "d1", "--dry-run").code == 2
    bound = ("--bind", f"coder=recorded:{recordings(failed.parent / 'sessions')}")
    assert "has no role 'coder'" in runner("fork", "d1", "first", *bound, "--dry-run").err
    assert "runner fork d1 SAVEPOINT" in runner("savepoints", "d1").out
    assert git(failed, "worktree", "list").count("\n") == 1


def test_names_of_savepoints_are_short_and_their_own() -> None:
    """As much of an id as tells it apart; of equal files the record as well."""

    def one(savepoint: str, seq: int) -> SavepointState:
        return SavepointState(savepoint=savepoint, tree="0" * 40, seq=seq, at="", role="step", step=None, changed=0)

    near = ("ab" * 5 + "0" * 30, "ab" * 5 + "1" * 30)
    found = shortest((one(near[0], 2), one(near[1], 5), one(near[1], 9)))
    assert found == {2: "ababababab0", 5: "ababababab1@5", 9: "ababababab1@9"}
