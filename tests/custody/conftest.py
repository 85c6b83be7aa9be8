"""Repositories and Deliveries for custody's tests; every Delivery is closed at the end of its test."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.custody.fakes import Delivery, Repo, new_repo


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The usual repository, to be copied and never changed."""
    return new_repo(tmp_path_factory.mktemp("template") / "repo").path


@pytest.fixture
def repo(tmp_path: Path, template: Path) -> Repo:
    return Repo(shutil.copytree(template, tmp_path / "repo", symlinks=True))


@pytest.fixture
def deliver(tmp_path: Path) -> Iterator[Callable[..., Delivery]]:
    made: list[Delivery] = []

    def make(repo: Repo, **options: Any) -> Delivery:
        made.append(Delivery(repo, tmp_path / "state", **options))
        return made[-1]

    yield make
    for delivery in made:
        delivery.close()


@pytest.fixture
def delivery(repo: Repo, deliver: Callable[..., Delivery]) -> Delivery:
    """A Delivery at its baseline."""
    made = deliver(repo)
    made.custody.baseline()
    return made
