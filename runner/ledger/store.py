"""The ledger of one Delivery: ``create_or_open`` for its driver, ``open_reader`` for everybody else.

One SQLite file, one append-only table of records with a dense sequence, one transaction per append. A driver's appends carry
its generation; opening for driving raises the generation, so that a driver which lost its fence can write nothing more.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.events import Owner, SavepointTaken, StepCompleted
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import StepState
from runner.contract.ports import Artifacts, Clock, LedgerWriter
from runner.contract.records import Draft, InboxItem, Record
from runner.ledger.artifacts import FileArtifacts
from runner.ledger.codec import Row, corrupt, encode, timestamp
from runner.ledger.inbox import unknown_delivery
from runner.ledger.presence import has_ledger
from runner.ledger.reading import SqliteReader, step_state
from runner.ledger.rules import UNSEEN, StepLife, check_owner, live
from runner.ledger.schema import create, translate, translated
from runner.ledger.steps import shown_after

Owned = tuple[Owner, Draft]
PUT_STEP: Final = (
    "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (step) DO UPDATE SET scheduled = excluded.scheduled,"
    " attempt = excluded.attempt, ended = excluded.ended, shown = excluded.shown"
)


def create_or_open(layout: DeliveryLayout, *, clock: Clock, generation_bump: bool = True) -> "SqliteLedger":
    """The ledger for the driver that holds the Delivery's fence, created when there is none (directory 0700, file 0600).

    With ``generation_bump`` every ledger object opened before is refused from now on (``fence-lost``). Killed anywhere,
    the next call finds the whole file or none. ``IntegrityError`` for a file that is not a ledger of this format.
    """
    if not has_ledger(layout):
        if layout.tombstone.exists():
            raise unknown_delivery(layout)
        create(layout.ledger)
    ledger = SqliteLedger(layout, clock)
    if generation_bump:
        ledger.raise_generation()
    return ledger


def open_reader(layout: DeliveryLayout) -> SqliteReader:
    """A read-only view that disturbs no driver and creates nothing; close it, or use it in ``with``. ``CallerError``
    (``delivery-unknown``) when there is no ledger; ``IntegrityError`` when it is not one of this format."""
    if not has_ledger(layout):
        raise unknown_delivery(layout)
    return SqliteReader(layout.ledger)


class SqliteLedger(SqliteReader):
    """``ports.Ledger``. Thread-safe; one per driver."""

    def __init__(self, layout: DeliveryLayout, clock: Clock) -> None:
        super().__init__(layout.ledger, write=True)
        self.transactions = 0
        """Durable transactions that this object has committed: what a step costs, for the cost tests."""
        self._clock = clock
        self._artifacts: Final = FileArtifacts(layout.artifacts)
        self._staged: list[Owned] = []
        self._taken: list[str] = []
        self._listeners: list[Callable[[Record], None]] = []
        self._doubt: EnvironmentFault | None = None
        self._savepoint = ""
        """One that is surely recorded: most steps name the same as the step before them."""
        self._generation: int = self._one("SELECT generation FROM meta")
        self._head: int = self.head()
        self._hash: bytes = self._one("SELECT hash FROM meta")

    @property
    def artifacts(self) -> Artifacts:
        return self._artifacts

    def writer(self, owner: Owner) -> LedgerWriter:
        return SqliteWriter(self, owner)

    def raise_generation(self) -> None:
        """Makes this object the only one that may append. Also removes what a killed predecessor left half-written."""
        with self._lock, self._transaction():
            self._db.execute("UPDATE meta SET generation = generation + 1")
            self._generation = self._db.execute("SELECT generation FROM meta").fetchone()[0]
        self._artifacts.sweep()

    def inbox(self) -> tuple[InboxItem, ...]:
        with self._lock:
            return tuple(item for item in super().inbox() if item.id not in self._taken)

    def take(self, item: InboxItem) -> None:
        with self._lock:
            self._taken.append(item.id)

    def subscribe(self, listener: Callable[[Record], None]) -> None:
        self._listeners.append(listener)

    def stage(self, owner: Owner, drafts: Sequence[Draft]) -> None:
        """See ``ports.LedgerWriter.stage``."""
        for draft in drafts:
            check_owner(owner, draft)
        with self._lock:
            self._staged.extend((owner, draft) for draft in drafts)

    def append(self, owner: Owner, drafts: Sequence[Draft]) -> tuple[Record, ...]:
        """See ``ports.LedgerWriter.append``."""
        for draft in drafts:
            check_owner(owner, draft)
        with self._lock:
            batch = [*self._staged, *((owner, draft) for draft in drafts)]
            if not batch and not self._taken:
                return ()
            self._check_artifacts(batch)
            encoded = self._encode(batch)
            with self._transaction():
                self._write(encoded)
            if encoded:
                self._head, self._hash = encoded[-1][1].seq, encoded[-1][1].hash
            self._staged.clear()
            self._taken.clear()
            records = tuple(record for record, _ in encoded)
            self._tell(records)
        return records[len(records) - len(drafts) :]

    def _encode(self, batch: Sequence[Owned]) -> list[tuple[Record, Row]]:
        at = timestamp(self._clock.now())
        previous, encoded = self._hash, []
        for seq, (_, draft) in enumerate(batch, start=self._head + 1):
            record, row = encode(draft, seq=seq, at=at, generation=self._generation, previous=previous)
            encoded.append((record, row))
            previous = row.hash
        return encoded

    def _write(self, encoded: Sequence[tuple[Record, Row]]) -> None:
        self._check_generation()
        touched: dict[str, _Touched] = {}
        for record, _ in encoded:
            self._judge(record)
            self._advance(record, touched)
        self._db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (row for _, row in encoded))
        self._db.executemany(PUT_STEP, (step.row(key) for key, step in touched.items() if step.changed))
        begun = sum(step.new for step in touched.values())
        head, sealed = (encoded[-1][1].seq, encoded[-1][1].hash) if encoded else (self._head, self._hash)
        self._db.execute("UPDATE meta SET head = ?, hash = ?, steps = steps + ?", (head, sealed, begun))
        for taken in self._taken:
            self._db.execute("UPDATE inbox SET taken_seq = ? WHERE id = ?", (head, taken))

    def _judge(self, record: Record) -> None:
        """A completed step names a savepoint that is recorded."""
        match record.event:
            case SavepointTaken(savepoint=savepoint):
                self._db.execute("INSERT OR IGNORE INTO savepoints VALUES (?)", (savepoint,))
            case StepCompleted(savepoint=savepoint) if savepoint != self._savepoint:
                if self._one("SELECT 1 FROM savepoints WHERE id = ?", savepoint):
                    self._savepoint = savepoint
                    return
                raise IntegrityError(
                    Code.LEDGER_ORDER,
                    f"{record.step}: completed at savepoint {savepoint}, which is not recorded",
                    remedy="this is a defect of the Runner: report it with this message",
                )

    def _advance(self, record: Record, touched: dict[str, "_Touched"]) -> None:
        """What its step is after ``record``; read once and written once for all records of one append."""
        if record.step is None:
            return
        key = record.step.key
        if key not in touched:
            life, shown = self._step(key)
            touched[key] = _Touched(seq=record.seq, life=life, shown=shown, new=shown is None)
        touched[key].add(record)

    def _step(self, key: str) -> tuple[StepLife, StepState | None]:
        rows = self._rows("SELECT scheduled, attempt, ended, shown FROM steps WHERE step = ?", key)
        if not rows:
            return UNSEEN, None
        scheduled, attempt, ended, shown = rows[0]
        return StepLife(scheduled=bool(scheduled), attempt=attempt, end=ended), step_state(shown, self.path)

    def _check_artifacts(self, batch: Sequence[Owned]) -> None:
        for _, draft in batch:
            if isinstance(draft.event, StepCompleted) and draft.event.output is not None:
                self._artifacts.get(draft.event.output)

    def _check_generation(self) -> None:
        generation, newest = self._db.execute(
            "SELECT generation, coalesce((SELECT max(seq) FROM records), 0) FROM meta"
        ).fetchone()
        if generation != self._generation:
            raise EnvironmentFault(
                Code.FENCE_LOST,
                f"{self.path}: another driver (generation {generation}) took this Delivery over from "
                f"generation {self._generation}",
                remedy="let the other driver go on; inspect shows it",
            )
        if newest != self._head:
            raise corrupt(self.path, f"record {newest} is the last, but {self._head} was")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One durable transaction, or none. After a failed commit nobody knows what the disk holds: then everything is
        refused until the ledger is opened again."""
        if self._doubt is not None:
            raise self._doubt
        with translated(self.path):
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise translate(error, self.path) from error
            raise
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            fault = translate(error, self.path)
            if isinstance(fault, EnvironmentFault) and fault.code is not Code.DISK_FULL:
                self._doubt = fault
            raise fault from error
        self.transactions += 1

    def _roll_back(self) -> None:
        self._savepoint = ""
        # SQLite has already rolled back after some errors; then there is nothing to do.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _tell(self, records: Sequence[Record]) -> None:
        for record in records:
            for listener in self._listeners:
                # The record is durable: an exception here would tell the appender that it is not.
                with suppress(Exception):
                    listener(record)


@dataclass(slots=True)
class _Touched:
    """A step that one append has records of."""

    seq: int
    life: StepLife
    shown: StepState | None
    new: bool
    changed: bool = False

    def add(self, record: Record) -> None:
        after = live(self.life, record), shown_after(self.shown, record)
        self.changed = self.changed or after != (self.life, self.shown)
        self.life, self.shown = after

    def row(self, key: str) -> tuple[object, ...]:
        life, shown = self.life, self.shown
        text = shown.model_dump_json(exclude_defaults=True) if shown is not None else ""
        return key, self.seq, life.scheduled, life.attempt, life.end, text


class SqliteWriter:
    """``ports.LedgerWriter``: one owner's pen."""

    def __init__(self, ledger: SqliteLedger, owner: Owner) -> None:
        self._ledger = ledger
        self._owner: Final[Owner] = owner

    def stage(self, *drafts: Draft) -> None:
        self._ledger.stage(self._owner, drafts)

    def append(self, *drafts: Draft) -> tuple[Record, ...]:
        return self._ledger.append(self._owner, drafts)
