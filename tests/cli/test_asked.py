"""Questions to people: shown, answered from another process, asked inline on a terminal."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine
from tests.cli.test_on_a_terminal import Screen
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import ScriptedOpenAi, in_order


@pytest.fixture
def repo(runner: CommandLine) -> Path:
    return world.repository(runner.home / "repo")


@pytest.fixture
def words(runner: CommandLine, repo: Path) -> tuple[str, ...]:
    """A run whose second step asks."""
    return ("run", str(world.reviewed(runner.here)), "--repo", str(repo), "--id", "d1")


def test_answered_from_another_process(runner: CommandLine, repo: Path, words: tuple[str, ...]) -> None:
    """Without a terminal it suspends at once and prints what to paste; an answer, and it goes on to the end."""
    suspended = runner(*words)
    assert suspended.code == 3, suspended
    assert "asks       review: wait review@1" in suspended.out and "Ship it?" in suspended.out
    shown = runner("inspect", "d1", "--json").document
    assert [w["wait"] for w in shown["waits"]] == ["review@1"]
    assert shown["next"][:2] == ["runner answer d1 review@1 approve", "runner answer d1 review@1 reject"]
    for wrong, code in [("ship", "answer-invalid"), ("17", "answer-invalid")]:
        refused = runner("answer", "d1", wrong, "--json")
        assert (refused.code, refused.document["error"]["code"]) == (2, code)
    assert runner("answer", "d1", "review@2", "approve", "--json").document["error"]["code"] == "wait-unknown"
    assert runner("answer", "d1", "review@9", "approve", "--comment", "x").code == 2
    said = runner.shell("runner answer d1 review@1 approve --comment 'well done'")
    assert said.code == 0 and "approve is recorded as the answer to wait review@1 of review" in said.out, said
    assert "continue  " in said.out and "execute d1" in said.out
    twice = runner("answer", "d1", '{"decision": "approve", "comment": "well done"}')
    assert twice.code == 0
    other = runner("answer", "d1", "reject", "--json")
    assert other.document["error"]["code"] == "answer-invalid" and "said before" in other.document["error"]["message"]
    assert runner("execute", "d1").code == 0
    assert world.git(repo, "show", "runner/d1:two.txt") == "two"
    events = runner("inspect", "d1", "--events", "--json").document["events"]
    assert [e["kind"] for e in events].count("wait.answered") == 1


def test_a_followed_ledger_ends_with_the_delivery(runner: CommandLine, words: tuple[str, ...]) -> None:
    """It shows what there is, waits for more while the Delivery is open, and ends at its settlement."""
    assert runner(*words).code == 3
    following = runner.start("inspect", "d1", "--events", "--follow")
    assert following.stdout is not None
    first = following.stdout.readline()
    assert "delivery.accepted" in first
    runner("answer", "d1", "reject")
    assert runner("execute", "d1").code == 1
    out, err = following.communicate(timeout=60)
    assert following.returncode == 0 and err == ""
    assert out.splitlines()[-1].split()[2] == "delivery.settled"
    assert [int(line.split()[0]) for line in (first + out).splitlines()] == list(range(1, out.count("\n") + 2))


class Terminal:
    """``runner`` on a terminal of its own that controls it; what is typed there, and what it shows."""

    def __init__(self, runner: CommandLine, *words: str) -> None:
        self._ours, theirs = os.openpty()
        self.seen = ""

        # The first terminal that a session's leader opens controls it.
        adopt = "import os, sys; os.close(os.open(os.ttyname(0), os.O_RDWR)); os.execv(sys.executable, sys.argv[1:])"
        self.process = subprocess.Popen(
            [runner.interpreter, "-c", adopt, runner.interpreter, "-m", "runner.cli", *words],
            cwd=runner.here,
            env={**runner.environment, "TERM": "xterm-256color", "COLUMNS": "80"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, text: str) -> str:
        """What is shown from here up to ``text``."""
        at = len(self.seen)
        while text not in self.seen[at:]:
            assert self._more(), self.seen
        return self.seen[at:]

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> tuple[int, str]:
        """The exit code, and all that was ever shown."""
        while self._more():
            pass
        os.close(self._ours)
        return self.process.wait(60), self.seen

    def _more(self) -> bool:
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the last holder of the other side is gone
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


LATER = "approve / reject (empty: later) > "


def test_asked_on_a_terminal(runner: CommandLine, repo: Path, words: tuple[str, ...]) -> None:
    """The diff so far, the question, the choices; a word that is none is asked for again, a comment may follow."""
    terminal = Terminal(runner, *words)
    terminal.type("reject\n")  # before there is a question
    shown = terminal.until(LATER)
    assert "+one" in shown and "made.txt" in shown and "review asks (wait review@1)" in shown and "Ship it?" in shown
    terminal.type("ship\n")
    assert "one of: approve, reject" in terminal.until(LATER)
    terminal.type("approve\n")
    terminal.until("comment (empty: none) > ")
    terminal.type("well done\n")
    code, seen = terminal.end()
    assert code == 0, seen
    screen = Screen()
    screen.write(seen)
    done = [line.split()[1] for line in screen.lines if line.startswith("+ ")]
    assert done == ["write", "review", "last"]
    answered = next(
        e for e in runner("inspect", "d1", "--events", "--json").document["events"] if "answered" in e["kind"]
    )
    assert "well done" in str(answered["payload"])


@pytest.mark.parametrize("typed", ["\n", "\x03", "\x04"])
def test_later(runner: CommandLine, words: tuple[str, ...], typed: str) -> None:
    """An empty line, Ctrl-C or the end of input: suspended, exit 3, and the commands that answer; nothing is answered."""
    terminal = Terminal(runner, *words)
    terminal.until(LATER)
    terminal.type(typed)
    code, seen = terminal.end()
    assert code == 3 and "answer d1 review@1 approve" in seen, seen
    assert "stopping" not in seen
    assert runner("answer", "d1", "approve").code == 0
    assert runner("execute", "d1").code == 0


def test_answered_from_elsewhere_while_it_is_asked(runner: CommandLine, words: tuple[str, ...]) -> None:
    """The question on the terminal goes away, and the run goes on."""
    terminal = Terminal(runner, *words)
    terminal.until(LATER)
    said = runner("answer", "d1", "approve", "--json")
    assert said.document["driver"] and said.document["next"] == []
    code, seen = terminal.end()
    assert code == 0 and "no longer asked" in seen, seen


def test_an_edited_worktree(runner: CommandLine, repo: Path, words: tuple[str, ...]) -> None:
    """Somebody edits it while the Delivery is suspended: nothing goes on before they said whose that is."""
    assert runner(*words).code == 3
    worktree = runner.state / "worktrees" / "d1"
    (worktree / "mine.txt").write_text("mine\n")
    runner("answer", "d1", "approve")
    asked = runner("execute", "d1", "--json")
    assert (asked.code, asked.document["reason"]) == (4, "worktree-edited")
    assert asked.document["next"][:3] == [f"runner resolve d1 --{said}" for said in ("adopt", "discard", "abandon")]
    shown = runner("inspect", "d1").out
    assert "mine.txt" in shown and "runner resolve d1 --adopt" in shown
    assert runner("resolve", "d1", "--did-not-happen", "--json").document["error"]["code"] == "call-unknown"
    assert "adopt is recorded of the edited worktree" in runner("resolve", "d1", "--adopt").out
    assert runner("execute", "d1").code == 0
    assert world.git(repo, "show", "runner/d1:mine.txt") == "mine"


def test_what_an_agent_asks(runner: CommandLine, repo: Path) -> None:
    """Its question is put to the person at the terminal, who may also answer later; its session goes on."""
    replies = in_order(
        Calls((Call("ask", {"question": "Which colour?", "options": ["red", "blue"]}, id="q1"),)),
        Result({"summary": "painted"}),
    )
    package = runner.here / "paint.yaml"
    package.write_text(world.AGENT.replace("scope:", "asks: true, scope:"))
    with ScriptedOpenAi(replies) as server:
        config = str(world.openai_config(runner.home, server.base_url))
        bound = ("--bind", "coder=openai:m", "--config", config)
        terminal = Terminal(runner, "run", str(package), "--repo", str(repo), "--id", "d1", *bound)
        assert "Which colour?" in terminal.until("red / blue (empty: later) > ")
        terminal.type("\n")
        code, seen = terminal.end()
        assert code == 3 and len(server.requests) == 1, seen
        again = Terminal(runner, "execute", "d1", "--config", config)
        again.until("red / blue (empty: later) > ")
        again.type("blue\n")
        code, seen = again.end()
        assert code == 0 and len(server.requests) == 2, seen
        assert "blue" in json.dumps(server.requests[1].body["messages"][-1])


def test_a_takeover_is_confirmed(runner: CommandLine, repo: Path) -> None:
    """On a terminal it says whom it will end and asks; anything but yes ends nobody."""
    runner.uncontained()
    begun = runner.home / "begun"
    os.mkfifo(begun)
    package = world.package(runner.here, f"echo go > {begun}; sleep 1000")
    process = runner.start("run", str(package), "--repo", str(repo), "--id", "d1")
    assert begun.read_text() == "go\n"
    for typed, expected in [("\n", 2), ("y\n", 0)]:
        terminal = Terminal(runner, "takeover", "d1")
        assert f":{process.pid};" in terminal.until("End it? [y/N] ")
        terminal.type(typed)
        code, seen = terminal.end()
        assert code == expected, seen
    process.communicate(timeout=60)
    assert process.returncode != 0
