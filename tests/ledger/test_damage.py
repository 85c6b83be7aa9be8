"""Files that are not what they should be: each gives one integrity error with the path, never another answer."""

import os
import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from runner.contract.errors import CallerError, Code, EnvironmentFault, IntegrityError
from runner.contract.events import DeliveryAccepted
from runner.contract.layout import DeliveryLayout
from runner.contract.records import Draft
from runner.ledger import open_reader
from runner.ledger.schema import connect, create, translate
from tests.ledger.fakes import DIGEST, opened, savepoint, scheduled, site, started

STEPS = 40


@pytest.fixture
def layout(tmp_path: Path) -> DeliveryLayout:
    layout = DeliveryLayout(tmp_path / "one")
    ledger = opened(layout)
    ledger.writer("custody").append(savepoint())
    for visit in range(1, STEPS + 1):
        ledger.writer("host").append(scheduled(site("a", visit)), started(site("a", visit)))
    ledger.close()
    return layout


def edit(layout: DeliveryLayout, *statements: str) -> None:
    with closing(sqlite3.connect(layout.ledger, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET payload = '{}' WHERE seq = 1",
        "UPDATE records SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 20",
        "UPDATE records SET kind = 'step.skipped' WHERE seq = 20",
        "UPDATE records SET generation = 9 WHERE seq = 20",
        "UPDATE records SET attempt = 7 WHERE seq = 21",
        "UPDATE records SET step = 'b@1' WHERE seq = 20",
        "UPDATE records SET hash = zeroblob(32) WHERE seq = 20",
        "DELETE FROM records WHERE seq = 20",
        "DELETE FROM records WHERE seq = 1",
        "UPDATE records SET seq = 1000 WHERE seq = 20",
    ],
)
def test_an_edited_record_is_noticed(layout: DeliveryLayout, statement: str) -> None:
    """Whatever column of whatever row is altered, a sequential read stops there with the path."""
    edit(layout, statement)
    with pytest.raises(IntegrityError, match=r"ledger\.sqlite") as caught, open_reader(layout) as reader:
        list(reader.read())
    assert caught.value.code is Code.LEDGER_CORRUPT


def test_a_lookup_checks_what_it_returns(layout: DeliveryLayout) -> None:
    """Also a single record found through an index is checked against the one before it."""
    edit(layout, "UPDATE records SET payload = '{\"a\":1}' WHERE seq = 2")
    with open_reader(layout) as reader, pytest.raises(IntegrityError):
        reader.last(frozenset({"step.scheduled"}), site("a", 1))


def test_a_kind_of_the_future_is_refused(layout: DeliveryLayout) -> None:
    """A record whose kind or version this Runner does not know says so instead of being skipped."""
    from runner.ledger.codec import _seal

    with closing(sqlite3.connect(layout.ledger, isolation_level=None)) as db:
        seq, before = db.execute("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1").fetchone()
        for extra, (kind, version) in enumerate([("step.scheduled", 99), ("step.dreamt", 1)], start=1):
            head = (seq + extra, "t", 1, kind, version, None, None)
            before = _seal(before, head, "{}")
            db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*head, "{}", before))
        db.execute("UPDATE meta SET head = ?, hash = ?", (seq + 2, before))
    with open_reader(layout) as reader:
        for after in (seq, seq + 1):
            with pytest.raises(IntegrityError) as caught:
                list(reader.read(after=after))
            assert caught.value.code is Code.LEDGER_VERSION


def test_a_newer_format_is_refused(layout: DeliveryLayout) -> None:
    """A newer file is neither read nor written nor called corrupt."""
    edit(layout, "PRAGMA user_version=2")
    before = layout.ledger.read_bytes()
    for act in (open_reader, opened):
        with pytest.raises(IntegrityError, match="format 2") as caught:
            act(layout)
        assert caught.value.code is Code.LEDGER_VERSION
        assert "the Runner that wrote it" in caught.value.remedy
    assert layout.ledger.read_bytes() == before


