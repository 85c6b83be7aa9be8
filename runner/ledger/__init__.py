"""The ledger: what happened in one Delivery, durably and in which order.

Owned invariants
- A record is never changed or removed; sequences are dense from 1; an append is one durable transaction or nothing.
- Only the newest generation appends, and only the owner that the vocabulary names records a kind.
- A step has one end, after what it needs; a completed step's artifact and savepoint can be read back.
- What is read was checked: the hash chain, the vocabulary, the digest of every artifact. Nothing is repaired.

Door: ``create_or_open`` for the driver, ``open_reader`` for anybody, ``post_inbox`` from any process.
"""

from runner.ledger.artifacts import FileArtifacts
from runner.ledger.inbox import post_inbox
from runner.ledger.presence import has_ledger
from runner.ledger.reading import SqliteReader
from runner.ledger.store import SqliteLedger, create_or_open, open_reader

__all__ = ["FileArtifacts", "SqliteLedger", "SqliteReader", "create_or_open", "has_ledger", "open_reader", "post_inbox"]
