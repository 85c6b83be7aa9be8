"""docs/durability.md, and docs/custody.md where it says what shows it, promise only what a test of that name proves, or say that
none does."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.source import PROJECT

PAGE = PROJECT / "docs" / "durability.md"
PAGES = {PAGE: "", PROJECT / "docs" / "custody.md": "\n## What shows it\n"}
"""Where each page's proofs begin."""
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_row_names_a_test_that_exists(page: Path) -> None:
    """Each linked test is a function of the linked file; a row without one says that there is none."""
    _, begins, proofs = f"\n{page.read_text('utf-8')}".partition(PAGES[page] or "\n")
    assert begins and LINK.search(proofs) and broken(proofs, page.parent) == []


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