def test_a_newer_format_names_the_runner_that_can(tmp_path: Path) -> None:
    """The version that accepted the Delivery, as far as the file tells."""
    layout = DeliveryLayout(tmp_path / "other")
    ledger = opened(layout)
    document = ledger.artifacts.put({})
    accepted = DeliveryAccepted(
        activation=DIGEST, plan=DIGEST, meaning=DIGEST, meaning_text={}, runner_version="9.8", document=document
    )
    ledger.writer("coordinator").append(Draft(event=accepted))
    ledger.close()
    edit(layout, "PRAGMA user_version=2")
    with pytest.raises(IntegrityError) as caught:
        open_reader(layout)
    assert "Runner 9.8" in caught.value.remedy


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA application_id=1",
        "PRAGMA user_version=0",
        "DROP INDEX records_kind",
        "CREATE TRIGGER t AFTER INSERT ON inbox BEGIN DELETE FROM records; END",
        "CREATE VIEW v AS SELECT 1",
        "PRAGMA journal_mode=DELETE",
    ],
)
def test_a_foreign_database_is_refused(layout: DeliveryLayout, statement: str) -> None:
    """Another mark, another schema, a trigger, another journal: not a ledger."""
    edit(layout, statement)
    for act in (open_reader, opened):
        with pytest.raises(IntegrityError, match=r"ledger\.sqlite") as caught:
            act(layout)
        assert caught.value.code is Code.LEDGER_CORRUPT


@pytest.mark.parametrize("size", [0, 1, 50, 100, 600, 4_096, 8_192, 20_000])
def test_a_truncated_file_is_noticed(layout: DeliveryLayout, size: int) -> None:
    """Cut anywhere, the file gives an integrity error, never a shorter history."""
    layout.ledger.write_bytes(layout.ledger.read_bytes()[:size])
    with pytest.raises(IntegrityError, match=r"ledger\.sqlite") as caught, open_reader(layout) as reader:
        list(reader.read())
    assert caught.value.code is Code.LEDGER_CORRUPT


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x00" * 9_000, b"SQLite format 3\x00" + b"\xff" * 9_000])
def test_something_else_in_its_place(layout: DeliveryLayout, content: bytes) -> None:
    """A file that is no database is not overwritten."""
    layout.ledger.write_bytes(content)
    for act in (open_reader, opened):
        with pytest.raises(IntegrityError):
            act(layout)
    assert layout.ledger.read_bytes() == content


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
def test_not_a_file_in_its_place(layout: DeliveryLayout, kind: str) -> None:
    """What is no regular file is refused without being opened: a pipe would hang, a link lead to somebody else's ledger."""
    content = layout.ledger.read_bytes()
    layout.ledger.unlink()
    if kind == "directory":
        layout.ledger.mkdir()
    elif kind == "pipe":
        os.mkfifo(layout.ledger)
    else:
        elsewhere = layout.root / "elsewhere"
        elsewhere.write_bytes(content)
        layout.ledger.symlink_to(elsewhere)
    for act in (open_reader, opened):
        with pytest.raises(IntegrityError, match=r"ledger\.sqlite: it is not a regular file"):
            act(layout)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM meta",
        "DELETE FROM records",
        "DELETE FROM records WHERE seq = 1",
        "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)",
        "UPDATE records SET hash = zeroblob(32) WHERE seq = (SELECT max(seq) FROM records)",
        "DELETE FROM steps",
        "DELETE FROM steps WHERE step = 'a@7'",
        "INSERT INTO steps VALUES ('z@1', 1, 1, 1, NULL, '{}')",
    ],
)
def test_missing_rows_are_noticed_when_it_is_opened(layout: DeliveryLayout, statement: str) -> None:
    """A ledger that lost its beginning, its end or a step is told when it is opened: what finished would be done again."""
    edit(layout, statement)
    for act in (open_reader, opened):
        with pytest.raises(IntegrityError, match=r"ledger\.sqlite"):
            act(layout)


