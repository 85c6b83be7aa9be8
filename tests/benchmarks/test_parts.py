"""Every part of the benchmarks measures something at its smallest size. What comes out is asserted nowhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS
from benchmarks.figures import Figure, markdown, table


@pytest.mark.parametrize("part", PARTS)
def test_it_runs(part: str) -> None:
    """As a person asks for it, in JSON: figures of that name, each with a unit."""
    words = (sys.executable, "-m", "benchmarks", part, "--tiny", "--json")
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["figures"] and all(figure["unit"] for figure in found["figures"])
    assert int(found["machine"]["processors"]) > 0


def test_a_missed_budget_is_said() -> None:
    """Budget and figure stand side by side, in the terminal and in the page."""
    missed = Figure(part="p", name="a thing", value=3.0, unit="x", budget=2.0)
    plain = Figure(part="p", name="another", value=1234.5, unit="bytes")
    assert table([missed, plain]).splitlines()[1].split() == [
        "p",
        "a",
        "thing",
        "3.00",
        "x",
        "<=",
        "2.00",
        "x",
        "missed",
    ]
    assert "| p | another | 1,234 bytes |  |  |" in markdown([missed, plain], {"python": "3"})
