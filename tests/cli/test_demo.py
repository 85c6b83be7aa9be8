"""The demo is a whole Delivery, and its recordings are what its script gives."""

import contextlib
import io
import json
import subprocess
from pathlib import Path

from tests.cli.conftest import CommandLine
from tests.tools import record_demo


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_demo(runner: CommandLine) -> None:
    """Tests really fail, the loop really loops, the branch is published; nothing outside its directory is touched."""
    where = runner.here / "my demo"
    answer = runner("demo", "--dir", str(where), "--json")
    assert answer.code == 0, answer.err
    document = answer.document
    assert document["settlement"]["outcome"] == "completed"
    assert document["settlement"]["publication"]["disposition"] == "published"
    assert document["changed"] == ["src/openhours/intervals.py", "src/openhours/parsing.py"]
    config = str(where / "runner.toml")
    steps = runner("inspect", "demo", "--config", config, "--json").document["steps"]
    ends = {step["step"]: step["state"] for step in steps}
    assert (ends["reproduce@1"], ends["tests@1"], ends["tests@2"]) == ("failed", "failed", "completed")
    assert _git(where / "openhours", "branch", "--format=%(refname:short)").split() == ["main", "runner/demo"]
    assert len(_git(where / "openhours", "worktree", "list").splitlines()) == 1
    assert _git(where / "openhours", "status", "--porcelain") == ""
    assert list(runner.home.iterdir()) == [runner.here] and list(runner.here.iterdir()) == [where]
    _commands_work(runner, document["next"])


def _commands_work(runner: CommandLine, commands: list[str]) -> None:
    """What is printed can be pasted."""
    for command in commands:
        assert runner.shell(command).code == 0, command


def test_demo_again_in_the_same_place(runner: CommandLine) -> None:
    """A directory that is not empty is refused before anything is written."""
    (runner.here / "d").mkdir()
    (runner.here / "d" / "mine").write_text("x")
    answer = runner("demo", "--dir", "d")
    assert answer.code == 2 and "not empty" in answer.err
    assert [p.name for p in (runner.here / "d").iterdir()] == ["mine"]


def test_recordings_are_current(runner: CommandLine, tmp_path: Path) -> None:
    """The same workflow through the ``openai`` provider over HTTP records exactly what is shipped, and publishes the tree
    that the demo publishes. When this fails: python -m tests.tools.record_demo."""
    root = tmp_path / "live"
    root.mkdir()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        made = record_demo.record(root)
    assert made == record_demo.shipped()
    replayed = runner("demo", "--dir", "replayed")
    assert replayed.code == 0
    trees = {_git(repo / "openhours", "rev-parse", "runner/demo^{tree}") for repo in (root, runner.here / "replayed")}
    assert len(trees) == 1


def test_script_is_data() -> None:
    """The conversation can be served by any process: it is plain JSON."""
    assert set(json.loads(record_demo.SCRIPT.read_text())) == {"steps"}
