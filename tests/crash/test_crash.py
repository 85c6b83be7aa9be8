"""Killed, starved and surprised at its boundaries, a Delivery settles the same. The proof is a program: it forks, tests have
threads. What it covered is printed with ``-rP``, and always when something does not hold."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.scenario import names

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("what", [*names(), "programs"])
def test_it_settles_the_same(what: str) -> None:
    """After every fault the next executes settle to the same bytes, worktree and ref; no finished effect happened again, no
    uncertain one was guessed, nothing was left behind; and every kind of boundary that the scenario is for was reached."""
    argv = [sys.executable, "-m", "tests.crash", what]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
