"""Appending and reading back: order, ownership, generations, atomicity."""

import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.events import StepCompleted, StepFailed, StepScheduled, StepSkipped, StepSuperseded
from runner.contract.layout import DeliveryLayout
from runner.contract.records import Draft, Record
from runner.ledger import open_reader
from tests.ledger.fakes import SAVEPOINT, completed, opened, savepoint, scheduled, site, started


@pytest.fixture
def layout(tmp_path: Path) -> DeliveryLayout:
    return DeliveryLayout(tmp_path / "deliveries" / "one")


def test_what_is_appended_is_read_back_in_order(layout: DeliveryLayout) -> None:
    """Sequences are dense from 1 and every reader, in another connection too, sees equal records."""
    ledger = opened(layout)
    first = ledger.writer("custody").append(savepoint())
    rest = ledger.writer("host").append(scheduled(site("plan")), started(site("plan")), completed(site("plan")))
    assert [record.seq for record in (*first, *rest)] == [1, 2, 3, 4]
    with open_reader(layout) as reader:
        assert tuple(reader.read()) == (*first, *rest)
        assert tuple(reader.read(after=2)) == rest[1:]
        assert reader.head() == 4
    ledger.close()


def test_reading_by_kind_and_step(layout: DeliveryLayout) -> None:
    """Filters choose records and keep their order; ``last`` is the newest of the kinds, of any step or of one."""
    ledger = opened(layout)
    ledger.writer("custody").append(savepoint())
    host = ledger.writer("host")
    for name in ("a", "b", "c"):
        host.append(scheduled(site(name)), started(site(name)))
    host.append(completed(site("b")))
    kinds = frozenset({StepScheduled.KIND, StepCompleted.KIND})
    assert [r.seq for r in ledger.read(kinds=kinds)] == [2, 4, 6, 8]
    assert [r.seq for r in ledger.read(step=site("b"))] == [4, 5, 8]
    assert [r.seq for r in ledger.read(step=site("b"), kinds=kinds, after=4)] == [8]
    assert ledger.open_steps() == (site("a"), site("c"))
    newest, of_a = ledger.last(kinds), ledger.last(kinds, site("a"))
    assert (newest and newest.seq, of_a and of_a.seq) == (8, 2)
    assert ledger.last(frozenset({StepFailed.KIND})) is None
    ledger.close()


def test_more_than_one_batch(layout: DeliveryLayout) -> None:
    """Long ledgers are read in batches without a gap or a repetition, with and without filters."""
    ledger = opened(layout)
    host = ledger.writer("host")
    host.append(*(scheduled(site("a", n)) for n in range(1, 600)))
    assert [r.seq for r in ledger.read()] == list(range(1, 600))
    assert [r.seq for r in ledger.read(kinds=frozenset({StepScheduled.KIND}), after=3)] == list(range(4, 600))
    ledger.close()


def test_staged_facts_travel_with_the_next_append(layout: DeliveryLayout) -> None:
    """Staged facts come first, in the same transaction, whoever appends; before that nothing is recorded."""
    ledger = opened(layout)
    before = ledger.transactions
    ledger.writer("host").append(scheduled(site("a")), started(site("a")))
    ledger.writer("custody").stage(savepoint())
    assert ledger.head() == 2
    (record,) = ledger.writer("host").append(completed(site("a")))
    assert [r.event.KIND for r in ledger.read(after=2)] == ["savepoint.taken", "step.completed"]
    assert record.seq == 4
    assert ledger.transactions == before + 2
    ledger.close()


def test_a_refused_append_writes_nothing_and_keeps_what_was_staged(layout: DeliveryLayout) -> None:
    """All or nothing; a later append carries the staged facts."""
    ledger = opened(layout)
    host = ledger.writer("host")
    ledger.writer("custody").stage(savepoint())
    with pytest.raises(IntegrityError):
        host.append(scheduled(site("a")), completed(site("a")))
    assert ledger.head() == 0
    assert ledger.open_steps() == ()
    host.append(scheduled(site("a")))
    assert [r.event.KIND for r in ledger.read()] == ["savepoint.taken", "step.scheduled"]
    ledger.close()


