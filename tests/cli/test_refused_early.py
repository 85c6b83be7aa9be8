"""What is refused is refused before the first write, and before anything is said of a Delivery."""

from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine

WISH = ("roles.yaml", "--input", "task=x", "--input", "n:=3")


@pytest.fixture
def repo(runner: CommandLine) -> Path:
    (runner.here / "roles.yaml").write_text(world.ROLES)
    (runner.here / "config.toml").write_text(world.CONFIG)
    world.recordings(runner.here / "tapes")
    return world.repository(runner.home / "repo")


def everything(root: Path) -> dict[Path, int]:
    """Each path below ``root`` and when it was last changed."""
    return {path: path.lstat().st_mtime_ns for path in root.rglob("*")}


REFUSED = {
    "a missing secret": (("--bind", "coder=openai:m"), "secret-unreadable"),
    "an unknown provider": (("--bind", "coder=nobody:m"), "provider-unknown"),
    "a model that cannot be": (("--bind", "coder=openai:a\tb"), "binding-invalid"),
    "no recordings": (("--bind", "coder=recorded:nowhere"), "recording-invalid"),
    "a config that is missing": (("--bind", "coder=recorded:tapes", "--config", "none.toml"), "config-not-found"),
    "an input of another type": (("--bind", "coder=recorded:tapes", "--input", "n:=true"), "input-invalid"),
    "a target that is checked out": (("--bind", "coder=recorded:tapes", "--target", "main"), "target-invalid"),
    "a base that is not there": (("--bind", "coder=recorded:tapes", "--base", "nope"), "repository-invalid"),
}


@pytest.mark.parametrize("command", ["run", "admit"])
@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_written(runner: CommandLine, repo: Path, command: str, case: str) -> None:
    """No worktree, no activation, no state root, not a byte in the repository; and no Delivery is spoken of."""
    words, code = REFUSED[case]
    words = words if "--config" in words else (*words, "--config", "config.toml")
    out = ("-o", "made/a.json") if command == "admit" else ()
    before = everything(runner.home)
    answer = runner(command, *WISH, "--repo", str(repo), *words, *out)
    assert answer.code == 2 and answer.err.startswith(f"error[{code}]: "), answer
    assert "Delivery" not in answer.out + answer.err
    assert everything(runner.home) == before


def test_files_under_a_filter(runner: CommandLine, repo: Path) -> None:
    """What only git can say of a commit is asked without making a worktree of it."""
    (repo / ".gitattributes").write_text("*.txt filter=lfs\n")
    world.git(repo, "add", ".")
    world.git(repo, "commit", "-qm", "filtered")
    before = everything(runner.home)
    answer = runner("run", *WISH, "--repo", str(repo), "--bind", "coder=recorded:tapes")
    assert answer.code == 2 and "git filter" in answer.err
    assert everything(runner.home) == before


def test_a_set_up_that_fails_leaves_nothing(runner: CommandLine, repo: Path) -> None:
    """It ran in a worktree; the worktree and every directory that was made for it are gone."""
    package = world.package(runner.here)
    package.write_text(package.read_text() + 'setup:\n  - run: ["false"]\n')
    before = set(everything(runner.home))
    answer = runner("admit", str(package), "--repo", str(repo), "-o", "made/here/a.json")
    assert answer.code == 5 and "error[setup-failed]" in answer.err
    assert {path for path in everything(runner.home) if ".git" not in path.parts} == {
        path for path in before if ".git" not in path.parts
    }
    assert world.git(repo, "worktree", "list").count("\n") == 0


def test_what_was_there_stays(runner: CommandLine, repo: Path) -> None:
    """Directories that others made are not tidied away."""
    (runner.state / "worktrees").mkdir(parents=True)
    package = world.package(runner.here)
    package.write_text(package.read_text() + 'setup:\n  - run: ["false"]\n')
    assert runner("run", str(package), "--repo", str(repo)).code == 5
    assert [path.name for path in runner.state.iterdir()] == ["worktrees"]


def test_recordings_changed_after_admission_are_drift(runner: CommandLine, repo: Path) -> None:
    """One byte: execute refuses before any effect, names the directory, and goes on once it is put back."""
    words = ("--repo", str(repo), "--bind", "coder=recorded:tapes", "-o", "a.json")
    assert runner("admit", *WISH, *words).code == 0
    tape = runner.here / "tapes" / "write.1.jsonl"
    bound = tape.read_bytes()
    for changed in (bound.replace(b'"openai"', b'"0penai"'), bound[:-1], b"[" + bound[1:]):
        tape.write_bytes(changed)
        before = everything(runner.state)
        answer = runner("execute", "a.json", "--json")
        assert (answer.code, answer.document["error"]["code"]) == (2, "binding-drift")
        assert str(tape.parent) in answer.document["error"]["message"]
        assert everything(runner.state) == before
    tape.write_bytes(bound)
    assert "error" not in runner("execute", "a.json", "--json").document


def test_a_binding_may_be_named_from_anywhere(runner: CommandLine, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The activation holds the absolute directory: executing it elsewhere finds the same recordings."""
    words = ("--repo", str(repo), "--bind", "coder=recorded:./tapes", "-o", "a.json")
    assert runner("admit", *WISH, *words).code == 0
    monkeypatch.chdir(runner.home)
    assert "error" not in runner("execute", str(runner.here / "a.json"), "--json").document
