"""The ledger's file: its tables, its format version, how it is opened, and SQLite's errors in our words.

WAL with ``synchronous=FULL``: a commit is one append to the journal and one fsync. The journal is folded back into the file
after ``CHECKPOINT_PAGES`` pages and when the driver closes, never by readers.
"""

import errno
import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from runner.contract.errors import Code, EnvironmentFault, IntegrityError, RunnerError
from runner.contract.text import excerpt
from runner.ledger.codec import GENESIS, corrupt
from runner.ledger.files import TEMPORARY_PREFIX, make_private, read_small, sweep, sync_directory, written_at

APPLICATION_ID: Final = 0x4D30324C
"""``M02L`` in the file's header: what marks it as ours."""
FORMAT: Final = 1

WAL_AT: Final = slice(18, 20)
WAL: Final = b"\x02\x02"
"""What stands in the file's header in WAL mode; an immutable connection would not say."""

CHECKPOINT_PAGES: Final = 4_096
"""16 MiB of journal. A step boundary dirties 6 to 10 pages, so some 500 steps share one fold-back (a few milliseconds, two
more fsyncs); SQLite's own default would do it every hundred. Until then the cost of each step is the same."""
BUSY_TIMEOUT_MS: Final = 10_000
"""How long one connection waits for another's commit; commits take milliseconds."""

SCHEMA: Final = (
    """CREATE TABLE records (seq INTEGER PRIMARY KEY, at TEXT NOT NULL, generation INTEGER NOT NULL, kind TEXT NOT NULL,
 version INTEGER NOT NULL, step TEXT, attempt INTEGER, payload TEXT NOT NULL, hash BLOB NOT NULL) STRICT""",
    "CREATE INDEX records_kind ON records (kind)",
    "CREATE INDEX records_step ON records (step, kind) WHERE step IS NOT NULL",
    """CREATE TABLE steps (step TEXT PRIMARY KEY, seq INTEGER NOT NULL, scheduled INTEGER NOT NULL,
 attempt INTEGER NOT NULL, ended TEXT, shown TEXT NOT NULL) STRICT, WITHOUT ROWID""",
    "CREATE INDEX steps_open ON steps (seq) WHERE ended IS NULL",
    "CREATE TABLE savepoints (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
    """CREATE TABLE inbox (arrived INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, body TEXT NOT NULL,
 who TEXT NOT NULL, at TEXT NOT NULL, taken_seq INTEGER) STRICT""",
    "CREATE INDEX inbox_open ON inbox (arrived) WHERE taken_seq IS NULL",
    """CREATE TABLE meta (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), generation INTEGER NOT NULL,
 head INTEGER NOT NULL, hash BLOB NOT NULL, steps INTEGER NOT NULL) STRICT""",
)
"""``steps``, ``savepoints`` and the indexes are maintained in the transaction of the append that changes them, so that a
question about one step or about what is open costs the answer, not the history. So is ``meta``: how many records and steps
there are and the hash of the last record, so that rows that somebody removed from the end are missed."""
_ENDS: Final = """SELECT m.head, m.hash, m.steps, coalesce((SELECT max(seq) FROM records), 0),
 (SELECT hash FROM records WHERE seq = m.head), (SELECT count(*) FROM steps),
 coalesce((SELECT min(seq) FROM records), 1) FROM meta m"""
"""One statement, so that all of it is of one moment."""


