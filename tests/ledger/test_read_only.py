"""A ledger where nothing can be written: on a read-only disk, or in somebody else's directory."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from runner.contract.errors import Code, EnvironmentFault
from runner.contract.layout import DeliveryLayout
from runner.ledger import open_reader
from tests.ledger.fakes import opened, scheduled, site, started

SOMEBODY = 65534


@pytest.fixture
def layout() -> Iterator[DeliveryLayout]:
    """Two records, in a place that other users can reach."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    layout = DeliveryLayout(place / "one")
    ledger = opened(layout)
    ledger.writer("host").append(scheduled(site("a")), started(site("a")))
    ledger.close()
    try:
        yield layout
    finally:
        layout.root.chmod(0o700)
        shutil.rmtree(place)


@contextmanager
def read_only(layout: DeliveryLayout) -> Iterator[None]:
    """Files and directory may be read only; root, whom that does not stop, is somebody else meanwhile."""
    for path in layout.root.iterdir():
        path.chmod(0o444)
    layout.root.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_nobody_drives(layout: DeliveryLayout) -> None:
    """It is read as it stands, and nothing is made beside it."""
    with read_only(layout), open_reader(layout) as reader:
        assert [record.event.KIND for record in reader.read()] == ["step.scheduled", "step.attempt_started"]
        assert [path.name for path in layout.root.iterdir()] == ["ledger.sqlite"]


def test_a_driver_has_it_open(layout: DeliveryLayout) -> None:
    """What a live driver, or one that was killed, has committed to its journal is read too."""
    ledger = opened(layout)
    ledger.writer("host").append(scheduled(site("b")))
    with read_only(layout), open_reader(layout) as reader:
        assert [str(record.step) for record in reader.read()] == ["a", "a", "b"]
    ledger.close()


def test_a_journal_that_cannot_be_read_there(layout: DeliveryLayout) -> None:
    """A copy that lacks the shared file is refused with what to do: without its journal it would say less than happened."""
    with closing(sqlite3.connect(layout.ledger)) as db:
        db.execute("SELECT * FROM meta").fetchall()
        ledger = opened(layout)
        ledger.writer("host").append(scheduled(site("b")))
        copy = DeliveryLayout(layout.root.parent / "two")
        copy.root.mkdir()
        for end in ("", "-wal"):
            shutil.copy(f"{layout.ledger}{end}", f"{copy.ledger}{end}")
        ledger.close()
    with read_only(copy), pytest.raises(EnvironmentFault, match="journal") as caught:
        open_reader(copy)
    assert caught.value.code is Code.STATE_UNWRITABLE and "copy" in caught.value.remedy
