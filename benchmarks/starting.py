"""``runner --help`` beside the smallest program that typer makes."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Sizes, interleaved

PART = "start"
BARE = """
import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def greet(name: str) -> None:
    print(name)


app()
"""


def run(sizes: Sizes) -> tuple[Figure, ...]:
    with tempfile.TemporaryDirectory() as made:
        bare = Path(made) / "bare.py"
        bare.write_text(BARE)
        found = interleaved(
            2 * sizes.repetitions,
            {"runner": lambda: _took("-m", "runner.cli", "--help"), "bare": lambda: _took(str(bare), "--help")},
        )
    return (
        Figure(part=PART, name="runner --help", value=found["runner"] * 1000, unit="ms"),
        Figure(part=PART, name="a bare typer program", value=found["bare"] * 1000, unit="ms"),
        Figure(part=PART, name="runner --help beside it", value=found["runner"] / found["bare"], unit="x", budget=2),
    )


def _took(*words: str) -> float:
    began = time.perf_counter()
    subprocess.run((sys.executable, *words), check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    return time.perf_counter() - began
