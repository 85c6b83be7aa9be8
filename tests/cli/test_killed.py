"""``runner`` killed in the middle, for real, and what the commands then say and do."""

import configparser
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.cli.exit_codes import Exit
from tests.cli import world
from tests.cli.conftest import CommandLine
from tests.house.source import PROJECT
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import Hang, Reply, ScriptedOpenAi


@pytest.fixture
def repo(runner: CommandLine) -> Path:
    return world.repository(runner.home / "repo")


class Model:
    """Writes two files, one a turn, and is done; with ``hangs_at``, that request gets no answer the first time."""

    def __init__(self, hangs_at: int | None = None) -> None:
        self.hangs_at = hangs_at
        self.reached = threading.Event()
        self.asked: list[int] = []
        """How many results of tools each request held."""

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        results = sum(message["role"] == "tool" for message in body["messages"])
        self.asked.append(results)
        if len(self.asked) == self.hangs_at:
            self.reached.set()
            return Hang(silent=True)
        if results == 2:
            return Result({"summary": "done"})
        return Calls((Call("write", {"path": f"made{results}.txt", "content": f"{results}\n"}, id=f"w{results}"),))


@pytest.fixture
def mend(runner: CommandLine) -> str:
    file = runner.here / "mend.yaml"
    file.write_text(world.AGENT)
    return str(file)


def _words(mend: str, repo: Path, server: ScriptedOpenAi, home: Path, delivery: str) -> tuple[str, ...]:
    config = world.openai_config(home, server.base_url)
    return ("run", mend, "--repo", str(repo), "--id", delivery, "--bind", "coder=openai:m", "--config", str(config))


def _kinds(runner: CommandLine, delivery: str = "d1") -> list[str]:
    answer = runner("inspect", delivery, "--events", "--follow", "--json")
    return [json.loads(line)["kind"] for line in answer.out.splitlines()]


def test_in_the_middle_of_an_agent(runner: CommandLine, repo: Path, mend: str) -> None:
    """The next execute, by id, goes on behind the last tool call and settles as if nothing had happened."""
    with ScriptedOpenAi(whole := Model()) as server:
        undisturbed = runner(*_words(mend, repo, server, runner.home, "whole"), "--json")
        assert undisturbed.code == 0, undisturbed
    with ScriptedOpenAi(model := Model(hangs_at=2)) as server:
        words = _words(mend, repo, server, runner.home, "d1")
        process = runner.start(*words)
        assert model.reached.wait(60)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        left = runner("inspect", "d1", *words[-2:])
        assert "driver     none" in left.out and "nobody drives it" in left.out
        command = next(line for line in left.out.splitlines() if " continue " in line).split("continue")[1].strip()
        assert command == f"runner execute d1 --config {words[-1]}"
        answer = runner.shell(f"{command} --json")
        assert answer.code == 0, answer
    ends = [answer.document["settlement"], undisturbed.document["settlement"]]
    assert [(end["outcome"], end["reason"], end["result_tree"]) for end in ends].count(
        ("completed", "all-steps-finished", ends[0]["result_tree"])
    ) == 2
    assert (whole.asked, model.asked) == ([0, 1, 2], [0, 1, 1, 2])
    kinds = _kinds(runner)
    assert kinds.count("tool.called") == 2 and kinds[-1] == "delivery.settled"
    verified = runner("verify", "d1", "--json")
    assert verified.code == 0 and verified.document["ok"], verified
    again = runner("execute", "d1", "--json")
    assert again.document["settlement"] == ends[0]


def test_a_lost_secret_keeps_nobody_from_cancelling(runner: CommandLine, repo: Path, mend: str) -> None:
    """Killed in the middle of an agent whose key is gone by then: execute says so, cancel settles."""
    with ScriptedOpenAi(model := Model(hangs_at=1)) as server:
        words = _words(mend, repo, server, runner.home, "d1")
        process = runner.start(*words)
        assert model.reached.wait(60)
        process.kill()
        process.communicate(timeout=60)
    (runner.home / "key").unlink()
    assert runner("execute", "d1", *words[-2:], "--json").document["error"]["code"] == "secret-unreadable"
    cancelled = runner("cancel", "d1", *words[-2:], "--json")
    assert (cancelled.code, cancelled.document["disposition"]) == (0, "settled")


# --- an effect outside -----------------------------------------------------------------------------------------------

SHIP = """\
name: ship
steps:
  - id: ship
    command: {{ run: "echo x >> {count}; echo go > {begun}; test -e {again} || sleep 1000", shell: true,
      scope: read-only, effect: external }}
  - id: note
    command: {{ run: "echo shipped > note.txt", shell: true, scope: ["*.txt"], effect: workspace }}
    needs: [ship]
"""


@pytest.fixture
def shipping(runner: CommandLine, repo: Path) -> Iterator["subprocess.Popen[str]"]:
    """A run that is in the middle of something that cannot be undone; how often that began stands in ``count``."""
    runner.uncontained()
    places = {name: runner.home / name for name in ("count", "begun", "again")}
    os.mkfifo(places["begun"])
    file = runner.here / "ship.yaml"
    file.write_text(SHIP.format(**places))
    process = runner.start("run", str(file), "--repo", str(repo), "--id", "d1")
    assert places["begun"].read_text() == "go\n"
    yield process