END = {
    "failed": StepFailed(outcome="failure", code="x", message="m", retriable=False, savepoint=SAVEPOINT),
    "skipped": StepSkipped(reason="when"),
    "superseded": StepSuperseded(reason="loop"),
}


@pytest.mark.parametrize("second", sorted(END))
@pytest.mark.parametrize("first", ["completed", *sorted(END)])
def test_a_step_ends_once(layout: DeliveryLayout, first: str, second: str) -> None:
    """Whatever ended a step, no second end is recorded, in the same append or a later one."""
    ledger = opened(layout)
    host, step = ledger.writer("host"), site("a")
    ledger.writer("custody").append(savepoint())
    host.append(scheduled(step), started(step))
    host.append(completed(step) if first == "completed" else Draft(event=END[first], step=step, attempt=1))
    with pytest.raises(IntegrityError, match="after its step") as caught:
        host.append(Draft(event=END[second], step=step, attempt=1))
    assert caught.value.code is Code.LEDGER_ORDER
    ledger.close()


def test_the_order_of_a_step(layout: DeliveryLayout) -> None:
    """Scheduled, then attempts that never count down, then an end; anything else is refused."""
    ledger = opened(layout)
    host, step = ledger.writer("host"), site("a")
    ledger.writer("custody").append(savepoint())
    refused: list[Draft] = [started(step), completed(step), Draft(event=END["failed"], step=step)]
    for draft in refused:
        with pytest.raises(IntegrityError):
            host.append(draft)
    host.append(scheduled(step))
    for draft in (scheduled(step), completed(step), Draft(event=StepScheduled())):
        with pytest.raises(IntegrityError):
            host.append(draft)
    host.append(started(step, 2))
    with pytest.raises(IntegrityError):
        host.append(started(step, 1))
    host.append(started(step, 2), completed(step))
    assert ledger.open_steps() == ()
    ledger.close()


def test_an_owner_records_only_its_own_kinds(layout: DeliveryLayout) -> None:
    """A fact of another owner is refused loudly, staged or appended."""
    ledger = opened(layout)
    for act in (ledger.writer("invocation").append, ledger.writer("invocation").stage):
        with pytest.raises(IntegrityError, match=r"invocation may not record step\.scheduled"):
            act(scheduled(site("a")))
    assert ledger.head() == 0
    ledger.close()


def test_a_completed_step_names_only_what_can_be_read_back(layout: DeliveryLayout) -> None:
    """An artifact that is gone or a savepoint that nobody recorded refuses the completion."""
    ledger = opened(layout)
    host, step = ledger.writer("host"), site("a")
    host.append(scheduled(step), started(step))
    with pytest.raises(IntegrityError, match="not recorded") as caught:
        host.append(completed(step))
    assert caught.value.code is Code.LEDGER_ORDER
    ledger.writer("custody").append(savepoint())
    large = ledger.artifacts.put("x" * 5_000)
    (stored,) = layout.artifacts.glob("*/*")
    content = stored.read_bytes()
    stored.write_bytes(content.replace(b"x", b"y", 1))
    with pytest.raises(IntegrityError) as caught:
        host.append(completed(step, large))
    assert caught.value.code is Code.ARTIFACT_CORRUPT
    stored.write_bytes(content)
    host.append(completed(step, large))
    ledger.close()


def test_an_older_generation_is_refused(layout: DeliveryLayout) -> None:
    """Once another driver opened the ledger, the one before can read but not append."""
    old = opened(layout)
    old.writer("host").append(scheduled(site("a")))
    new = opened(layout)
    with pytest.raises(EnvironmentFault) as caught:
        old.writer("host").append(scheduled(site("b")))
    assert caught.value.code is Code.FENCE_LOST
    (record,) = new.writer("host").append(scheduled(site("b")))
    assert (record.seq, record.generation) == (2, 2)
    assert old.head() == 2
    old.close()
    new.close()


