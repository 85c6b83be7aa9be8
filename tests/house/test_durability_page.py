"""docs/durability.md promises only what a test of that name proves, or says that none does."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.source import PROJECT

PAGE = PROJECT / "docs" / "durability.md"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./tests/[^)]+)\)")
UNPROVEN = "no test"


def functions_of(file: Path) -> set[str]:
    """The test functions at the top of ``file``."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, functions)}


def broken(page: str, folder: Path) -> list[str]:
    """What a page's links to tests promise and do not keep, and rows of tables that prove nothing and do not say so."""
    wrong = []
    for name, target in LINK.findall(page):
        file = folder / target
        if not file.is_file():
            wrong.append(f"{target} does not exist")
        elif name.strip("`") not in functions_of(file):
            wrong.append(f"{target} has no {name}")
    rows = [line for line in page.splitlines() if re.match(r"\| (?!---)", line) and not line.endswith("| proven by |")]
    return wrong + [f"proves nothing: {row}" for row in rows if not LINK.search(row) and UNPROVEN not in row]


def test_every_row_names_a_test_that_exists() -> None:
    """Each linked test is a function of the linked file; a row without one says that there is none."""
    assert broken(PAGE.read_text("utf-8"), PAGE.parent) == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("| a | b | [`test_a`](../tests/nowhere.py) |", "does not exist"),
        ("| a | b | [`test_that_is_not_there`](../tests/house/test_durability_page.py) |", "has no"),
        ("| a | b | trust us |", "proves nothing"),
    ],
)
def test_a_hollow_row_is_refused(row: str, problem: str) -> None:
    """A missing file, a missing function, and a row without proof are each seen."""
    assert [problem in said for said in broken(f"| x | y | proven by |\n|---|---|---|\n{row}\n", PAGE.parent)] == [True]
