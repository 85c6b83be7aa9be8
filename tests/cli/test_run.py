"""admit, run, execute, inspect, cancel as real processes over a real repository."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine


@pytest.fixture
def repo(runner: CommandLine) -> Path:
    return world.repository(runner.home / "re po")


@pytest.fixture
def package(runner: CommandLine) -> Path:
    return world.package(runner.here)


def test_run_publishes_and_removes_its_worktree(runner: CommandLine, repo: Path, package: Path) -> None:
    """Outcome, diffstat, where it is, and what to do next; the user's checkout is as it was."""
    answer = runner("run", str(package), "--repo", str(repo), "--id", "d1", "--target", "topic")
    assert answer.code == 0, answer.err
    assert "d1: completed" in answer.out and "two.txt" in answer.out and "2 files changed" in answer.out
    assert f"git -C '{repo}' merge topic" in answer.out
    assert world.git(repo, "show", "topic:two.txt") == "two"
    assert world.git(repo, "status", "--porcelain") == "" and world.git(repo, "worktree", "list").count("\n") == 0
    assert not (runner.state / "worktrees" / "d1").exists()
    assert [line.split()[1:3] for line in answer.err.splitlines() if line.startswith("+")] == [
        ["first", "done"],
        ["second", "done"],
    ]


def test_keep(runner: CommandLine, repo: Path, package: Path) -> None:
    """With --keep the worktree stays and is named."""
    answer = runner("run", str(package), "--repo", str(repo), "--id", "d1", "--keep", "--json")
    assert (Path(answer.document["worktree"]) / "two.txt").read_text() == "two\n"


def test_failure_keeps_the_worktree(runner: CommandLine, repo: Path) -> None:
    """A Delivery that failed is exit 1; its worktree stays to be looked at, nothing is published."""
    package = world.package(runner.here, "echo half > half.txt; exit 3")
    answer = runner("run", str(package), "--repo", str(repo), "--id", "d1", "--json")
    assert answer.code == 1 and answer.document["settlement"]["outcome"] == "failed"
    assert Path(answer.document["worktree"]).is_dir()
    assert world.git(repo, "branch", "--format=%(refname:short)") == "main"


def test_admit_then_execute_twice(runner: CommandLine, repo: Path, package: Path) -> None:
    """The activation is a file; executing it again replays the same settlement without an effect."""
    admitted = runner("admit", str(package), "--repo", str(repo), "-o", "a.json", "--json")
    assert admitted.code == 0 and Path(admitted.document["worktree"]).is_dir()
    first, second = (runner("execute", "a.json", "--json") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert first.document["settlement"] == second.document["settlement"]
    assert not Path(admitted.document["worktree"]).exists()
    again = runner("admit", str(package), "--repo", str(repo), "-o", "a.json")
    assert again.code == 2 and "a.json exists already" in again.err


def test_edited_activation(runner: CommandLine, repo: Path, package: Path) -> None:
    """One changed byte is noticed before any effect."""
    runner("admit", str(package), "--repo", str(repo), "-o", "a.json")
    file = runner.here / "a.json"
    file.write_text(file.read_text().replace("echo two", "echo tvo"))
    answer = runner("execute", "a.json", "--json")
    assert answer.code == 2 and answer.document["error"]["code"] == "activation-tampered"
    assert not (runner.state / "deliveries").exists()


def test_same_id_again(runner: CommandLine, repo: Path, package: Path) -> None:
    """An id is used once; the message says how to go on with the one there is."""
    runner("run", str(package), "--repo", str(repo), "--id", "d1")
    answer = runner("run", str(package), "--repo", str(repo), "--id", "d1")
    assert answer.code == 2 and "runner execute" in answer.err


def test_in_place(runner: CommandLine, repo: Path, package: Path) -> None:
    """A dirty checkout is refused with its paths; --include-dirty makes the edits part of the result."""
    (repo / "mine.txt").write_text("mine\n")
    refused = runner("run", str(package), "--repo", str(repo), "--in-place", "--json")
    assert refused.code == 2 and refused.document["error"]["code"] == "worktree-dirty"
    assert "mine.txt" in json.dumps(refused.document["error"]["findings"])
    accepted = runner("run", str(package), "--repo", str(repo), "--in-place", "--include-dirty", "--target", "t")
    assert accepted.code == 0, accepted.err
    assert world.git(repo, "show", "t:mine.txt") == "mine"
    assert runner("run", str(package), "--repo", str(repo), "--include-dirty").code == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--bind", "coder=openai:m"), "provider-unknown"),
        (("--bind", "coder"), "binding-invalid"),
        ((), "binding-invalid"),
        (("--bind", "coder=recorded:here", "--bind", "extra=recorded:here"), "binding-invalid"),
        (("--bind", "coder=recorded:here", "--input", "task:=3"), "input-invalid"),
        (("--bind", "coder=recorded:here", "--input", "n=three"), "input-invalid"),
        (("--bind", "coder=recorded:here", "--id", "../x"), "delivery-id-invalid"),
        (("--bind", "coder=recorded:here", "--target", "a..b"), "target-invalid"),
        (("--bind", "coder=recorded:here", "--target", "main"), "target-invalid"),
        (("--bind", "coder=recorded:here", "--base", "no-such"), "repository-invalid"),
        (("--bind", "coder=recorded:here", "--repo", "/"), "repository-invalid"),
    ],
)
def test_refused_wishes(runner: CommandLine, repo: Path, words: tuple[str, ...], code: str) -> None:
    """One clear message, exit 2, and no worktree, activation or Delivery is left."""
    world.recordings(runner.here / "here")
    (runner.here / "roles.yaml").write_text(world.ROLES)
    needed = ("--input", "task=x") if "task:=3" not in words else ()
    number = ("--input", "n=3") if "n=three" not in words else ()
    where = ("--repo", str(repo)) if "--repo" not in words else ()
    answer = runner("run", "roles.yaml", *where, *needed, *number, *words, "--json")
    assert answer.code == 2 and answer.document["error"]["code"] == code, answer
    assert answer.document["error"]["remedy"] or answer.document["error"]["findings"]
    assert not (runner.home / ".local").exists()
    assert world.git(repo, "worktree", "list").count("\n") == 0


