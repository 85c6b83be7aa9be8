"""Repositories and Deliveries for custody's tests; every Delivery is closed at the end of its test."""

import os
import shutil
import tempfile
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
def place() -> Iterator[Path]:
    """In memory where there is such a place: thousands of files are synced here, and none of them loses power."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture
def repo(place: Path, template: Path) -> Repo:
    return Repo(shutil.copytree(template, place / "repo", symlinks=True))


@pytest.fixture
def deliver(place: Path) -> Iterator[Callable[..., Delivery]]:
    made: list[Delivery] = []

    def make(repo: Repo, **options: Any) -> Delivery:
        made.append(Delivery(repo, place / "state", **options))
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
