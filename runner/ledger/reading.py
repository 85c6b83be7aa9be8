"""Reading a ledger: records by position, kind and step, each checked against the hash of the row before it."""

import threading
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from runner.contract.ids import Digest, StepRef
from runner.contract.outcomes import StepState
from runner.contract.records import InboxItem, Record
from runner.ledger.codec import GENESIS, Row, corrupt, decode
from runner.ledger.inbox import waiting
from runner.ledger.schema import connect, translated

BATCH: Final = 256
"""Rows fetched under one lock: memory stays small, and no read keeps the journal from being folded back."""

_FIELDS: Final = ", ".join(f"r.{name}" for name in Row._fields) + ", p.hash"
_BY_POSITION: Final = (
    f"SELECT {_FIELDS} FROM records r LEFT JOIN records p ON p.seq = r.seq - 1"  # noqa: S608 - constants
    f" WHERE r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT {BATCH}"
)
_BY_KIND: Final = (
    f"SELECT {_FIELDS} FROM records r INDEXED BY records_kind LEFT JOIN records p ON p.seq = r.seq - 1"  # noqa: S608
    f" WHERE r.kind = ? AND r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT {BATCH}"
)
_STEPS: Final = TypeAdapter(tuple[StepState, ...])


def step_state(shown: str, path: Path) -> StepState:
    """One step as it is shown. ``IntegrityError`` (``ledger-corrupt``)."""
    try:
        return StepState.model_validate_json(shown)
    except ValidationError as error:
        raise corrupt(path, f"its list of steps: {str(error)[:200]}") from None


class SqliteReader:
    """``ports.LedgerReader`` over one connection. Safe to share between threads; sees every commit made before a call."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self.path: Final = path
        self._db = connect(path, write=write)
        self._lock = threading.RLock()

    def head(self) -> int:
        return int(self._one("SELECT head FROM meta"))

    def read(
        self, *, after: int = 0, kinds: frozenset[str] | None = None, step: StepRef | None = None
    ) -> Iterator[Record]:
        """Records after ``after`` up to the head at the time of the call, in order."""
        upto = self.head()
        if step is not None:
            return self._of_step(step, after, upto, kinds)
        if kinds is None:
            return self._all(after, upto)
        # One ordered walk through the index per kind: asking for all at once would make SQLite scan or sort.
        return merge(*(self._of_kind(kind, after, upto) for kind in sorted(kinds)), key=lambda record: record.seq)

    def last(self, kinds: frozenset[str], step: StepRef | None = None) -> Record | None:
        if step is None:
            query = "SELECT max(seq) FROM records INDEXED BY records_kind WHERE kind = ?"
            newest = max((int(self._one(query, kind) or 0) for kind in kinds), default=0)
        else:
            marks = ", ".join("?" * len(kinds))
            query = f"SELECT max(seq) FROM records INDEXED BY records_step WHERE step = ? AND kind IN ({marks})"  # noqa: S608
            newest = int(self._one(query, step.key, *kinds) or 0)
        if newest == 0:
            return None
        return next(self._all(newest - 1, newest))

    def digest_at(self, seq: int) -> Digest | None:
        """The chain digest of record ``seq``: it stands for that record and everything before it. None if there is none."""
        found = self._one("SELECT hash FROM records WHERE seq = ?", seq)
        return Digest(f"sha256:{found.hex()}") if isinstance(found, bytes) else None

    def open_steps(self) -> tuple[StepRef, ...]:
        rows = self._rows("SELECT step FROM steps INDEXED BY steps_open WHERE ended IS NULL ORDER BY seq")
        try:
            return tuple(StepRef.parse(row[0]) for row in rows)
        except ValueError as error:
            raise corrupt(self.path, str(error)) from None

    def steps(self) -> tuple[StepState, ...]:
        """Every step as it is shown, in the order of their first records. One table, kept in the transaction of each append;
        outside the chain, so only for looking."""
        rows = self._rows("SELECT shown FROM steps ORDER BY seq")
        try:
            # One text for all of them: a tenth of the time of one by one.
            return _STEPS.validate_json(f"[{','.join(row[0] for row in rows)}]")
        except (ValidationError, TypeError) as error:
            raise corrupt(self.path, f"its list of steps: {str(error)[:200]}") from None

    def inbox(self) -> tuple[InboxItem, ...]:
        """What was left for the driver and not yet taken, in order of arrival."""
        with self._lock, translated(self.path):
            return waiting(self._db)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def __enter__(self) -> "SqliteReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self, after: int, upto: int) -> Iterator[Record]:
        while after < upto:
            rows = self._rows(_BY_POSITION, after, upto)
            for row in rows:
                if row[0] != after + 1:
                    break
                after = row[0]
                yield self._decode(row)
            if after < upto and (len(rows) < BATCH or rows[-1][0] != after):
                raise corrupt(self.path, f"record {after + 1} is missing")

    def _of_kind(self, kind: str, after: int, upto: int) -> Iterator[Record]:
        while True:
            rows = self._rows(_BY_KIND, kind, after, upto)
            for row in rows:
                after = row[0]
                yield self._decode(row)
            if len(rows) < BATCH:
                return

    def _of_step(self, step: StepRef, after: int, upto: int, kinds: frozenset[str] | None) -> Iterator[Record]:
        """One step has few records: their positions first, in any order, then each by itself."""
        query = "SELECT seq, kind FROM records INDEXED BY records_step WHERE step = ?"
        for seq, kind in sorted(self._rows(query, step.key)):
            if after < seq <= upto and (kinds is None or kind in kinds):
                yield from self._all(seq - 1, seq)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock, translated(self.path):
            return self._db.execute(query, values).fetchall()

    def _decode(self, row: Any) -> Record:
        *columns, previous = row
        found = Row(*columns)
        return decode(found, GENESIS if found.seq == 1 else previous, self.path)

    def _one(self, query: str, *values: object) -> Any:
        rows = self._rows(query, *values)
        return rows[0][0] if rows else None
