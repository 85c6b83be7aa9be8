"""The documents are current, and what they point at exists."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from runner.contract.config import RunnerFactoryConfig
from runner.contract.events import VOCABULARY
from tests.house import event_table
from tests.house.source import PROJECT, tracked

PAGES = [path for path, _ in tracked(PROJECT) if path.endswith(".md")]
PYPROJECT: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))


def test_the_events_page_is_current() -> None:
    """Every kind, owner, version and payload stands in docs/events.md as the code has it."""
    assert not list(event_table.breaches(PROJECT))


def test_a_stale_events_page_is_refused(tmp_path: Path) -> None:
    """A page that says something else, or is not there, is a breach."""
    assert list(event_table.breaches(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / event_table.PAGE).write_text(event_table.page() + "and more\n", "utf-8")
    assert [breach.fix for breach in event_table.breaches(tmp_path)] == ["make docs"]


def test_the_names_of_the_sources_belong_to_kinds_that_exist() -> None:
    """A kind that is renamed takes its line of the mapping with it."""
    assert set(event_table.SEED_NAMES) <= set(VOCABULARY)


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    """A link to a file of the project names one that is there."""
    text = (PROJECT / page).read_text("utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    missing = [t for t in targets if "://" not in t and not (PROJECT / page).parent.joinpath(t).exists()]
    assert not missing


def test_the_config_page_names_every_field() -> None:
    """docs/config.md has each key of the config, and none that a config would refuse."""
    text = (PROJECT / "docs" / "config.md").read_text("utf-8")
    described = set(re.findall(r"^\| `(\w+)` \|", text.partition("## Providers")[0], re.MULTILINE))
    assert described == set(RunnerFactoryConfig.model_fields)


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_a_lock_pins_and_hashes_what_the_project_asks_for(lock: str) -> None:
    """Every requirement of pyproject.toml is there, in a version that it admits, with hashes."""
    entries = re.split(r"^(?=[a-z0-9])", (PROJECT / "requirements" / f"{lock}.txt").read_text("utf-8"), flags=re.M)[1:]
    pinned = {entry.partition("==")[0]: entry for entry in entries}
    asked = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["dependency-groups"]["build"]]
    asked += PYPROJECT["project"]["optional-dependencies"]["dev"] if lock == "dev" else []
    for requirement in map(Requirement, asked):
        entry = pinned[re.sub(r"[._-]+", "-", requirement.name.lower())]
        version = re.match(r"[\w.-]+==(\S+)", entry)
        assert version is not None and version[1] in requirement.specifier, entry
    assert all("--hash=sha256:" in entry for entry in entries)
