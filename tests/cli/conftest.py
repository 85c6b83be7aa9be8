import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.cli import app, program


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


class CommandLine:
    """``runner`` with a HOME and a directory of its own: called in this process, or started as one."""

    def __init__(self, home: Path, printed: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.here = home / "here"
        self.here.mkdir(parents=True)
        # As in an activated virtual environment: a shell finds this very program by its name.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}
        self.interpreter = sys.executable
        self.started: list[subprocess.Popen[str]] = []
        self._printed = printed

    @property
    def state(self) -> Path:
        """The default state root."""
        return self.home / ".local" / "state" / "runner"

    def uncontained(self) -> None:
        """Commands are ordinary processes from now on: for tests that watch one from outside of its worktree."""
        config = self.home / "uncontained.toml"
        config.write_text('isolation = "none"\n[providers.recorded]\n')
        self.environment["RUNNER_CONFIG"] = os.environ["RUNNER_CONFIG"] = str(config)

    def __call__(self, *words: str) -> Answer:
        self._printed.readouterr()
        code = app.run(words)
        printed = self._printed.readouterr()
        return _checked(Answer(code=code, out=printed.out, err=printed.err))

    def python(self, *words: str) -> Answer:
        """A process of its own, for which every warning is an error."""
        return self._process([self.interpreter, "-W", "error", *words])

    def shell(self, script: str) -> Answer:
        """A pasted command line, with ``runner`` on the path."""
        return self._process(["/bin/sh", "-c", f'runner() {{ "{self.interpreter}" -m runner.cli "$@"; }}; {script}'])

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """``runner`` in the background."""
        process = subprocess.Popen(
            [self.interpreter, "-m", "runner.cli", *words],
            cwd=self.here,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def _process(self, argv: list[str]) -> Answer:
        done = subprocess.run(
            argv,
            cwd=self.here,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return _checked(Answer(code=done.returncode, out=done.stdout, err=done.stderr))


def _checked(answer: Answer) -> Answer:
    assert "Traceback" not in answer.out + answer.err, answer
    assert "\x1b" not in answer.out + answer.err, answer
    return answer


@pytest.fixture
def runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path / "home", capsys)
    monkeypatch.chdir(line.here)
    monkeypatch.setenv("HOME", str(line.home))
    monkeypatch.setenv("PATH", line.environment["PATH"])
    program.program.cache_clear()
    for name in [n for n in os.environ if n.startswith(("XDG_", "RUNNER_"))]:
        monkeypatch.delenv(name)
    yield line
    os.environ.pop("RUNNER_CONFIG", None)
    for process in line.started:
        process.kill()
        process.communicate()
