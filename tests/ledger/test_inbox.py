"""What other processes leave for the driver."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.contract.errors import CallerError, Code
from runner.contract.layout import DeliveryLayout
from runner.contract.records import InboxItem
from runner.ledger import post_inbox
from tests.ledger.fakes import opened, scheduled, site


def item(name: str, body: str = "") -> InboxItem:
    return InboxItem(id=name, kind="cancel", body=body, who="me", at="2026-03-01T12:00:00Z")


POST = """
import sys
from pathlib import Path
from runner.contract.layout import DeliveryLayout
from runner.ledger import post_inbox
from tests.ledger.test_inbox import item
post_inbox(DeliveryLayout(Path(sys.argv[1])), item("other"))
"""


def test_items_arrive_in_order_and_count_once(tmp_path: Path) -> None:
    """Any process posts while a driver has the ledger open; the same id again changes nothing."""
    layout = DeliveryLayout(tmp_path / "one")
    ledger = opened(layout)
    assert post_inbox(layout, item("b", "first"))
    subprocess.run([sys.executable, "-c", POST, str(layout.root)], check=True, cwd=Path.cwd())
    assert not post_inbox(layout, item("b", "second"))
    assert [(i.id, i.body) for i in ledger.inbox()] == [("b", "first"), ("other", "")]
    ledger.close()


def test_taking_is_part_of_the_next_append(tmp_path: Path) -> None:
    """Before the append a restart sees the item again; after it nobody does, and its id still counts."""
    layout = DeliveryLayout(tmp_path / "one")
    ledger = opened(layout)
    post_inbox(layout, item("a"))
    ledger.take(ledger.inbox()[0])
    assert ledger.inbox() == ()
    ledger.close()
    ledger = opened(layout)
    (again,) = ledger.inbox()
    ledger.take(again)
    ledger.writer("host").append(scheduled(site("a")))
    ledger.close()
    ledger = opened(layout)
    assert ledger.inbox() == ()
    assert not post_inbox(layout, item("a"))
    assert ledger.inbox() == ()
    ledger.close()


def test_nothing_is_posted_to_nobody(tmp_path: Path) -> None:
    """Without a ledger the Delivery is unknown and nothing is created; an endless text is refused."""
    layout = DeliveryLayout(tmp_path / "one")
    with pytest.raises(CallerError) as caught:
        post_inbox(layout, item("a"))
    assert caught.value.code is Code.DELIVERY_UNKNOWN
    assert not layout.root.exists()
    with pytest.raises(CallerError) as caught:
        post_inbox(layout, item("a", "x" * 100_000))
    assert caught.value.code is Code.USAGE
