"""``doctor`` says what a Delivery would find, and changes nothing."""

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

CONFIG = """\
[providers.openai]
credential = {source}
[providers.openai.settings]
base_url = "http://127.0.0.1:1/v1"
"""


def test_a_new_machine(runner: CommandLine) -> None:
    """The built-in config works; isolation is said plainly; nothing is made."""
    answer = runner("doctor", "--json")
    checks = {check["name"]: check for check in answer.document["checks"]}
    assert answer.code == 0 and answer.document["ok"]
    assert "git version" in checks["git"]["detail"] and "bubblewrap: " in checks["isolation"]["detail"]
    assert "no config file was found" in checks["config"]["detail"]
    assert checks["state root"]["detail"].endswith("(will be made)")
    assert list(runner.home.iterdir()) == [runner.here]


def test_a_config_that_is_not_there(runner: CommandLine) -> None:
    """What was named is missing: refused like everywhere, before anything else is looked at."""
    answer = runner("doctor", "--config", "nosuch", "--json")
    assert (answer.code, answer.document["error"]["code"]) == (2, "config-not-found")
    assert "nosuch" in answer.document["error"]["message"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('{ env = "NO_SUCH_KEY" }', "NO_SUCH_KEY is not set"),
        ('{ file = "/no/such/key" }', "No such file"),
        ('{ file = "FILE" }', "others may read it"),
    ],
)
def test_secrets_that_cannot_be_read(runner: CommandLine, source: str, says: str) -> None:
    """Named without being shown; exit 5."""
    key = runner.here / "key"
    key.write_text("very-secret-value")
    key.chmod(0o644)
    (runner.here / "runner.toml").write_text(CONFIG.format(source=source.replace("FILE", str(key))))
    answer = runner("--config", "runner.toml", "doctor")
    assert answer.code == 5 and says in answer.out and "very-secret-value" not in answer.out


def test_a_broken_config_is_one_of_the_checks(runner: CommandLine) -> None:
    """The rest is still looked at."""
    (runner.here / "runner.toml").write_text("engine = 3\n")
    answer = runner("doctor", "--config", "runner.toml", "--json")
    names = [check["name"] for check in answer.document["checks"] if check["state"] == "problem"]
    assert (answer.code, names) == (5, ["config"])


def test_the_repository_wins_over_the_user(runner: CommandLine) -> None:
    """Which config is used, and why."""
    for path in (runner.home / ".config" / "runner" / "runner.toml", runner.here / "runner.toml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[providers.recorded]\n")
    (runner.here / ".git").mkdir()
    assert "it stands at the root of the repository" in runner("doctor").out
    Path("runner.toml").unlink()
    assert "it is the user's config" in runner("doctor").out
