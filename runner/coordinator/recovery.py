"""What a driver that starts over finds, and what remains to be done. Pure: records in, frozen values out.

| left at the last entry of an effect                    | ``Then``        | who does it                                 |
|---|---|---|
| no intent                                              | ``RUN``         | host                                        |
| intent and result, also a recorded failure             | ``USE_RESULT``  | host, invocation                            |
| a person said that it happened                         | ``USE_RESULT``  | host, invocation: the value is the result   |
| a person said that it did not                          | ``RUN``         | host, invocation, under the same key        |
| model call without a response                          | ``CALL_AGAIN``  | invocation, under the same call id          |
| ``read`` or ``idempotent`` without a result            | ``CALL_AGAIN``  | invocation, under the same key              |
| ``workspace`` without a result                         | ``RESTORE_RUN`` | custody, then host                          |
| ``external`` or unclassified without a result          | ``ASK``         | coordinator: nothing is driven before it    |
| publication asked, no disposition                      | ``READ_REF``    | custody                                     |
| a child process was recorded                           | ``processes``   | coordinator: ended if it is the very same   |
| a cancel, or an effect that a person gave up           | ``wind``        | coordinator tells the host: nothing starts  |
| a foreign savepoint that nobody decided about          | ``foreign``     | custody looks again, then a person          |
| a terminal is recorded                                 | ``closing``     | coordinator: the terminal order             |

Not covered: turns of agents that keep sessions of their own; no such provider is built.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from runner.contract import events
from runner.contract.canonical import canonical
from runner.contract.events import STEP_ENDS, CancelRequested, InterventionResolved, ProcessStarted
from runner.contract.ids import StepRef
from runner.contract.outcomes import UncertainEffect
from runner.contract.records import Record
from runner.contract.text import excerpt
from runner.coordinator.waiting import Waiting, Waits

EFFECT_UNKNOWN: Final = "effect-unknown"
"""The reason of an intervention for uncertain effects."""
INPUT_CHARS_MAX: Final = 500
PUBLICATION: Final = "publication"
"""The call of the one effect that belongs to no step."""


class Then(StrEnum):
    """What becomes of one effect."""

    RUN = "run"
    USE_RESULT = "use-result"
    CALL_AGAIN = "call-again"
    RESTORE_RUN = "restore-run"
    ASK = "ask"
    READ_REF = "read-ref"


UNANSWERED: Final = {
    "read": Then.CALL_AGAIN,
    "idempotent": Then.CALL_AGAIN,
    "workspace": Then.RESTORE_RUN,
    "external": Then.ASK,
}
"""What becomes of a tool call without a result, by its effect class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One effect of an open step, or the publication. ``seq`` is that of its newest intent."""

    then: Then
    call: str
    seq: int
    at: str
    step: StepRef | None = None
    attempt: int | None = None
    called: events.ToolCalled | None = None
    """For a tool call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wind:
    """Why nothing new may start: what was recorded first of a cancel and an abandonment."""

    event: CancelRequested | InterventionResolved
    step: StepRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """The work that is left."""

    steps: tuple[StepRef, ...] = ()
    """Begun and without an end."""
    effects: tuple[Effect, ...] = ()
    """Of those steps, in the order of their first intents."""
    processes: tuple[ProcessStarted, ...] = ()
    waits: tuple[Waiting, ...] = ()
    foreign: str | None = None
    """The savepoint of a worktree that somebody edited, until somebody decides."""
    wind: Wind | None = None
    given_up: bool = False
    """A person gave an uncertain effect up: nothing is asked any more."""
    closing: bool = False

    @property
    def asked(self) -> tuple[Effect, ...]:
        """Effects that only a person can say something of; none once one was given up."""
        return () if self.given_up else tuple(effect for effect in self.effects if effect.then is Then.ASK)


def remaining(records: Iterable[Record]) -> Remaining:
    """What is left after ``records``: at least all of the open steps, and the newest of each kind that belongs to the
    Delivery as a whole; in order."""
    found = Found()
    for record in records:
        found.add(record)
    return found.remaining


