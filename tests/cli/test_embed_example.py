"""``examples/embed.py`` is a whole program."""

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine
from tests.house.source import PROJECT

EMBED = str(PROJECT / "examples" / "embed.py")


@pytest.fixture(autouse=True)
def checkout(runner: CommandLine) -> None:
    """This tree, whatever is installed."""
    runner.environment["PYTHONPATH"] = str(PROJECT)


@pytest.mark.parametrize("words", [(), ("runner.toml",), ("a", "b", "c")])
def test_usage(runner: CommandLine, words: tuple[str, ...]) -> None:
    """Called otherwise it says how, without a traceback."""
    answer = runner.python(EMBED, *words)
    assert answer.code == 2 and answer.err == "usage: python examples/embed.py CONFIG ACTIVATION\n"


def test_it_carries_out_a_delivery(runner: CommandLine) -> None:
    """Executed twice: the same end, and nothing happens again."""
    repo, config = world.repository(runner.home / "repo"), runner.here / "c.toml"
    config.write_text(f'state_root = "{runner.state}"\n')
    package = str(world.package(runner.here))
    words = ("--repo", str(repo), "--config", str(config), "--id", "d1")
    assert runner("admit", package, *words, "-o", "a.json").code == 0
    ends = [runner.python(EMBED, str(config), "a.json") for _ in range(2)]
    for end in ends:
        assert end.code == 0, end
        assert end.out.splitlines()[-1] == "cancel: too-late"
        assert "completed: published refs/heads/runner/d1 " in end.out
    assert "delivery.settled" in ends[0].out and "delivery.settled" not in ends[1].out