def test_inspect(runner: CommandLine, repo: Path, package: Path) -> None:
    """The list, one Delivery, its records; for people and for scripts."""
    runner("run", str(package), "--repo", str(repo), "--id", "d1")
    listed = runner("inspect").out.splitlines()
    assert [line.split()[:3] for line in listed] == [["DELIVERY", "PHASE", "OUTCOME"], ["d1", "settled", "completed"]]
    shown = runner("inspect", "d1").out
    assert "isolation  bubblewrap: " in shown and "+ first " in shown and "published  branch runner/d1 at " in shown
    for line in shown.partition("next, in the repository\n")[2].splitlines():
        command = line.strip().partition("  ")[2]
        assert runner.shell(f"cd '{repo}'; {command}").code == 0, command
    events = runner("inspect", "d1", "--events", "--json").document["events"]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert events[-1]["kind"] == "delivery.settled"
    assert len(runner("inspect", "d1", "--events").out.splitlines()) == len(events)
    late = runner("cancel", "d1", "--json")
    assert (late.code, late.document["disposition"]) == (1, "too-late")


def test_the_output_value_is_shown(runner: CommandLine, repo: Path, package: Path) -> None:
    """What the workflow gave stands in the documents of run and inspect, and short in what people read."""
    package.write_text(package.read_text() + 'output: { value: { exit: "{{ steps.first.output.exit }}" } }\n')
    ran = runner("run", str(package), "--repo", str(repo), "--id", "d1", "--json")
    assert ran.document["output"] == {"exit": 0} and ran.document["settlement"]["output"].startswith("sha256:")
    assert runner("inspect", "d1", "--json").document["output"] == {"exit": 0}
    for words in (("execute", "d1"), ("inspect", "d1")):
        assert '  output     {"exit":0}\n' in runner(*words).out


def test_graph_of_both(runner: CommandLine, repo: Path, package: Path) -> None:
    """A package and its activation draw the same picture, offline, in both forms."""
    runner("admit", str(package), "--repo", str(repo), "-o", "a.json")
    for form in ("ascii", "mermaid"):
        drawn = [runner("graph", source, "--format", form).out for source in (str(package), "a.json")]
        assert drawn[0] == drawn[1] and "second" in drawn[0]


def _until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} was never shown")


def test_first_signal_stops_at_the_boundary(runner: CommandLine, repo: Path) -> None:
    """The running step finishes, the next does not start; the printed command continues to the end."""
    runner.uncontained()
    fifo = runner.home / "go"
    os.mkfifo(fifo)
    package = world.package(runner.here, f"echo one > one.txt; cat {fifo}; true")
    process = runner.start("run", str(package), "--repo", str(repo), "--id", "d1")
    _until(process, "> first")
    process.send_signal(signal.SIGINT)
    _until(process, "stopping at the next step boundary")
    fifo.write_text("go\n")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 5
    continued = next(line for line in out.splitlines() if "continue" in line).split("continue")[1]
    states = {s["step"]: s["state"] for s in runner("inspect", "d1", "--json").document["steps"]}
    assert states == {"first@1": "completed"}
    answer = runner.shell(continued)
    assert answer.code == 0, answer
    records = runner("inspect", "d1", "--events", "--json").document["events"]
    assert sum(r["kind"] == "tool.called" for r in records) == 2


def test_second_signal_stops_now(runner: CommandLine, repo: Path) -> None:
    """What runs is ended, the Delivery stays open, exit 5."""
    package = world.package(runner.here, "echo one > one.txt; sleep 1000")
    process = runner.start("run", str(package), "--repo", str(repo), "--id", "d1")
    _until(process, "> first")
    process.send_signal(signal.SIGTERM)
    _until(process, "stopping at the next step boundary")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 5 and "Traceback" not in err
    assert "d1: open" in out and "runner cancel d1" in out
    cancelled = runner("cancel", "d1", "--json")
    assert (cancelled.code, cancelled.document["disposition"]) == (0, "settled")
    assert runner("execute", str(runner.state / "activations" / "d1.json")).code == 130


def test_busy(runner: CommandLine, repo: Path) -> None:
    """A second execute names who drives it; cancel from another process ends it with 130."""
    package = world.package(runner.here, "sleep 1000")
    process = runner.start("run", str(package), "--repo", str(repo), "--id", "d1")
    _until(process, "> first")
    second = runner("execute", str(runner.state / "activations" / "d1.json"), "--json")
    assert (second.code, second.document["result"], second.document["pid"]) == (5, "busy", process.pid)
    # Settled, if the driver was quicker than the command that asked it.
    assert runner("cancel", "d1", "--json").document["disposition"] in ("requested", "settled")
    process.communicate(timeout=60)
    assert process.returncode == 130
