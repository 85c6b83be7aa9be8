"""The approval step: a question is opened, asked, answered or expired. All of it is in the ledger; nothing is held while it waits.

A drive asks a bridge at most once per opening. Nobody answers now: the step parks. An answer may come from elsewhere at any
moment; the ledger's first one counts, and an answer that was given before an expiry was recorded beats it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from hosts.langgraph.conclusions import chosen_by
from hosts.langgraph.course import Course
from hosts.langgraph.journal import ATTEMPT, Open
from hosts.langgraph.parking import Parking
from hosts.langgraph.resolution import Unresolved
from hosts.langgraph.results import failed
from hosts.langgraph.waits import Bell, Opening, expiry, first_answer, last_opening, opened, opening, seconds_left
from runner.contract import plan as words
from runner.contract.activation import ApprovalAction
from runner.contract.canonical import FrozenJson, digest, freeze
from runner.contract.events import Event, ValueRef, WaitAnswered
from runner.contract.ids import DeliveryId
from runner.contract.ports import Answer, Bridge, Clock, Deferred, HostSuspended
from runner.contract.records import Draft
from runner.contract.text import excerpt
from runner.interpreter.schemas import value_findings

ASKED_MAX: Final = 2
"""An answer that does not fit is asked for once more."""
LOOK_AGAIN_S: Final = 60.0
"""How long a wait sleeps at most without looking at the wall clock, which may be set, or go on while the machine sleeps."""
WHO_CHARS_MAX: Final = 200
DETAIL_CHARS_MAX: Final = 500


class Approvals:
    """The approval steps of one drive."""

    def __init__(
        self,
        course: Course,
        *,
        delivery: DeliveryId,
        bridge: Bridge,
        clock: Clock,
        parking: Parking,
        asked: set[str],
        bell: Bell,
        news: Callable[[], None],
    ) -> None:
        """``asked``: openings that were put to the bridge, kept over the drives of one execute. ``news`` makes the drive look
        at what is parked."""
        self._delivery: Final = delivery
        self._bridge: Final = bridge
        self._clock: Final = clock
        self._course: Final = course
        self._reader: Final = course.reader
        self._artifacts: Final = course.artifacts
        self._journal: Final = course.journal
        self._attempts: Final = course.attempts
        self._conclusions: Final = course.conclusions
        self._parking: Final = parking
        self._asked: Final = asked
        self._bell: Final = bell
        self._news: Final = news

    async def perform(self, step: Open, action: ApprovalAction) -> HostSuspended | None:
        """To the step's end, or to the point where nobody answers now."""
        try:
            prompt = self._course.resolver.approval(self._course.seen(step), action)
        except Unresolved as error:
            self._conclusions.unresolved(step, error)
            return None
        now = self._open(step, action, prompt)
        given: Answer | Deferred | None = None
        # A loop may have gone over the step while somebody was asked.
        while self._journal.holds(step):
            known = first_answer(self._reader, now.wait)
            if known is not None:
                self._answered(step, action, known.value)
                return None
            if isinstance(given, Answer):
                value = await self._conclusions.put(given.value)
                # Looked at again: things may have moved on while the value was stored.
                if self._journal.holds(step) and first_answer(self._reader, now.wait) is None:
                    event = WaitAnswered(wait=now.wait.wait, value=value, who=excerpt(given.who, WHO_CHARS_MAX))
                    self._answered(step, action, value, event)
                    return None
                continue
            if self._is_over(now):
                renewed = self._expire(step, action, now, prompt)
                if renewed is None:
                    return None
                now = renewed
            elif now.wait.wait in self._asked:
                return _parked(step, now)
            else:
                given = await self._ask(now)
        return None

    # --- the ledger --------------------------------------------------------------------------------------------------

    def _open(self, step: Open, action: ApprovalAction, prompt: str) -> Opening:
        """The newest opening; the first one together with the step's start."""
        resolved = digest({"prompt": prompt})
        savepoint = step.opened_at or self._attempts.current()
        starts = self._journal.starts(step, savepoint, resolved)
        found = last_opening(self._reader, step.step) if step.recorded else None
        if found is not None:
            return found
        event = opened(step.step, prompt, action, self._clock.now(), renewal=0)
        return opening(self._journal.note(step, *starts, self._draft(step, event)))

    def _expire(self, step: Open, action: ApprovalAction, over: Opening, prompt: str) -> Opening | None:
        """Records the expiry with what follows from it: the next opening, or None when that is the step's end."""
        event = expiry(action, over)
        expired, savepoint = self._draft(step, event), self._attempts.current()
        if event.consequence == "renewed":
            again = opened(step.step, prompt, action, self._clock.now(), renewal=over.renewal + 1)
            return opening(self._journal.note(step, expired, self._draft(step, again)))
        if event.consequence == "default":
            self._answered(step, action, self._artifacts.put(action.default), event)
        else:
            message = f"nobody answered {over.wait.wait} before {over.wait.expires_at}"
            ended = failed(words.WAIT_EXPIRED, message, savepoint, outcome=words.WAIT_EXPIRED)
            self._journal.fail(step, ended, [expired])
        return None

    def _answered(self, step: Open, action: ApprovalAction, value: ValueRef, before: Event | None = None) -> None:
        drafts = [self._draft(step, before)] if before is not None else []
        chosen, savepoint = chosen_by(self._artifacts.get(value), action.outcome), self._attempts.current()
        if chosen is not None:
            self._journal.complete(step, chosen, value, savepoint, drafts)
        else:
            message = f"the answer's {action.outcome!r} names no outcome"
            self._journal.fail(step, failed("outcome-missing", message, savepoint, output=value), drafts)

    def _draft(self, step: Open, event: Event) -> Draft:
        return Draft(event=event, step=step.step, attempt=ATTEMPT)

    def _is_over(self, now: Opening) -> bool:
        return seconds_left(now.wait, self._clock.now()) == 0.0

    # --- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, now: Opening) -> Answer | Deferred | None:
        """What the bridge says; None when the ledger has the answer meanwhile, or the time is over. The bridge's call has
        ended then, also when this is cancelled."""
        self._asked.add(now.wait.wait)
        asking = asyncio.ensure_future(self._fitting(now))
        try:
            while not asking.done() and not self._is_over(now) and first_answer(self._reader, now.wait) is None:
                await self._until_news(asking, now)
            return asking.result() if asking.done() else None
        finally:
            await _ended(asking)

    async def _until_news(self, asking: asyncio.Future[Answer | Deferred], now: Opening) -> None:
        """Until the bridge answers, the bell rings, or some open question's time may be over."""
        waits = (now.wait, *self._parking.waits.values())
        left = [s for wait in waits if (s := seconds_left(wait, self._clock.now())) is not None]
        others: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._bell.wait())]
        if left:
            others.append(asyncio.ensure_future(self._clock.sleep(min(*left, LOOK_AGAIN_S))))
        try:
            await asyncio.wait([asking, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for other in others:
                await _ended(other)
        if any(seconds_left(wait, self._clock.now()) == 0.0 for wait in self._parking.waits.values()):
            self._news()

    async def _fitting(self, now: Opening) -> Answer | Deferred:
        for _ in range(ASKED_MAX):
            said = await self._bridge.ask(self._delivery, now.wait)
            if isinstance(said, Deferred):
                return said
            value = spelled_out(said.value, now)
            if value is not None and not value_findings(now.wait.answer_schema, value, "answer"):
                return Answer(value=value, who=said.who)
        return Deferred()


def spelled_out(said: object, now: Opening) -> FrozenJson:
    """What was said as a JSON value; a bare word stands for the property that routes. None when it is no JSON."""
    outcome = now.wait.outcome
    try:
        return freeze({outcome: said} if isinstance(said, str) and outcome is not None else said)
    except ValueError:
        return None


def _parked(step: Open, now: Opening) -> HostSuspended:
    detail = excerpt(now.wait.prompt, DETAIL_CHARS_MAX)
    return HostSuspended(reason="wait", detail=detail, step=step.step, resume_in_s=None, waits=(now.wait,))


async def _ended(task: asyncio.Future[Any]) -> None:
    """Cancelled, if it is not done, and waited for; what it raised then is nobody's."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
