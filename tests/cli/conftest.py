import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


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
    """``runner`` as a real process with a HOME of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.here = home / "here"
        self.here.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def __call__(self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Answer:
        return self.python("-m", "runner.cli", *words, env=env, cwd=cwd)

    def python(self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Answer:
        """An interpreter for which every warning is an error."""
        return self._answer([sys.executable, "-W", "error", *words], env, cwd)

    def shell(self, script: str, *words: str) -> Answer:
        """A shell script with ``$0`` and more."""
        return self._answer(["/bin/sh", "-c", script, *words], None, None)

    def _answer(self, argv: list[str], env: Mapping[str, str] | None, cwd: Path | None) -> Answer:
        done = subprocess.run(
            argv,
            cwd=cwd or self.here,
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        answer = Answer(code=done.returncode, out=done.stdout, err=done.stderr)
        assert "Traceback" not in answer.out + answer.err, answer
        return answer


@pytest.fixture
def runner(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")
