"""The driver's side of the inbox: each item is taken once, judged against what is open now, and becomes an event or nothing.

An item and the event it became are one transaction. Answers are looked at and recorded on the event loop's thread without an
await in between, as every other room does it that may record one: so an answer from here and one from a bridge never both
count.
"""

import datetime as dt
from dataclasses import replace
from typing import Final

from runner.contract.errors import CallerError
from runner.contract.events import (
    CancelRequested,
    Event,
    InteractionAnswered,
    InterventionResolved,
    ValueRef,
    WaitAnswered,
)
from runner.contract.ids import StepRef
from runner.contract.ports import Clock
from runner.contract.records import InboxItem
from runner.contract.text import excerpt
from runner.coordinator import wishes
from runner.coordinator.joining import in_thread
from runner.coordinator.journal import Journal, remaining_in
from runner.coordinator.recovery import Remaining, Wind

WHO_CHARS_MAX: Final = 200
KINDS: Final = frozenset({wishes.CANCEL, wishes.RESOLUTION, wishes.ANSWER})
"""Items of other kinds are left where they are: a newer Runner may understand them."""


class Inbox:
    """The inbox of one driven Delivery."""

    def __init__(self, *, journal: Journal, clock: Clock, deadline: dt.datetime | None) -> None:
        """``deadline``: when the Delivery's time is over, by the wall clock, so that it holds across restarts."""
        self._journal = journal
        self._clock = clock
        self._deadline = deadline
        self._began = journal.ledger.head()
        self.wind: Wind | None = remaining_in(journal.ledger).wind
        """Why nothing new may start, if so."""
        self.recorded = 0
        """How many items became events so far."""

    @property
    def left(self) -> Remaining:
        """What a driver before this one left. An effect that this one began is in flight, not uncertain."""
        left = remaining_in(self._journal.ledger)
        return replace(left, effects=tuple(effect for effect in left.effects if effect.seq <= self._began))

    async def take(self) -> tuple[str, ...]:
        """Takes what is there, and notes when the Delivery's time is over. The waits that were answered."""
        items = [item for item in await in_thread(self._journal.ledger.inbox) if item.kind in KINDS]
        answered = [wait for item in items if (wait := self._take(item)) is not None]
        if self._deadline is not None and self._clock.now() >= self._deadline:
            self._cancel(CancelRequested(who="runner", cause="delivery-timeout"))
        return tuple(answered)

    def _take(self, item: InboxItem) -> str | None:
        """The wait that ``item`` answered, if it did."""
        self._journal.ledger.take(item)
        try:
            match item.kind:
                case wishes.CANCEL:
                    self._cancel(CancelRequested(who=_who(item), cause="request"))
                case wishes.RESOLUTION:
                    self._resolve(item)
                case _:
                    return self._answer(item)
        except CallerError:
            # It was right when it was left, or it was never ours: nothing is open that it fits.
            self._journal.flush()
        return None

    def _cancel(self, event: CancelRequested) -> None:
        if self.wind is None:
            self._record(event)
            self.wind = Wind(event=event)
        else:
            self._journal.flush()

    def _resolve(self, item: InboxItem) -> None:
        fields = wishes.fields_of(item.body, "call", "resolution", "value")
        if fields is None or not isinstance(fields[0], str) or not isinstance(fields[1], str):
            self._journal.flush()
            return
        said = wishes.resolution(self.left, fields[0], fields[1], fields[2])
        value: ValueRef | None = None
        if said.said == "happened":
            value = self._journal.ledger.artifacts.put(said.value)
        effect = said.effect
        event = InterventionResolved(call=fields[0], resolution=said.said, value=value, who=_who(item))
        self._record(event, effect.step if effect else None, effect.attempt if effect else None)
        self.wind = remaining_in(self._journal.ledger).wind

    def _answer(self, item: InboxItem) -> str | None:
        fields = wishes.fields_of(item.body, "wait", "value")
        if fields is None or not isinstance(fields[0], str):
            self._journal.flush()
            return None
        # Whoever left it saw to it that the wait's time was not over; that it is taken later does not count against it.
        reply = wishes.reply(self.left, fields[0], fields[1], now=None)
        waiting, value = reply.waiting, self._journal.ledger.artifacts.put(reply.value)
        kind = WaitAnswered if waiting.wait.kind == "approval" else InteractionAnswered
        event = kind(wait=waiting.wait.wait, value=value, who=_who(item))
        self._record(event, waiting.step, waiting.attempt)
        return waiting.wait.wait

    def _record(self, event: Event, step: StepRef | None = None, attempt: int | None = None) -> None:
        self._journal.record(event, step, attempt)
        self.recorded += 1


def _who(item: InboxItem) -> str:
    return excerpt(item.who, WHO_CHARS_MAX)