def _killed(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate(timeout=60)


def _shipped(runner: CommandLine) -> int:
    return len((runner.home / "count").read_text().splitlines())


def test_it_happened(runner: CommandLine, shipping: "subprocess.Popen[str]") -> None:
    """Inspect names the effect and the commands; said that it ended well, the Delivery completes without repeating it."""
    _killed(shipping)
    shown = runner("inspect", "d1").out
    assert "uncertain  ship: command, begun " in shown and "key sha256:" in shown and "sleep 1000" in shown
    asked = runner("execute", "d1", "--json")
    assert (asked.code, asked.document["result"]) == (4, "needs-intervention")
    (effect,) = asked.document["effects"]
    assert asked.document["next"][0] == f"runner resolve d1 {effect['call']} --happened 0"
    wrong = runner("resolve", "d1", "--happened", "shipped", "--json")
    assert (wrong.code, wrong.document["error"]["code"]) == (2, "answer-invalid")
    commands = [line for line in runner("execute", "d1").out.splitlines() if "--happened" in line]
    said = runner.shell(commands[0].partition("runner")[1] + commands[0].partition("runner")[2])
    assert said.code == 0 and "happened is recorded of call" in said.out, said
    assert "continue  runner execute d1" in said.out
    assert runner.shell("runner execute d1").code == 0
    assert _shipped(runner) == 1
    resolved = next(
        r for r in runner("inspect", "d1", "--events", "--json").document["events"] if "resolved" in r["kind"]
    )
    assert resolved["payload"]["who"].endswith(f" on {os.uname().nodename}")


@pytest.mark.parametrize(("said", "code", "times"), [("--did-not-happen", 0, 2), ("--abandon", 1, 1)])
def test_it_did_not_or_nobody_knows(
    runner: CommandLine, shipping: "subprocess.Popen[str]", said: str, code: int, times: int
) -> None:
    """Said that it did not happen, it is done once more; given up, nothing is done and the Delivery has failed."""
    _killed(shipping)
    (runner.home / "again").touch()
    assert runner("resolve", "d1", said, "--json").document["next"] == ["runner execute d1"]
    reader = threading.Thread(target=(runner.home / "begun").read_text)
    if times == 2:
        reader.start()
    answer = runner("execute", "d1", "--json")
    if times == 2:
        reader.join(60)
    assert answer.code == code, answer
    assert _shipped(runner) == times
    assert answer.document["settlement"]["reason"] == ("all-steps-finished" if code == 0 else "abandoned")


def test_a_cancel_waits_for_what_is_said(runner: CommandLine, shipping: "subprocess.Popen[str]") -> None:
    """Nobody drives and an effect is uncertain: no driver is invented, the commands are printed, and given up it is settled."""
    _killed(shipping)
    said = runner("cancel", "d1")
    assert said.code == 4 and "the cancel is recorded, and waits" in said.out and "drives it" not in said.out, said
    scripted = runner("cancel", "d1", "--json")
    assert (scripted.code, scripted.document["disposition"], scripted.document["driver"]) == (4, "requested", None)
    (effect,) = scripted.document["effects"]
    resolve = f"runner resolve d1 {effect['call']}"
    expected = [f"{resolve} --happened 0", f"{resolve} --did-not-happen", f"{resolve} --abandon", "runner execute d1"]
    assert scripted.document["next"] == expected
    assert all(words in said.out for words in expected)
    assert runner.shell(expected[2]).code == 0
    settled = runner("execute", "d1", "--json")
    assert (settled.code, settled.document["settlement"]["outcome"], _shipped(runner)) == (130, "cancelled", 1)


def test_takeover(runner: CommandLine, shipping: "subprocess.Popen[str]") -> None:
    """A driver is ended only by somebody who said so; then its Delivery is open, and says what is uncertain."""
    refused = runner("takeover", "d1")
    assert refused.code == 2 and f":{shipping.pid} drives Delivery d1" in refused.err and "--yes" in refused.err
    taken = runner("takeover", "d1", "--yes", "--json")
    assert taken.code == 0 and shipping.pid in taken.document["ended"] and taken.document["driver"] is None
    shipping.communicate(timeout=60)
    assert runner("takeover", "d1", "--yes").out.startswith("Delivery d1: nobody drives it")
    assert runner("execute", "d1").code == 4


def test_every_open_one(runner: CommandLine, repo: Path, shipping: "subprocess.Popen[str]") -> None:
    """After a reboot: one line each, the worst exit code; one that is driven is left alone, a settled one not mentioned."""
    assert runner("execute", "--open").out == "no Delivery is open\n"
    _killed(shipping)
    package = world.reviewed(runner.here)
    assert runner("run", str(package), "--repo", str(repo), "--id", "d2").code == 3
    assert runner("run", str(world.package(runner.here)), "--repo", str(repo), "--id", "d3").code == 0
    swept = runner("execute", "--open")
    assert swept.code == 4
    assert swept.out.splitlines() == ["d1  a person must decide (effect-unknown)", "d2  suspended (wait: review@1)"]
    runner("resolve", "d1", "--happened", "0")
    runner("answer", "d2", "approve")
    scripted = runner("execute", "--open", "--json")
    assert (scripted.code, scripted.document["exit"]) == (0, 0)
    assert [d["settlement"]["outcome"] for d in scripted.document["deliveries"]] == ["completed", "completed"]
    assert not list((runner.state / "worktrees").iterdir())


def test_the_unit_starts_a_command_that_exists(runner: CommandLine) -> None:
    """examples/runner-open.service calls what is there, and knows the exit codes."""
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    assert unit.read(PROJECT / "examples" / "runner-open.service")
    service = unit["Service"]
    assert runner(*service["ExecStart"].split()[1:]).out == "no Delivery is open\n"
    known = {int(code) for code in f"{service['SuccessExitStatus']} {service['RestartForceExitStatus']}".split()}
    assert known == set(Exit) - {Exit.OK, Exit.REFUSED, Exit.ATTENTION}
