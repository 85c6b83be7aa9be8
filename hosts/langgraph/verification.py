"""Whether the kept checkpoint is one of this ledger. Opens it read-only; a checkpoint that is not there only cost time."""

import json
import sqlite3
from contextlib import closing
from urllib.parse import quote

from hosts.langgraph.checkpoints import LEDGER_SEQ
from runner.contract.activation import Activation
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Check
from runner.contract.records import Record


def verify_checkpoint(_: Activation, layout: DeliveryLayout, records: tuple[Record, ...]) -> tuple[Check, ...]:
    """One check: no checkpoint stands for more than ``records``."""
    if not layout.checkpoints.exists():
        return (Check(name="checkpoint", ok=True, detail="none is kept"),)
    try:
        stands_for = _newest(layout)
    except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
        return (Check(name="checkpoint", ok=False, detail=f"it cannot be read: {str(error)[:200]}"),)
    if stands_for > len(records):
        detail = f"it stands for record {stands_for}, but the ledger ends at {len(records)}"
        return (Check(name="checkpoint", ok=False, detail=detail),)
    return (Check(name="checkpoint", ok=True, detail=f"it stands for record {stands_for}"),)


def _newest(layout: DeliveryLayout) -> int:
    place = f"file:{quote(str(layout.checkpoints.absolute()))}?mode=ro"
    with closing(sqlite3.connect(place, uri=True)) as db:
        rows = db.execute("SELECT metadata FROM checkpoints").fetchall()
    return max((int(json.loads(row[0])[LEDGER_SEQ]) for row in rows), default=0)
