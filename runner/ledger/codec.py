"""Record <-> row: the payload as JSON, and a hash chain through all rows so that an edited one is noticed when read.

``hash(n) = SHA-256(hash(n-1) || header(n) || payload(n))`` with 32 zero bytes before the first. The chain has no key: it
finds damage and careless edits, not somebody who rewrites the whole file.
"""

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from runner.contract.errors import Code, IntegrityError
from runner.contract.events import VOCABULARY
from runner.contract.ids import StepRef
from runner.contract.records import Draft, Record

GENESIS: Final = bytes(32)


class Row(NamedTuple):
    """One record as it is stored, column by column."""

    seq: int
    at: str
    generation: int
    kind: str
    version: int
    step: str | None
    attempt: int | None
    payload: str
    hash: bytes


def timestamp(moment: dt.datetime) -> str:
    """RFC 3339, UTC, microseconds."""
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def encode(draft: Draft, *, seq: int, at: str, generation: int, previous: bytes) -> tuple[Record, Row]:
    """``draft`` as the record it becomes and the row that stores it; ``previous`` is the hash of the row before."""
    event = draft.event
    payload = event.model_dump_json()
    step = draft.step.key if draft.step else None
    at = draft.at or at
    head = (seq, at, generation, event.KIND, event.VERSION, step, draft.attempt)
    row = Row(*head, payload=payload, hash=_seal(previous, head, payload))
    record = Record(seq=seq, at=at, generation=generation, event=event, step=draft.step, attempt=draft.attempt)
    return record, row


def decode(row: Row, previous: bytes | None, path: Path) -> Record:
    """The record in ``row``, checked against the hash of the row before it (None when that row is missing).

    ``IntegrityError``: ``ledger-corrupt`` if the row was altered, ``ledger-version`` if its kind or version is unknown.
    """
    seq, at, generation, kind, version, step, attempt, payload, stored = row
    head = row[:7]
    if not _fits(previous, head, payload, stored):
        raise corrupt(path, f"record {seq} does not fit the records before it")
    known = VOCABULARY.get(kind)
    if known is None or version != known.VERSION:
        raise IntegrityError(
            Code.LEDGER_VERSION,
            f"{path}: record {seq} is a {kind} of version {version}, which this Runner does not know",
            remedy="use the Runner version that wrote this Delivery, or a newer one",
        )
    try:
        event = known.model_validate_json(payload)
        ref = StepRef.parse(step) if step is not None else None
    except (ValidationError, ValueError) as error:
        raise corrupt(path, f"record {seq} ({kind}) cannot be understood: {_first_line(error)}") from None
    return Record(seq=seq, at=at, generation=generation, event=event, step=ref, attempt=attempt)


def corrupt(path: Path, problem: str) -> IntegrityError:
    """The one error for a ledger file that does not hold."""
    return IntegrityError(
        Code.LEDGER_CORRUPT,
        f"{path}: {problem}",
        remedy="do not edit or repair it: restore the Delivery's directory from a backup",
    )


def _fits(previous: object, head: tuple[object, ...], payload: object, stored: object) -> bool:
    """Whether the row is the one that was sealed. A damaged file may hold values of any type in any column."""
    if not isinstance(previous, bytes) or not isinstance(payload, str) or any(isinstance(v, bytes) for v in head):
        return False
    return _seal(previous, head, payload) == stored


def _seal(previous: bytes, head: tuple[object, ...], payload: str) -> bytes:
    header = json.dumps(head, separators=(",", ":")).encode()
    return hashlib.sha256(previous + header + b"\n" + payload.encode()).digest()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
