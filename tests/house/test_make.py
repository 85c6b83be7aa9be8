"""``make`` is the door for people: it says what is missing, and it does nothing twice."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PROJECT

TOOLS = ("sh", "make", "cksum", "cut", "rm", "ls", "mkdir", "git")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What make needs of the project, in a directory with a space in its name."""
    tree = tmp_path / "a checkout"
    (tree / ".ci").mkdir(parents=True)
    (tree / "requirements").mkdir()
    for name in ("Makefile", "pyproject.toml", ".ci/setup", ".ci/python", ".ci/lock", "requirements/dev.txt"):
        shutil.copy(PROJECT / name, tree / name)
    return tree


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with what make itself needs, and no Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return folder


def fake_python(folder: Path, name: str, before: str) -> Path:
    """An interpreter in whose place ``before`` has been executed first."""
    file = folder / name
    start = f"import sys; {before}; exec(sys.argv[1])"
    file.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -c '{start}' \"$3\"\n", "utf-8")
    file.chmod(0o755)
    return file


def make(tree: Path, path: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """``make`` with an empty HOME, and nothing of this process's environment."""
    home = tree.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {"PATH": str(path), "HOME": str(home), **env}
    done = subprocess.run(["make", *arguments], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


def message(done: subprocess.CompletedProcess[str]) -> str:
    """The one message of a refusal."""
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1, done.stderr
    return done.stderr


def test_help_needs_nothing_and_makes_nothing(checkout: Path, tools: Path) -> None:
    """The bare ``make`` says what there is; every target it names exists."""
    done = make(checkout, tools)
    named = re.findall(r"^make (\w+)", done.stdout, re.MULTILINE)
    assert done.returncode == 0
    assert {"demo", "test", "check", "lock", "fmt", "clean"} <= set(named)
    assert not (checkout / ".venv").exists()
    for target in named:
        assert re.search(rf"^{target}:", (checkout / "Makefile").read_text("utf-8"), re.MULTILINE), target


@pytest.mark.parametrize("target", ["demo", "test", "lint", "check", "fmt"])
def test_no_python_at_all(checkout: Path, tools: Path, target: str) -> None:
    """The message says what was looked for and which packages bring it."""
    said = message(make(checkout, tools, target))
    assert "python3 was not found" in said
    assert "apt-get install python3 python3-venv" in said
    assert not (checkout / ".venv").exists()


def test_only_an_old_python(checkout: Path, tools: Path) -> None:
    """What was found, its version, and the version that is needed."""
    fake_python(tools, "python3", 'sys.version_info = (3, 9, 2, "final", 0)')
    said = message(make(checkout, tools, "demo"))
    assert "python3 is Python 3.9.2; 3.11 or newer is needed" in said


def test_a_python_without_venv(checkout: Path, tools: Path) -> None:
    """Debian keeps a part of the standard library in a package of its own, and the message names it."""
    fake_python(tools, "python3", 'sys.modules["ensurepip"] = None')
    said = message(make(checkout, tools, "test"))
    assert "python3 is Python 3." in said
    assert "without a complete venv module" in said
    assert "apt-get install python3-venv" in said


def test_a_launcher_without_its_version_is_not_a_python(checkout: Path, tools: Path) -> None:
    """A version manager's launcher that fails is as good as absent; the next candidate is asked."""
    launcher = tools / "python3.13"
    launcher.write_text("#!/bin/sh\necho 'launcher: command not found' >&2\nexit 127\n", "utf-8")
    launcher.chmod(0o755)
    fake_python(tools, "python3", 'sys.version_info = (3, 9, 2, "final", 0)')
    said = message(make(checkout, tools, "demo"))
    assert "python3.13" not in said
    assert "python3 is Python 3.9.2" in said


def test_python_named_by_hand_decides_alone(checkout: Path, tools: Path) -> None:
    """``PYTHON=`` is not a hint: another one is not used behind the user's back."""
    fake_python(tools, "python3", "pass")
    said = message(make(checkout, tools, "demo", "PYTHON=/nowhere/python3.12"))
    assert "/nowhere/python3.12" in said


def test_an_active_environment_is_asked_first(checkout: Path, tools: Path) -> None:
    """Its interpreter is the one that the user means."""
    (tools / "active" / "bin").mkdir(parents=True)
    fake_python(tools / "active" / "bin", "python", 'sys.version_info = (3, 10, 1, "final", 0)')
    said = message(make(checkout, tools, "demo", VIRTUAL_ENV=str(tools / "active")))
    assert "active/bin/python is Python 3.10.1" in said


def test_git_is_missing(checkout: Path, tools: Path) -> None:
    """Said before anything is installed."""
    (tools / "git").unlink()
    said = message(make(checkout, tools, "demo", f"PYTHON={sys.executable}"))
    assert "git is not installed" in said
    assert "apt-get install git" in said
    assert not (checkout / ".venv").exists()


def test_a_folder_that_is_no_environment_is_left_alone(checkout: Path, tools: Path) -> None:
    """``.venv`` may be somebody's own; it is never deleted unless it is a virtual environment."""
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "keep").write_text("mine", "utf-8")
    said = message(make(checkout, tools, "demo", f"PYTHON={sys.executable}"))
    assert ".venv exists and is not a virtual environment" in said
    assert (checkout / ".venv" / "keep").read_text("utf-8") == "mine"


def ready(tree: Path) -> Path:
    """Marks the environment as set up, as a finished setup does."""
    name = subprocess.run(
        "printf %s .venv/.ready-$(pwd | cksum | cut -d ' ' -f 1)",
        shell=True,
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (tree / ".venv").mkdir(exist_ok=True)
    (tree / name).touch()
    return tree / name


def test_what_is_set_up_is_not_set_up_again(checkout: Path, tools: Path) -> None:
    """The second run takes seconds: nothing is asked of pip."""
    ready(checkout)
    assert make(checkout, tools, "--question", "setup").returncode == 0


@pytest.mark.parametrize("changed", ["requirements/dev.txt", "pyproject.toml"])
def test_changed_requirements_are_set_up_again(checkout: Path, tools: Path, changed: str) -> None:
    """An environment older than what it was made from is made anew."""
    stamp = ready(checkout)
    os.utime(checkout / changed, ns=(stamp.stat().st_mtime_ns + 10**9,) * 2)
    assert make(checkout, tools, "--question", "setup").returncode == 1


def test_a_moved_or_copied_checkout_is_set_up_again(checkout: Path, tools: Path) -> None:
    """An environment knows where it was made; in a copy it would run the original's code."""
    ready(checkout)
    copied = checkout.rename(checkout.with_name("moved"))
    assert make(copied, tools, "--question", "setup").returncode == 1


def test_check_is_lint_and_test(checkout: Path, tools: Path) -> None:
    """``.ci/run`` calls the two, so that the tests run once; together they are the whole check."""
    ready(checkout)
    parts = [make(checkout, tools, "--dry-run", target).stdout for target in ("lint", "test")]
    assert make(checkout, tools, "--dry-run", "check").stdout == "".join(parts)


def test_ci_runs_the_commands_of_the_readme() -> None:
    """The two commands that a stranger is told to type are the ones that are tried."""
    readme = (PROJECT / "README.md").read_text("utf-8")
    commands = re.findall(r"^    (make \w+)", readme, re.MULTILINE)
    script = (PROJECT / ".ci" / "run").read_text("utf-8").splitlines()
    assert commands[:2] == ["make demo", "make test"]
    assert set(commands[:2]) | {"make lint"} <= set(script)


def test_pre_commit_calls_the_same_targets_and_fetches_nothing() -> None:
    """Local hooks only."""
    hooks = (PROJECT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"repo: (\S+)", hooks) == ["local"]
    assert set(re.findall(r"entry: (.+)", hooks)) == {"make lint", "make test"}
