"""Output that goes nowhere: the work is done all the same, and the exit code is the work's."""

from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine


@pytest.fixture
def run(runner: CommandLine) -> str:
    """A command that carries out the Delivery ``d1``."""
    repo, package = world.repository(runner.home / "repo"), world.package(runner.here)
    return f"runner run {package} --repo {repo} --id d1"


def outcome(runner: CommandLine) -> object:
    return runner("inspect", "d1", "--json").document["outcome"]


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_nobody_listens(runner: CommandLine, run: str, closed: str) -> None:
    """Closed streams and progress that cannot be written change nothing about a Delivery."""
    answer = runner.shell(f"{run} {closed}")
    assert answer.code == 0, answer
    assert outcome(runner) == "completed"


def test_a_result_that_cannot_be_printed(runner: CommandLine, run: str) -> None:
    """The work is done, and one message says that its result went nowhere."""
    answer = runner.shell(f"{run} --json >/dev/full")
    assert answer.code == 5
    assert "error[state-unwritable]: the standard output cannot be written: No space left on device" in answer.err
    assert outcome(runner) == "completed"
    assert runner.shell("runner cancel nobody >/dev/full").code == 2


def test_a_reader_that_has_seen_enough(runner: CommandLine, run: str) -> None:
    """With ``| head`` the exit code is still the command's, and nothing complains."""
    answer = runner.shell(f"({run} 2>&1; echo $? >code) | head -n 1")
    assert answer.out.count("\n") == 1 and answer.err == ""
    assert (runner.here / "code").read_text() == "0\n"
    assert outcome(runner) == "completed"
    again = runner.shell("(runner inspect d1 --events; echo $? >code) | true")
    assert (again.err, (runner.here / "code").read_text()) == ("", "0\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
def test_an_alphabet_that_is_too_small(runner: CommandLine, encoding: str) -> None:
    """What the terminal cannot show is escaped, in results and in errors."""
    world.package(runner.here).rename(Path("z\N{LATIN SMALL LETTER U WITH DIAERESIS}\N{FOX FACE}.yaml"))
    runner.environment |= {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    good = runner.shell("runner check *.yaml | iconv -f latin1 -t utf-8")
    assert "\\U0001f98a.yaml: ok" in good.out and good.err == ""
    bad = runner.shell("for f in *.yaml; do runner check $f/x; done 2>&1 | iconv -f latin1 -t utf-8")
    assert bad.out.startswith("error[package-invalid]: ") and "\\U0001f98a.yaml/x" in bad.out