def create(path: Path) -> None:
    """A new, empty ledger at ``path`` (0600), whole or not at all: built beside it and renamed into place. Only for
    whoever holds the Delivery's fence."""
    journal = path.with_name(path.name + "-wal")
    if journal.exists():
        # SQLite would replay this journal into the new file.
        raise corrupt(path, "the ledger is gone but its journal is still there")
    make_private(path.parent)
    with written_at(path):
        sweep(path.parent)
        new = path.with_name(f"{TEMPORARY_PREFIX}ledger.sqlite")
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with translated(path), closing(_connect(new, "rw")) as db:
        # In the default journal mode, whose commit writes the file itself: closing a WAL folds it back, and when the disk is
        # full that fails without a word, so that the renamed file would be empty.
        db.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES (1, 0, 0, ?, 0)", (GENESIS,))
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with written_at(path):
        left = new.with_name(new.name + "-wal")
        if left.exists() and left.stat().st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        new.rename(path)
        sync_directory(path.parent)


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection to an existing ledger, usable from any thread under the caller's lock. Never creates the file.

    Where nothing can be written, as on a read-only disk, a reader reads the file as it stands; ``EnvironmentFault`` if a
    driver has it open, or died with a journal beside it. ``IntegrityError``: ``ledger-version`` for a newer format,
    ``ledger-corrupt`` for anything that is not a whole ledger.
    """
    with written_at(path):
        regular = stat.S_ISREG(path.lstat().st_mode)
    if not regular:
        # A pipe would hang whoever opens it; a link would lead to a ledger that somebody else writes.
        raise corrupt(path, "it is not a regular file")
    with translated(path):
        try:
            db = _connect(path, "rw" if write else _reading(path))
        except sqlite3.OperationalError as error:
            raise EnvironmentFault(
                Code.STATE_UNWRITABLE, f"{path}: {error}", remedy="make the ledger readable and writable for this user"
            ) from None
        try:
            _check_format(db, path)
            db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES if write else 0}")
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors of the block as ours, each with the path."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a broken schema in its message, and Python cannot decode the message.
        raise corrupt(path, "its schema is damaged") from error


def translate(error: sqlite3.Error, path: Path) -> RunnerError:
    """What an error of SQLite means for this Runner."""
    extended = getattr(error, "sqlite_errorcode", None) or 0
    match extended & 0xFF:
        case sqlite3.SQLITE_FULL:
            return EnvironmentFault(
                Code.DISK_FULL, f"{path}: the disk is full", remedy="free some space, then execute again"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_SCHEMA | sqlite3.SQLITE_ERROR:
            return corrupt(path, f"SQLite says: {error}")
        case sqlite3.SQLITE_IOERR if extended == sqlite3.SQLITE_IOERR_SHORT_READ:
            return corrupt(path, "the file ends too early")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return EnvironmentFault(Code.STATE_UNWRITABLE, f"{path}: {error}", remedy="check the disk and permissions")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return EnvironmentFault(
                Code.STATE_UNWRITABLE,
                f"{path}: another process kept the ledger locked for {BUSY_TIMEOUT_MS // 1000} s",
                remedy="end whatever has the file open, then execute again",
            )
        case _:
            return corrupt(path, f"SQLite says: {error}")


def _reading(path: Path) -> str:
    """How a reader opens the ledger. Readers of a WAL share a file beside it; where that cannot be made, the ledger is read as
    if nobody could change it, which holds as long as no driver has left a journal there."""
    if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return "ro"
    journal, shared = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if not journal.exists() or journal.stat().st_size == 0:
        return "ro&immutable=1"
    if not shared.exists():
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"{path}: it has a journal ({journal.name}) and cannot be read where nothing can be written",
            remedy="copy the Delivery's directory to where you may write, and look at the copy",
        )
    return "ro"


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        db.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        db.execute("PRAGMA synchronous=FULL")
        # The file may come from anywhere: nothing in its schema may run code, and broken pages are noticed early.
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA cell_size_check=ON")
    except BaseException:
        db.close()
        raise
    return db


def _check_format(db: sqlite3.Connection, path: Path) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise corrupt(path, "this is not a ledger of the Runner")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise IntegrityError(
            Code.LEDGER_VERSION,
            f"{path}: written in ledger format {version}; this Runner reads up to {FORMAT}",
            remedy=f"continue it with {_writer_of(db)}, or a newer one",
        )
    found = {row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if version != FORMAT or found != set(SCHEMA):
        raise corrupt(path, "its tables are not those of a ledger")
    with written_at(path):
        mode = read_small(path, WAL_AT.stop)[WAL_AT]
    if mode != WAL:
        raise corrupt(path, "it is not in WAL mode")
    if db.execute("SELECT count(*) FROM meta").fetchone()[0] != 1:
        raise corrupt(path, "it does not say which generation it is in")
    _check_ends(db, path)


def _check_ends(db: sqlite3.Connection, path: Path) -> None:
    """Nothing was removed from either end. What is missing in between is noticed when it is read."""
    head, sealed, steps, last, found, listed, first = db.execute(_ENDS).fetchone()
    if first != 1:
        raise corrupt(path, "record 1 is missing")
    if last != head:
        raise corrupt(path, f"record {last} is the last that is there, but {head} were written")
    if (found or GENESIS) != sealed:
        raise corrupt(path, f"record {head} is not the one that was written last")
    if listed != steps:
        raise corrupt(path, f"its list of steps has {listed} rows, but {steps} were written")


def _writer_of(db: sqlite3.Connection) -> str:
    """The Runner that accepted the Delivery, as far as a file of another format tells."""
    try:
        row = db.execute("SELECT payload FROM records WHERE seq = 1").fetchone()
        version = json.loads(row[0])["runner_version"]
    except (sqlite3.Error, TypeError, ValueError, KeyError):
        return "the Runner that wrote it"
    return f"Runner {excerpt(str(version), 40)}"
