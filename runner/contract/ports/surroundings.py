"""What surrounds a Runner: time, whoever watches, and whoever answers questions."""

import datetime as dt
from dataclasses import dataclass
from typing import Protocol

from runner.contract.canonical import FrozenJson
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.outcomes import OpenWait
from runner.contract.records import Record


class Clock(Protocol):
    """Time, injected so that tests never wait."""

    def now(self) -> dt.datetime:
        """Aware UTC. May go backwards; nothing is ordered by it."""
        ...

    def monotonic(self) -> float:
        """Seconds; never goes backwards within a process."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Observer(Protocol):
    """One-way: called on a task of its own behind a bounded queue. Off, throwing, hanging or slow, it changes nothing."""

    def record(self, record: Record) -> None:
        """A fact that is already durable."""
        ...

    def progress(self, step: StepRef, text: str) -> None:
        """Something to show while a step runs (streamed output); never durable."""
        ...


class Progress(Protocol):
    """Where rooms drop progress; never blocks, never raises."""

    def progress(self, step: StepRef, text: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody answered; not yet validated."""

    value: FrozenJson
    who: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """Nobody answers now: the Delivery suspends, and the question is asked again by a later execute."""


class Bridge(Protocol):
    """How questions reach somebody. One bridge for workflow waits, one for what a running agent asks; they never mix."""

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer | Deferred:
        """Asked at most once per wait, opening and execute. May take long; it is cancelled when the wait is answered from
        elsewhere, expires, or the Delivery stops. An answer that does not fit the schema is asked for again once."""
        ...