def test_files_are_private(layout: DeliveryLayout) -> None:
    """The directory is 0700, every file in it 0600, the journal included."""
    ledger = opened(layout)
    ledger.writer("host").append(scheduled(site("a")))
    ledger.artifacts.put("x" * 5_000)
    for path in (layout.root, layout.root.parent, *layout.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    ledger.close()


def test_listeners_hear_what_is_durable(layout: DeliveryLayout) -> None:
    """A listener gets each record once, in order, and a listener that raises changes nothing."""
    ledger = opened(layout)
    heard: list[Record] = []

    def broken(record: Record) -> None:
        raise RuntimeError(record.seq)

    ledger.subscribe(broken)
    ledger.subscribe(heard.append)
    records = ledger.writer("host").append(scheduled(site("a")), scheduled(site("b")))
    assert tuple(heard) == records
    ledger.close()


def test_threads_append_without_a_gap(layout: DeliveryLayout) -> None:
    """Appends from several threads are serialised: every one gets its own place."""
    ledger = opened(layout)
    host = ledger.writer("host")

    def work(name: str) -> None:
        for visit in range(1, 26):
            host.append(scheduled(site(name, visit)))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.seq for r in ledger.read()] == list(range(1, 101))
    ledger.close()


def test_the_cost_of_a_step_does_not_grow(layout: DeliveryLayout) -> None:
    """A no-op step is one transaction, and its bytes in the file stay under 2 KB however many came before."""
    ledger = opened(layout)
    ledger.writer("custody").append(savepoint())
    host = ledger.writer("host")

    def run(visits: range) -> int:
        before = ledger.transactions
        for visit in visits:
            step = site("loop", visit)
            host.append(scheduled(step), started(step), completed(step, ledger.artifacts.put({"n": visit})))
        return ledger.transactions - before

    assert run(range(1, 101)) == 100
    ledger.close()
    small = layout.ledger.stat().st_size
    ledger = opened(layout)
    host = ledger.writer("host")
    assert run(range(101, 301)) == 200
    ledger.close()
    assert (layout.ledger.stat().st_size - small) / 200 <= 2_048


KILLED = """
import os, signal, sys
from pathlib import Path
from runner.contract.layout import DeliveryLayout
from tests.ledger.fakes import opened, scheduled, site
ledger = opened(DeliveryLayout(Path(sys.argv[1])))
ledger.writer("host").append(scheduled(site("a")))
ledger.writer("host").stage(scheduled(site("b")))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_driver_leaves_what_it_appended(layout: DeliveryLayout) -> None:
    """After SIGKILL a reader sees the appended facts and not the staged ones, and a new driver goes on."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(layout.root)], check=False, cwd=Path.cwd())
    assert done.returncode == -signal.SIGKILL
    with open_reader(layout) as reader:
        assert [r.step for r in reader.read()] == [site("a")]
    ledger = opened(layout)
    assert ledger.open_steps() == (site("a"),)
    (record,) = ledger.writer("host").append(scheduled(site("b")))
    assert (record.seq, record.generation) == (2, 2)
    ledger.close()


FULL = """
import resource, signal, sys
from pathlib import Path
from runner.contract.errors import EnvironmentFault
from runner.contract.layout import DeliveryLayout
from tests.ledger.fakes import opened, scheduled, site
ledger = opened(DeliveryLayout(Path(sys.argv[1])))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
try:
    for visit in range(1, 1000):
        ledger.writer("host").append(scheduled(site("a", visit)))
except EnvironmentFault as error:
    print(error.code, visit)
"""


def test_a_disk_that_refuses_leaves_the_delivery_open(layout: DeliveryLayout) -> None:
    """When the file may not grow, the append fails as an environment fault and everything before it is still there."""
    command = [sys.executable, "-c", FULL, str(layout.root)]
    done = subprocess.run(command, check=True, cwd=Path.cwd(), capture_output=True, text=True)
    code, visit = done.stdout.split()
    assert code in (Code.DISK_FULL, Code.STATE_UNWRITABLE)
    ledger = opened(layout)
    assert ledger.head() == int(visit) - 1
    ledger.writer("host").append(scheduled(site("b")))
    assert [r.seq for r in ledger.read()] == list(range(1, int(visit) + 1))
    ledger.close()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """A state directory below something that is no directory is refused with its path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="file") as caught:
        opened(DeliveryLayout(tmp_path / "file" / "one"))
    assert caught.value.code is Code.STATE_UNWRITABLE
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