@pytest.mark.parametrize("left", ["store", "artifacts", "checkpoints"])
def test_a_lost_ledger_is_not_begun_anew(layout: DeliveryLayout, left: str) -> None:
    """With the rest of the Delivery still there, neither a driver nor a reader takes it for one that never began."""
    layout.ledger.unlink()
    getattr(layout, left).mkdir()
    for act in (open_reader, opened):
        with pytest.raises(IntegrityError, match=r"ledger\.sqlite: it is gone"):
            act(layout)
    assert not layout.ledger.exists()


def test_random_damage_never_gives_another_answer(layout: DeliveryLayout) -> None:
    """Each byte of a sample flipped: the read gives exactly the true records, or an integrity error."""
    content = layout.ledger.read_bytes()
    with open_reader(layout) as reader:
        truth = list(reader.read())
    for place in range(0, len(content), 397):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        layout.ledger.write_bytes(damaged)
        try:
            with open_reader(layout) as reader:
                assert list(reader.read()) == truth, place
        except IntegrityError as error:
            assert error.code in (Code.LEDGER_CORRUPT, Code.LEDGER_VERSION), place


def test_a_missing_file(tmp_path: Path) -> None:
    """Reading creates nothing and says that the Delivery is unknown."""
    layout = DeliveryLayout(tmp_path / "one")
    with pytest.raises(CallerError) as caught:
        open_reader(layout)
    assert caught.value.code is Code.DELIVERY_UNKNOWN
    assert not layout.root.exists()


def test_a_journal_without_its_file(layout: DeliveryLayout) -> None:
    """A new ledger is never created beside a journal that SQLite would replay into it."""
    layout.ledger.rename(layout.root / "ledger.sqlite-wal")
    with pytest.raises(IntegrityError) as caught:
        opened(layout)
    assert caught.value.code is Code.LEDGER_CORRUPT


def test_a_creation_that_was_killed(tmp_path: Path) -> None:
    """What a kill during creation leaves is replaced by a whole ledger."""
    layout = DeliveryLayout(tmp_path / "one")
    layout.root.mkdir(mode=0o700)
    (layout.root / ".new-ledger.sqlite").write_bytes(b"half")
    (layout.root / ".new-ledger.sqlite-wal").write_bytes(b"half")
    ledger = opened(layout)
    ledger.writer("host").append(scheduled(site("a")))
    ledger.close()
    assert [path.name for path in layout.root.iterdir()] == ["ledger.sqlite"]


def test_a_creation_on_a_full_disk(tmp_path: Path) -> None:
    """However much fits: either nothing stands at its place and the next creation makes it, or it is whole."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for kilobytes in range(0, 100, 4):
        path = tmp_path / str(kilobytes) / "ledger.sqlite"
        path.parent.mkdir()
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, hard))
        try:
            create(path)
        except EnvironmentFault:
            assert not path.exists()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if not path.exists():
            create(path)
        connect(path, write=True).close()
        assert [p.name for p in path.parent.iterdir()] == ["ledger.sqlite"]


def test_full_and_locked_are_environment_faults(tmp_path: Path) -> None:
    """Real errors of SQLite for a full database and a locked one leave the Delivery open."""
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE t (v TEXT)")
        db.execute("PRAGMA max_page_count=3")
        with pytest.raises(sqlite3.OperationalError) as full:
            db.execute("INSERT INTO t VALUES (?)", ("x" * 100_000,))
        assert translate(full.value, path).code is Code.DISK_FULL
        db.execute("BEGIN EXCLUSIVE")
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            with pytest.raises(sqlite3.OperationalError) as locked:
                other.execute("INSERT INTO t VALUES ('y')")
            assert translate(locked.value, path).code is Code.STATE_UNWRITABLE
