"""What other processes leave for a Delivery's driver: any process may post, only the driver takes."""

import sqlite3
from contextlib import closing
from typing import Final

from runner.contract.errors import CallerError, Code
from runner.contract.layout import DeliveryLayout
from runner.contract.records import InboxItem
from runner.ledger.presence import has_ledger
from runner.ledger.schema import connect, translated

BODY_CHARS_MAX: Final = 65_536
"""An answer or a resolution is text that a person reads."""


def post_inbox(layout: DeliveryLayout, item: InboxItem) -> bool:
    """Leaves ``item`` durably; False if one with its id was left before (taken or not), then nothing changes.

    Waits for a driver's commit at most ``BUSY_TIMEOUT_MS``. ``DELIVERY_UNKNOWN`` when there is no ledger.
    """
    if len(item.body) > BODY_CHARS_MAX:
        raise CallerError(Code.USAGE, f"the text has {len(item.body)} characters", remedy=f"at most {BODY_CHARS_MAX}")
    if not has_ledger(layout):
        raise unknown_delivery(layout)
    with translated(layout.ledger), closing(connect(layout.ledger, write=True)) as db:
        cursor = db.execute(
            "INSERT INTO inbox (id, kind, body, who, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            (item.id, item.kind, item.body, item.who, item.at),
        )
        return cursor.rowcount == 1


def waiting(db: sqlite3.Connection) -> tuple[InboxItem, ...]:
    """What was left and not yet taken, in order of arrival. Costs what waits."""
    rows = db.execute(
        "SELECT id, kind, body, who, at FROM inbox INDEXED BY inbox_open WHERE taken_seq IS NULL ORDER BY arrived"
    )
    return tuple(InboxItem(id=r[0], kind=r[1], body=r[2], who=r[3], at=r[4]) for r in rows)


def unknown_delivery(layout: DeliveryLayout) -> CallerError:
    """The error for a Delivery without a ledger."""
    if layout.tombstone.exists():
        return CallerError(
            Code.DELIVERY_COLLECTED,
            f"{layout.root.name} was collected: only its settlement is kept",
            remedy=f"see it with 'runner inspect {layout.root.name}'",
        )
    return CallerError(
        Code.DELIVERY_UNKNOWN,
        f"{layout.root.parent}: no Delivery {layout.root.name} is recorded here",
        remedy="check the id and the state root; inspect without an id lists what there is",
    )
