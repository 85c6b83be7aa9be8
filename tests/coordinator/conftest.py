"""One house per test."""

from pathlib import Path

import pytest

from tests.coordinator.fakes import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(root=tmp_path)
