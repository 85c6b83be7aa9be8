"""A config that was only found in a repository is hostile input: it could send the user's secret to an address of its own."""

from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.conftest import Answer, CommandLine

FOUND = {
    "a secret in the environment": ('[providers.openai]\ncredential = { env = "HOME" }', "providers.openai.credential"),
    "a secret in a file": ('[providers.openai]\ncredential = { file = "/k" }', "providers.openai.credential"),
    "another state root": ('state_root = "/elsewhere"\n[providers.openai]', "state_root"),
    "no boundary": ('isolation = "none"\n[providers.openai]', "isolation"),
    "a hole in the boundary": ('[boundary]\nreadable = ["/etc"]\n[providers.openai]', "boundary.readable"),
    "a place for recordings": ('record_dir = "/elsewhere"\n[providers.openai]', "record_dir"),
}
ENDPOINT = '\n[providers.openai.settings]\nbase_url = "http://127.0.0.1:1/v1"\n[providers.recorded]\n'


@pytest.fixture
def repo(runner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, with the current directory in it."""
    made = world.repository(runner.home / "repo")
    world.package(made)
    monkeypatch.chdir(made)
    return made


def untrusted(answer: Answer) -> str:
    """The refusal's message and remedy; the fields it is about."""
    assert answer.code == 2, answer
    error = answer.document["error"]
    assert error["code"] == "config-untrusted"
    return " ".join([error["message"], error["remedy"], *(f["place"] for f in error["findings"])])


@pytest.mark.parametrize("case", FOUND)
def test_what_a_found_config_may_not_say(runner: CommandLine, repo: Path, case: str) -> None:
    """Refused by field and before any effect, for every command that may use a provider; the way out is said and works."""
    text, field = FOUND[case]
    config = repo / "runner.toml"
    config.write_text(text + ENDPOINT)
    (repo / "a.json").write_text('{"delivery": "d"}')
    before = sorted(runner.home.rglob("*"))
    for words in (
        ("run", "touch.yaml"),
        ("admit", "touch.yaml", "-o", "b.json"),
        ("execute", "a.json"),
        ("cancel", "d"),
    ):
        said = untrusted(runner(*words, "--json"))
        assert field in said and f"--config {config}" in said and "RUNNER_CONFIG" in said
    assert sorted(runner.home.rglob("*")) == before


@pytest.mark.parametrize("way", ["option", "variable", "user"])
def test_naming_it_is_trusting_it(runner: CommandLine, repo: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """--config, RUNNER_CONFIG and the user's own config may say where a secret is."""
    text, _ = FOUND["a secret in the environment"]
    config = repo / "runner.toml"
    if way == "user":
        config = runner.home / ".config" / "runner" / "runner.toml"
        config.parent.mkdir(parents=True)
    config.write_text(text + ENDPOINT)
    if way == "variable":
        monkeypatch.setenv("RUNNER_CONFIG", str(config))
    named = ("--config", "runner.toml") if way == "option" else ()
    assert runner("run", "touch.yaml", *named).code == 0


def test_a_found_config_without_secrets_is_used_and_said(runner: CommandLine, repo: Path) -> None:
    """It may choose providers; the person sees whose config it is."""
    config = repo / "runner.toml"
    config.write_text("[providers.openai]" + ENDPOINT)
    answer = runner("run", "touch.yaml")
    assert answer.code == 0 and f"config {config}, found in the repository" in answer.err


def test_looking_needs_no_secret(runner: CommandLine, repo: Path) -> None:
    """A secret that is named matters only to commands that may use it; another state root matters to all."""
    config = repo / "runner.toml"
    config.write_text(FOUND["a secret in a file"][0] + ENDPOINT)
    assert runner("inspect").code == 0
    config.write_text(FOUND["another state root"][0] + ENDPOINT)
    untrusted(runner("inspect", "--json"))


def test_doctor_says_so(runner: CommandLine, repo: Path) -> None:
    """Plainly, with the field and what to do; and what holds for a found config that is fine."""
    config = repo / "runner.toml"
    config.write_text(FOUND["a secret in the environment"][0] + ENDPOINT)
    checks = {check["name"]: check for check in runner("doctor", "--json").document["checks"]}
    assert checks["config trust"]["state"] == "problem"
    assert "providers.openai.credential" in checks["config trust"]["detail"]
    assert f"--config {config}" in checks["config trust"]["remedy"]
    assert "config trust" not in runner("doctor", "--config", "runner.toml").out
    config.write_text("[providers.openai]" + ENDPOINT)
    assert "note     config trust" in runner("doctor").out


def test_init_says_how_to_name_it(runner: CommandLine, repo: Path) -> None:
    """The commands it prints work as printed."""
    commands = runner("init", "--json").document["next"]
    for command in commands[1:3]:
        assert runner.shell(f"cd '{repo}'; {command}").code == 0
    assert "config trust" not in runner.shell(f"cd '{repo}'; {commands[0]}").out
    assert all("--config runner.toml" in command for command in (commands[0], commands[3]))