class Found:
    """``remaining`` for records that go by one at a time. Keeps what is open, nothing else."""

    def __init__(self) -> None:
        self._steps: dict[StepRef, None] = {}
        self._effects: dict[tuple[StepRef | None, str], Effect] = {}
        self._processes: dict[tuple[StepRef | None, str, int], ProcessStarted] = {}
        self._waits = Waits()
        self._rest = Remaining()

    @property
    def remaining(self) -> Remaining:
        return replace(
            self._rest,
            steps=tuple(self._steps),
            effects=tuple(self._effects.values()),
            processes=tuple(self._processes.values()),
            waits=self._waits.open,
        )

    def add(self, record: Record) -> None:
        """Goes on to ``record``."""
        self._waits.add(record)
        if record.step is not None:
            self._of_step(record, record.step)
        match record.event:
            case events.ToolCalled(call=call, effect=effect) as called:
                self._begin(record, call, UNANSWERED[effect], called)
            case events.ModelCalled(call=call):
                self._begin(record, call, Then.CALL_AGAIN)
            case events.ToolSucceeded(call=call) | events.ToolFailed(call=call) | events.ModelResponded(call=call):
                self._turn(record, call, Then.USE_RESULT)
            case events.PublicationAsked():
                self._begin(record, PUBLICATION, Then.READ_REF)
            case events.PublicationKnown():
                self._effects.pop((None, PUBLICATION), None)
            case ProcessStarted() as process:
                self._processes[record.step, process.call, process.pid] = process
            case events.SavepointTaken(role=role, savepoint=savepoint):
                self._rest = replace(self._rest, foreign=savepoint if role == "foreign" else None)
            case CancelRequested() as event:
                self._wind(record, event)
            case events.InterventionResolved() as event:
                self._resolve(record, event)
            case events.TerminalProposed():
                self._rest = replace(self._rest, closing=True)
            case _:
                pass

    def _of_step(self, record: Record, step: StepRef) -> None:
        if record.event.KIND not in STEP_ENDS:
            self._steps.setdefault(step)
            return
        self._steps.pop(step, None)
        self._effects = {key: effect for key, effect in self._effects.items() if key[0] != step}
        self._processes = {key: process for key, process in self._processes.items() if key[0] != step}

    def _begin(self, record: Record, call: str, then: Then, called: events.ToolCalled | None = None) -> None:
        self._effects[record.step, call] = Effect(
            then=then,
            call=call,
            seq=record.seq,
            at=record.at,
            step=record.step,
            attempt=record.attempt,
            called=called,
        )

    def _turn(self, record: Record, call: str, then: Then) -> None:
        effect = self._effects.get((record.step, call))
        if effect is not None:
            self._effects[record.step, call] = replace(effect, then=then)

    def _resolve(self, record: Record, event: events.InterventionResolved) -> None:
        match event.resolution:
            case "happened":
                self._turn(record, event.call, Then.USE_RESULT)
            case "did-not-happen":
                self._turn(record, event.call, Then.RUN)
            case "adopt" | "discard":
                self._rest = replace(self._rest, foreign=None)
            case "abandon":
                self._rest = replace(self._rest, given_up=True)
                self._wind(record, event)

    def _wind(self, record: Record, event: CancelRequested | InterventionResolved) -> None:
        if self._rest.wind is None:
            self._rest = replace(self._rest, wind=Wind(event=event, step=record.step))


def uncertain(effects: Iterable[Effect]) -> tuple[UncertainEffect, ...]:
    """``effects`` as people see them."""
    return tuple(
        UncertainEffect(
            step=effect.step.key,
            call=effect.call,
            tool=effect.called.tool,
            input_text=_shown(effect.called),
            key=effect.called.key,
            since=effect.at,
        )
        for effect in effects
        if effect.step is not None and effect.called is not None
    )


def describe(effects: tuple[UncertainEffect, ...]) -> str:
    """One line per effect, for the record and for people."""
    return "\n".join(
        f"{effect.step}: {effect.tool} (call {effect.call}) was begun and nobody saw its end" for effect in effects
    )


def _shown(called: events.ToolCalled) -> str:
    if called.input.stored:
        return f"{called.input.bytes} bytes, {called.input.digest}"
    return excerpt(canonical(called.input.inline).decode(), INPUT_CHARS_MAX)
