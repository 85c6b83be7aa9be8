"""An endpoint that is down, as a person meets it: what the commands say, and that nothing is lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli import world
from tests.cli.conftest import CommandLine
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import Reply, ScriptedOpenAi, Status


@pytest.fixture
def repo(runner: CommandLine) -> Path:
    return world.repository(runner.home / "repo")


class Model:
    """Writes a file, is ``down`` once, and is done."""

    def __init__(self, down: Status) -> None:
        self.down: Status | None = down

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        if not any(message["role"] == "tool" for message in body["messages"]):
            return Calls((Call("write", {"path": "made.txt", "content": "made\n"}),))
        down, self.down = self.down, None
        return down or Result({"summary": "done"})


def words(runner: CommandLine, repo: Path, server: ScriptedOpenAi, delivery: str) -> tuple[str, ...]:
    file = runner.here / "mend.yaml"
    file.write_text(world.AGENT + "    retry: { attempts: 1 }\n")
    config = world.openai_config(runner.home, server.base_url)
    return (
        "run",
        str(file),
        "--repo",
        str(repo),
        "--id",
        delivery,
        "--bind",
        "coder=openai:m",
        "--config",
        str(config),
    )


def test_it_goes_on_where_it_was(runner: CommandLine, repo: Path) -> None:
    """Suspended, with reason, step and time; a sweep before that time calls nobody and writes nothing; whoever names the
    Delivery tries at once, and it ends as if nothing had been."""
    with ScriptedOpenAi(Model(Status(500))) as server:
        run = words(runner, repo, server, "d1")
        config = run[-2:]
        first = runner(*run)
        assert first.code == 3
        assert first.out.strip().startswith("Delivery d1: suspended at mend (transient), not before 2")
        looked = runner("inspect", "d1", *config).out
        assert "  because    transient at mend\n             openai: " in looked
        assert "\n  next try   not before 2" in looked
        found = runner("inspect", "d1", "--json", *config).document
        assert found["phase"] == "suspended"
        assert (found["suspended"]["reason"], found["suspended"]["step"]) == ("transient", "mend@1")

        swept = runner("execute", "--open", *config)
        assert (swept.code, len(server.requests)) == (3, 2)
        assert swept.out == f"d1  suspended (transient), not before {found['suspended']['not_before']}\n"
        assert runner("inspect", "d1", "--json", *config).document == found

        assert runner("execute", "d1", *config).code == 0
        assert len(server.requests) == 3
    done = runner("inspect", "d1", *config).out
    assert "because" not in done and "next try" not in done


def test_others_keep_the_pause_that_it_was_told(runner: CommandLine, repo: Path) -> None:
    """Another Delivery, in another process: suspended before it has called."""
    with ScriptedOpenAi(Model(Status(429, retry_after="900"))) as server:
        assert runner(*words(runner, repo, server, "d1")).code == 3
        second = runner(*words(runner, repo, server, "d2"))
        assert (second.code, len(server.requests)) == (3, 2)
        assert second.out.strip().startswith("Delivery d2: suspended at mend (backing-off), not before 2")
