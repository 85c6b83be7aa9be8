"""The door: light to open, one clear message for every mistake, never a traceback."""

from importlib import metadata

import pytest

from runner.cli import app, failures
from tests.cli.conftest import CommandLine

HEAVY = ("langgraph", "langchain_core", "langchain_openai", "openai", "pydantic", "git", "ruamel", "sqlite3", "rich")


def test_help_imports_nothing_heavy(runner: CommandLine) -> None:
    """``runner --help`` is instant: what a command needs is imported when it runs."""
    code = (
        f"import sys; from runner.cli.app import run; run(['--help']); print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    answer = runner.python("-c", code)
    assert answer.out.splitlines()[-1] == ""
    named = "demo init check graph admit execute run inspect cancel doctor answer resolve verify takeover"
    for name in named.split():
        assert f"\n  {name} " in answer.out


def test_version(runner: CommandLine) -> None:
    """The version of the distribution, in one line."""
    assert runner("--version").out == f"runner {metadata.version('m02-runner')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("no-such-command",),
        ("run",),
        ("run", "p.yaml", "--no-such-option"),
        ("graph", "p.yaml", "--format", "png"),
        ("execute",),
        ("inspect", "--events"),
        ("inspect", "--follow"),
        ("execute", "d1", "--open"),
        ("answer", "d1"),
        ("answer", "d1", "a@1", "two", "words"),
        ("resolve", "d1"),
        ("resolve", "d1", "--abandon", "--adopt"),
        ("takeover",),
    ],
)
def test_usage(runner: CommandLine, words: tuple[str, ...]) -> None:
    """A command line that cannot be is exit 2 with a message on stderr; with --json a document on stdout."""
    answer = runner(*words)
    assert (answer.code, answer.out) == (2, "") and answer.err
    scripted = runner(*words, "--json")
    assert scripted.code == 2 and scripted.document["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("check", "missing.yaml"), "package-invalid", 2),
        (("execute", "missing.json"), "activation-invalid", 2),
        (("execute", "not-json"), "activation-invalid", 2),
        (("--config", "missing.toml", "inspect"), "config-not-found", 2),
        (("inspect", "--config", "bad.toml"), "config-invalid", 2),
        (("inspect", "../../etc"), "delivery-id-invalid", 2),
        (("inspect", "x" * 300), "delivery-id-invalid", 2),
        (("inspect", "déjà"), "delivery-id-invalid", 2),
        (("cancel", "nobody"), "delivery-unknown", 2),
        (("inspect", "nobody"), "delivery-unknown", 2),
        (("inspect", "nobody", "--events"), "delivery-unknown", 2),
        (("inspect", "nobody", "--follow"), "delivery-unknown", 2),
        (("execute", "nobody"), "delivery-unknown", 2),
        (("answer", "nobody", "yes"), "delivery-unknown", 2),
        (("answer", "nobody", "{"), "answer-invalid", 2),
        (("resolve", "nobody", "c", "--abandon"), "delivery-unknown", 2),
        (("resolve", "nobody", "c", "--adopt"), "usage", 2),
        (("verify", "nobody"), "delivery-unknown", 2),
        (("takeover", "nobody", "--yes"), "delivery-unknown", 2),
    ],
)
def test_refusals(runner: CommandLine, words: tuple[str, ...], code: str, exit_code: int) -> None:
    """Code, message and remedy for people and for scripts; nothing is written."""
    (runner.here / "not-json").write_text("{")
    (runner.here / "bad.toml").write_text("[providers.recorded]\nprority = 1\n")
    before = sorted(runner.home.rglob("*"))
    answer = runner(*words)
    assert answer.code == exit_code and answer.out == ""
    assert answer.err.startswith(f"error[{code}]: ")
    scripted = runner(*words, "--json")
    assert scripted.code == exit_code and scripted.document["error"]["code"] == code
    assert sorted(runner.home.rglob("*")) == before


def test_an_internal_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody foresaw: its name and how to report it; the full text only on request."""
    failures.show_internal(ValueError("odd"), as_json=False, full=False)
    shown = capsys.readouterr().err
    assert shown.startswith("error[internal]: ValueError: odd") and "RUNNER_DEBUG=1" in shown
    assert shown.count("\n") == 2
    failures.show_internal(ValueError("odd"), as_json=False, full=True)
    assert capsys.readouterr().err.rstrip().endswith("ValueError: odd")


def test_windows_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is looked at."""
    assert app.run(["--help"], platform="win32") == 5
    assert "error[platform-unsupported]: Windows is not supported" in capsys.readouterr().err


def test_a_reader_that_leaves(runner: CommandLine) -> None:
    """``runner ... | head`` ends quietly, also when the reader is gone before the first line."""
    assert runner.shell("runner --help | true").err == ""
    assert runner.shell("runner inspect | true").err == ""


def test_no_colours_on_a_pipe(runner: CommandLine) -> None:
    """Plain text when nobody looks, whatever the environment says about colours."""
    assert "\x1b" not in runner.shell("FORCE_COLOR=1 CLICOLOR_FORCE=1 runner inspect nobody").err


def test_empty_list(runner: CommandLine) -> None:
    """A new user sees what to do."""
    assert "no Deliveries yet" in runner("inspect").out
    assert runner("inspect", "--json").document == {"deliveries": []}


def test_init_writes_what_works(runner: CommandLine) -> None:
    """The config loads, the package is right, and a second init overwrites nothing."""
    made = runner("init")
    assert made.code == 0
    assert runner("check", "workflows/fix-tests/fix-tests.yaml").code == 0
    assert runner("--config", "runner.toml", "inspect").code == 0
    (runner.here / "runner.toml").write_text("mine")
    again = runner("init", "--json")
    assert again.code == 2 and "runner.toml" in again.document["error"]["message"]
    assert (runner.here / "runner.toml").read_text() == "mine"


def test_init_is_all_or_nothing(runner: CommandLine) -> None:
    """One file in the way, and nothing is written."""
    (runner.here / "workflows" / "fix-tests").mkdir(parents=True)
    (runner.here / "workflows" / "fix-tests" / "coder.md").write_text("mine")
    assert runner("init").code == 2
    assert not (runner.here / "runner.toml").exists()


def test_a_file_of_nonsense(runner: CommandLine) -> None:
    """A person sees the first mistakes and how many there are; a script gets them all."""
    (runner.here / "p.yaml").write_text("".join(f"k{n}: 1\n" for n in range(200)))
    shown = runner("check", "p.yaml")
    assert "202 problems" in shown.err and "... and 152 more; --json lists them all" in shown.err
    assert shown.err.count("is not a known key") == 48
    assert len(runner("check", "p.yaml", "--json").document["error"]["findings"]) == 202
