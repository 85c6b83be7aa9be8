"""The import contracts of pyproject.toml are real: an import planted against each of them is refused by its name.

All plants go into one copy of the tree, one run judges them, and each contract must name its own plant.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import PACKAGES, PROJECT

CONTRACTS: list[dict[str, Any]] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["tool"][
    "importlinter"
]["contracts"]


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A new module ``where`` with one ``line``; the contract's report must contain ``shows``."""

    where: str
    line: str
    shows: str


def plant(where: str, target: str) -> Plant:
    """``where`` imports ``target``."""
    return Plant(where=where, line=f"import {target}", shows=f"{where} -> {target.partition('.')[0]}")


PLANTS: dict[str, list[Plant]] = {
    "floors": [
        Plant(
            where="runner.ledger.planted_up",
            line="import runner.coordinator.coordinator",
            shows="runner.ledger is not allowed to import runner.coordinator",
        ),
        Plant(
            where="runner.invocation.planted_sideways",
            line="import custody.custodian",
            shows="runner.invocation is not allowed to import custody",
        ),
        Plant(
            where="runner.coordinator.planted_factory",
            line="import runner.factory",
            shows="runner.coordinator is not allowed to import runner.factory",
        ),
    ],
    "every-room-has-a-floor": [
        Plant(where="runner.attic", line="import sys", shows="runner.attic"),
        Plant(
            where="runner.interpreter.planted_ledger",
            line="import runner.ledger.store",
            shows="runner.interpreter is not allowed to import runner.ledger",
        ),
    ],
    "contract-is-the-ground": [
        Plant(
            where="runner.contract.planted",
            line="import runner.ledger.store",
            shows="runner.contract is not allowed to import runner.ledger",
        )
    ],
    "contract-only": [
        Plant(
            where="custody.planted_ledger",
            line="import runner.ledger.store",
            shows="custody is not allowed to import runner.ledger",
        ),
        Plant(
            where="hosts.operations.planted_interpreter",
            line="import runner.interpreter.interpret",
            shows="hosts.operations is not allowed to import runner.interpreter",
        ),
    ],
    "contract-and-interpreter": [
        Plant(
            where="hosts.langgraph.planted_ledger",
            line="import runner.ledger.store",
            shows="hosts.langgraph is not allowed to import runner.ledger",
        )
    ],
    "cli-uses-three-doors": [
        Plant(
            where="runner.cli.planted",
            line="import custody.custodian",
            shows="runner.cli is not allowed to import custody",
        )
    ],
    "hosts-apart": [
        Plant(
            where="hosts.operations.planted_sibling",
            line="import hosts.langgraph.host",
            shows="hosts.operations is not allowed to import hosts.langgraph",
        )
    ],
    "providers-apart": [
        Plant(where="providers.parrot", line="import sys", shows="providers.parrot"),
        Plant(
            where="providers.recorded.planted_sibling",
            line="import providers.openai.factory",
            shows="providers.recorded is not allowed to import providers.openai",
        ),
    ],
    "langgraph-in-its-host": [
        plant("runner.coordinator.planted_graph", "langgraph.graph"),
        plant("hosts.operations.planted_tracing", "langsmith"),
    ],
    "langchain-core-at-two-edges": [plant("runner.invocation.planted_core", "langchain_core.messages")],
    "openai-in-its-provider": [
        plant("providers.recorded.planted_sdk", "langchain_openai"),
        plant("runner.invocation.planted_client", "httpx"),
        plant("runner.coordinator.planted_client", "httpx2"),
    ],
    "mcp-in-tool-servers": [
        plant("providers.openai.planted_mcp", "mcp.client"),
        plant("hosts.operations.planted_mcp", "mcp_types"),
        plant("runner.invocation.planted_anyio", "anyio"),
    ],
    "gitpython-in-one-file": [
        plant("runner.coordinator.planted_git", "git"),
        plant("custody.planted_git", "git"),
        plant("runner.admission.planted_git", "git"),
    ],
    "yaml-in-admission": [plant("runner.interpreter.planted_yaml", "ruamel.yaml")],
    "sqlite-in-two-stores": [plant("custody.planted_sqlite", "sqlite3")],
}


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over ``tree``, whose packages stand in front of the installed ones."""
    run = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-P", "-c", run, "--no-cache"], cwd=tree, capture_output=True, text=True, check=False
    )


def copy_of_the_tree(tree: Path) -> Path:
    """The sources of the four packages and the contracts, without anything else."""
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "demo_data"))
    shutil.copy(PROJECT / "pyproject.toml", tree)
    return tree


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What import-linter says of a tree with every plant in it: contract name -> its part of the report."""
    tree = copy_of_the_tree(tmp_path_factory.mktemp("planted"))
    for planted in (p for plants in PLANTS.values() for p in plants):
        file = tree.joinpath(*planted.where.split(".")).with_suffix(".py")
        file.write_text(f"{planted.line}\n", "utf-8")
    done = lint(tree)
    assert done.returncode == 1, done.stdout + done.stderr
    _, _, broken = done.stdout.partition("Broken contracts")
    parts = re.split(r"^(.+)\n-{3,}$", broken, flags=re.MULTILINE)
    return {name.strip(): body for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_tree_as_it_is_keeps_every_contract(tmp_path: Path) -> None:
    """The copy without plants is clean, so that what a planted copy reports is the plants."""
    done = lint(copy_of_the_tree(tmp_path))
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken" in done.stdout, done.stdout + done.stderr


def test_every_contract_has_a_plant() -> None:
    """A contract that is added must be shown to refuse something."""
    assert set(PLANTS) == {contract["id"] for contract in CONTRACTS}


@pytest.mark.parametrize("contract", CONTRACTS, ids=[contract["id"] for contract in CONTRACTS])
def test_a_planted_import_breaks_its_contract(report: dict[str, str], contract: dict[str, Any]) -> None:
    """The contract that is there for it refuses the import, by name and place."""
    assert contract["name"] in report, f"kept: {contract['name']}"
    for planted in PLANTS[contract["id"]]:
        assert planted.shows in report[contract["name"]]
        assert planted.where in report[contract["name"]]
