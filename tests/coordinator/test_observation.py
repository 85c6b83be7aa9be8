"""An observer is told what happened and can change nothing."""

import threading
from collections.abc import Iterator

import pytest

from runner.contract.ids import SiteId, StepRef
from runner.contract.records import Record
from runner.coordinator.observation import Observation
from tests.coordinator.fakes import House, Listener
from tests.coordinator.test_execute import kinds, settled

STEP = StepRef(site=SiteId("a"))


async def test_an_observer_hears_everything_in_order(house: House) -> None:
    """Every durable record and every progress text arrives, without anybody waiting for it."""
    listener = Listener()
    coordinator = house.coordinator(listener)
    await coordinator.execute(house.activation())
    await coordinator.close()
    assert listener.settled.is_set()
    assert listener.kinds == kinds(house)
    assert listener.texts == ["plan done", "tests done"]


class Throwing:
    """Raises the worst it can."""

    def record(self, record: Record) -> None:
        raise SystemExit(record.seq)

    def progress(self, step: StepRef, text: str) -> None:
        raise KeyboardInterrupt


class Hanging:
    """Never returns before the test lets go."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def record(self, record: Record) -> None:
        self.gate.wait()

    def progress(self, step: StepRef, text: str) -> None:
        self.gate.wait()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    observer = Hanging()
    yield observer
    observer.gate.set()


async def test_a_throwing_observer_changes_nothing(house: House) -> None:
    """Settled as without it."""
    coordinator = house.coordinator(Throwing())
    settled(await coordinator.execute(house.activation()))
    await coordinator.close()


async def test_a_hanging_observer_changes_nothing(house: House, hanging: Hanging) -> None:
    """Settled although its very first call never returned."""
    settled(await house.coordinator(hanging).execute(house.activation()))
    assert not hanging.gate.is_set()


def test_a_slow_observer_loses_what_does_not_fit(hanging: Hanging) -> None:
    """The queue is bounded: the rest is dropped, and offering more neither blocks nor raises."""
    told: list[str] = []
    offered = threading.Event()

    class Slow(Listener):
        def progress(self, step: StepRef, text: str) -> None:
            offered.wait()
            told.append(text)

    observation = Observation(Slow(), queue_max=3)
    for number in range(100):
        observation.progress(STEP, str(number))
    offered.set()
    observation.close(5.0)
    assert 3 <= len(told) <= 4
    assert told == sorted(told, key=int)


def test_without_an_observer_there_is_no_thread() -> None:
    """Nothing is queued for nobody."""
    before = threading.active_count()
    observation = Observation(None)
    observation.progress(STEP, "x")
    observation.close(0.0)
    assert threading.active_count() == before
