"""``runner tools``, and what other commands say of tool servers."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

SCRIPT = Path(__file__).parents[1] / "tool_servers" / "scripted_server.py"
PACKAGE = """\
name: tools
roles: { coder: { instructions: { text: Be brief. } } }
tools: { echo: { server: tracker, effect: read } }
steps:
  - id: work
    agent: { role: coder, prompt: Work., scope: read-only, tools: [echo] }
"""


def config(runner: CommandLine, gone: bool = False) -> str:
    command = f'["{sys.executable}", "{SCRIPT}", "{runner.home}"]'
    text = f"[providers.recorded]\n[tool_servers.tracker]\ncommand = {command}\n"
    if gone:
        text += '[tool_servers.gone]\ncommand = ["/no/such/program"]\n'
    (runner.here / "c.toml").write_text(text)
    return "c.toml"


def test_what_servers_offer_and_how_it_is_declared(runner: CommandLine) -> None:
    """One line to paste into a package, the digest, and a description that steers no terminal."""
    shown = runner("tools", "--config", config(runner))
    assert shown.code == 0 and "\x1b" not in shown.out
    assert "tools: { echo: { server: tracker, effect: external } }" in shown.out and "sha256:" in shown.out
    (server,) = runner("tools", "--config", "c.toml", "--json").document["servers"]
    assert server["server"] == "tracker" and server["error"] is None
    assert {"name", "description", "parameters", "digest", "declare"} == set(server["tools"][0])


def test_a_server_that_does_not_answer_hides_no_other(runner: CommandLine) -> None:
    """Exit 5, with the reason; doctor says the same."""
    shown = runner("tools", "--config", config(runner, gone=True))
    assert shown.code == 5 and "tracker: " in shown.out and "/no/such/program: No such file" in shown.out
    checks = {c["name"]: c for c in runner("doctor", "--config", "c.toml", "--json").document["checks"]}
    assert checks["tool server tracker"]["state"] == "ok"
    assert checks["tool server gone"]["state"] == "problem" and checks["tool server gone"]["remedy"]


def test_no_server_is_started_for_a_config_that_was_only_found(runner: CommandLine) -> None:
    """A repository could name a program of its own: refused by ``tools``, and not started by ``doctor``."""
    (runner.here / ".git").mkdir()
    config(runner)
    (runner.here / "c.toml").rename(runner.here / "runner.toml")
    assert "tool_servers.tracker" in runner("tools").err
    checks = [c["name"] for c in runner("doctor", "--json").document["checks"]]
    assert "config trust" in checks and "tool server tracker" not in checks
    assert not (runner.home / "starts").exists()


@pytest.mark.parametrize("form", ["ascii", "mermaid"])
def test_checked_and_drawn_offline(runner: CommandLine, form: str) -> None:
    """``check`` and ``graph`` ask no server, and ``check`` says when it is asked."""
    (runner.here / "p.yaml").write_text(PACKAGE)
    shown = runner("check", "p.yaml")
    assert shown.code == 0 and "echo (tracker)" in shown.out and "when the package is admitted" in shown.out
    assert runner("check", "p.yaml", "--json").document["tools"] == [{"name": "echo", "server": "tracker"}]
    assert "work" in runner("graph", "p.yaml", "--format", form).out


def test_mistakes_in_a_table_are_named_by_its_key(runner: CommandLine) -> None:
    """As they stand in the file."""
    (runner.here / "c.toml").write_text('[tool_servers.tracker]\nurl = "ftp://x"\n[tool_servers.other]\nurl = 3\n')
    shown = runner("tools", "--config", "c.toml")
    assert shown.code == 2
    assert "tool_servers.tracker" in shown.err and "'url' begins with http" in shown.err
    assert "tool_servers.other.url" in shown.err
