"""Suggested command lines start the program that suggested them."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.cli.program import words
from tests.cli.conftest import CommandLine


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with scripts in a virtual environment below it, in itself, and one beside it."""
    for folder in (tmp_path / "here" / ".venv" / "bin", tmp_path / "here", tmp_path / "other bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runner").touch()
    (tmp_path / "link").symlink_to(tmp_path / "here" / ".venv" / "bin" / "runner")
    return tmp_path / "here"


def which(found: Path | None) -> Callable[[str], str | None]:
    return lambda name: str(found) if found else None


@pytest.mark.parametrize(
    ("argv0", "found", "said"),
    [
        ("{here}/.venv/bin/runner", "{here}/.venv/bin/runner", "runner"),
        ("{here}/.venv/bin/runner", "{root}/link", "runner"),
        ("{here}/.venv/bin/runner", None, ".venv/bin/runner"),
        (".venv/bin/runner", "{root}/other bin/runner", ".venv/bin/runner"),
        ("./runner", None, "./runner"),
        ("{root}/other bin/runner", None, "'{root}/other bin/runner'"),
        ("/usr/lib/runner/cli/__main__.py", None, ".venv/bin/runner"),
        ("-c", "{root}/other bin/runner", ".venv/bin/runner"),
    ],
)
def test_how_it_is_said(here: Path, argv0: str, found: str | None, said: str) -> None:
    """``runner`` only where that is this very script; else its path, relative below the current directory, quoted."""

    def place(text: str) -> str:
        return text.format(here=here, root=here.parent)

    on_path = Path(place(found)) if found else None
    start = words(
        argv0=place(argv0), interpreter=str(here / ".venv" / "bin" / "python"), here=here, which=which(on_path)
    )
    assert shlex.join(start) == place(said)


def test_without_a_script(tmp_path: Path) -> None:
    """The module is started by this interpreter."""
    start = words(argv0="x.py", interpreter="/opt/py/bin/python", here=tmp_path, which=which(None))
    assert start == ("/opt/py/bin/python", "-m", "runner.cli")


def test_a_suggestion_works_where_runner_is_not_on_the_path(runner: CommandLine) -> None:
    """As printed, in the shell that started it."""
    script = Path(sys.executable).parent / "runner"
    environment = {**runner.environment, "PATH": "/usr/bin:/bin"}

    def shell(line: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=runner.here, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    suggested = shell(f"'{script}' inspect").strip().partition("this starts one: ")[2]
    assert suggested.endswith(" run PACKAGE")
    assert "Admit a package" in shell(suggested.replace("PACKAGE", "--help"))
