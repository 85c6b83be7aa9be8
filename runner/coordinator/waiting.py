"""Which questions are open. Pure: records go by, open waits come out.

A wait is open from ``wait.opened`` (a renewal has an id of its own) until it is answered, expires, or its step
ends; a running agent's question from ``interaction.requested`` likewise.
"""

from dataclasses import dataclass

from runner.contract import events
from runner.contract.events import STEP_ENDS
from runner.contract.ids import StepRef
from runner.contract.outcomes import OpenWait
from runner.contract.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An open question, and the attempt that waits with it."""

    wait: OpenWait
    step: StepRef
    attempt: int | None


class Waits:
    """The questions that are open after the records so far."""

    def __init__(self) -> None:
        self._open: dict[str, Waiting] = {}

    def add(self, record: Record) -> None:
        """Goes on to ``record``, the next one of its step."""
        if record.step is None:
            return
        match record.event:
            case events.WaitOpened() as opened:
                self._ask(record, record.step, _approval(record, record.step, opened))
            case events.InteractionRequested() as asked:
                self._ask(record, record.step, _interaction(record, record.step, asked))
            case events.WaitAnswered(wait=wait) | events.InteractionAnswered(wait=wait):
                self._open.pop(wait, None)
            case events.WaitExpired(wait=wait):
                self._open.pop(wait, None)
            case event if event.KIND in STEP_ENDS and self._open:
                self._open = {name: w for name, w in self._open.items() if w.step != record.step}
            case _:
                pass

    @property
    def open(self) -> tuple[Waiting, ...]:
        """In the order they were asked."""
        return tuple(self._open.values())

    def _ask(self, record: Record, step: StepRef, wait: OpenWait) -> None:
        self._open[wait.wait] = Waiting(wait=wait, step=step, attempt=record.attempt)


def _approval(record: Record, step: StepRef, opened: events.WaitOpened) -> OpenWait:
    return OpenWait(
        wait=opened.wait,
        kind="approval",
        step=step.key,
        prompt=opened.prompt,
        answer_schema=opened.answer_schema,
        outcome=opened.outcome,
        show_diff=opened.show_diff,
        since=record.at,
        expires_at=opened.expires_at,
    )


def _interaction(record: Record, step: StepRef, asked: events.InteractionRequested) -> OpenWait:
    return OpenWait(
        wait=asked.wait,
        kind="interaction",
        step=step.key,
        prompt=asked.prompt,
        answer_schema=asked.answer_schema,
        since=record.at,
    )
