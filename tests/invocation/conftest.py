"""One Delivery per test, closed at its end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.invocation.fakes import Delivery

Make = Callable[..., Delivery]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Delivery] = []

    def new(**options: Any) -> Delivery:
        made.append(Delivery(tmp_path, **options))
        return made[-1]

    yield new
    for delivery in made:
        delivery.ledger.close()
