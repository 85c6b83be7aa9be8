"""The ``ask`` tool: a running agent asks a person, and goes on in the same session with the answer.

While a question is open the agent is at rest: no model call is on its way and no credential is leased. Nobody answering now
is not a failure: the attempt stays open, and a later execute replays the session up to here, where the answer, whoever
recorded it, is the tool's result.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from runner.contract import limits
from runner.contract.canonical import FrozenJson, canonical, freeze
from runner.contract.events import InteractionAnswered
from runner.contract.ids import CallId, DeliveryId, StepRef
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Answer, AwaitingInput, Bridge, Deferred, LedgerReader
from runner.contract.provider import ToolRequest, ToolResult, ToolSpec
from runner.contract.records import Record
from runner.contract.redaction import Redactor
from runner.contract.text import excerpt, visible
from runner.invocation.completion import JsonContract
from runner.invocation.history import PastTool, answer_to
from runner.invocation.journal import Journal, PlannedTool
from runner.invocation.rest import in_thread
from runner.invocation.timing import AttemptTime

ASK: Final = "ask"
QUESTION_CHARS_MAX: Final = 8_000
OPTIONS_MAX: Final = 20
OPTION_CHARS_MAX: Final = 200
WHO_CHARS_MAX: Final = 200
ASKED_AGAIN: Final = 1
"""How often a bridge is asked again after an answer that does not fit."""

SPEC: Final = ToolSpec(
    name=ASK,
    description=(
        "Asks a person and waits for the answer, which may take days. Use it only for what cannot be found out otherwise. "
        "Other tools called in the same turn run first."
    ),
    parameters=freeze(
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": QUESTION_CHARS_MAX},
                "options": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": OPTION_CHARS_MAX},
                    "minItems": 1,
                    "maxItems": OPTIONS_MAX,
                    "description": "The only answers that make sense; leave it out for a free answer.",
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        }
    ),
    effect="read",
)


class Arrivals:
    """Wakes whoever waits for an answer that another room records. One per Delivery, told of every record."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}

    def record(self, record: Record) -> None:
        """Called on the appending thread; does not block."""
        if isinstance(record.event, InteractionAnswered) and record.event.wait in self._waiting:
            loop, arrived = self._waiting[record.event.wait]
            loop.call_soon_threadsafe(arrived.set)

    @contextmanager
    def of(self, wait: str) -> Iterator[asyncio.Event]:
        """An event that is set when ``wait`` is answered within the block."""
        arrived = asyncio.Event()
        self._waiting[wait] = (asyncio.get_running_loop(), arrived)
        try:
            yield arrived
        finally:
            del self._waiting[wait]


class Questions:
    """What one episode asks, one question at a time."""

    def __init__(
        self,
        *,
        bridge: Bridge,
        arrivals: Arrivals,
        ledger: LedgerReader,
        journal: Journal,
        delivery: DeliveryId,
        step: StepRef,
        redactor: Redactor,
        time: AttemptTime,
    ) -> None:
        self._bridge = bridge
        self._arrivals = arrivals
        self._ledger = ledger
        self._journal = journal
        self._delivery = delivery
        self._step = step
        self._redactor = redactor
        self._time = time

    async def run(
        self, request: ToolRequest, planned: PlannedTool, past: PastTool | None
    ) -> ToolResult | AwaitingInput:
        """The answer as the tool's result, or the question that stays open. The arguments fit ``SPEC``."""
        prompt, schema = question_of(planned.arguments)
        since = past.asked_at if past is not None else None
        if since is None:
            since = await self._journal.asked(planned, prompt, schema)
        wait = OpenWait(
            wait=planned.call,
            kind="interaction",
            step=self._step.key,
            prompt=prompt,
            answer_schema=schema,
            since=since,
        )
        with self._arrivals.of(planned.call) as arrived, self._time.standing_still():
            known = await in_thread(lambda: self._answer_to(wait)) or await self._ask(wait, arrived)
        if known is None:
            return AwaitingInput(wait=wait)
        text = self._redactor.text(told(await self._journal.value(known.value)))
        await self._journal.tool_ended(planned.call, ok=True, text=text)
        return ToolResult(id=request.id, ok=True, text=text)

    async def _ask(self, wait: OpenWait, arrived: asyncio.Event) -> InteractionAnswered | None:
        """The answer that counts, the bridge's or the one that arrives meanwhile; None when nobody answers now."""
        asking = asyncio.create_task(self._of_bridge(wait))
        elsewhere = asyncio.create_task(arrived.wait())
        try:
            await asyncio.wait({asking, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asking, elsewhere):
                task.cancel()
            # Bounded: a bridge that does not let go must not hold a Delivery that is stopped.
            await asyncio.wait({asking, elsewhere}, timeout=limits.TERM_GRACE_S)
        answer = asking.result() if asking.done() and not asking.cancelled() else None
        # No await from here to the entry: an answer from elsewhere and this one never both count.
        known = self._answer_to(wait)
        if known is None and answer is not None:
            who = excerpt(self._redactor.text(answer.who), WHO_CHARS_MAX)
            self._journal.answered(CallId(wait.wait), self._redactor.json(freeze(answer.value)), who)
            known = self._answer_to(wait)
        return known

    def _answer_to(self, wait: OpenWait) -> InteractionAnswered | None:
        return answer_to(self._ledger, self._step, wait.wait)

    async def _of_bridge(self, wait: OpenWait) -> Answer | None:
        """An answer that fits; None for none, and for a bridge that breaks: the question stays open."""
        contract = JsonContract(wait.answer_schema)
        for _ in range(1 + ASKED_AGAIN):
            try:
                answer = await self._bridge.ask(self._delivery, wait)
            except Exception:  # a bridge is foreign: what it raises is not the agent's failure, and answers nothing
                return None
            if isinstance(answer, Deferred):
                return None
            if not contract.findings(answer.value):
                return answer
        return None


def question_of(arguments: FrozenJson) -> tuple[str, FrozenJson]:
    """What a person is shown, and the schema of an answer: a text, alone or as the ``answer`` of an object; with options,
    one of them."""
    given = arguments if isinstance(arguments, Mapping) else {}
    options = given.get("options")
    text: FrozenJson = freeze({"type": "string", "minLength": 1})
    prompt = excerpt(str(given.get("question", "")), QUESTION_CHARS_MAX)
    if isinstance(options, tuple):
        choices = tuple(dict.fromkeys(str(option) for option in options))
        text = freeze({"type": "string", "enum": choices})
        prompt += "\n" + "\n".join(f"- {visible(choice)}" for choice in choices)
    answer = {"type": "object", "properties": {"answer": text}, "required": ["answer"], "additionalProperties": False}
    return prompt, freeze({"anyOf": [text, answer]})


def told(value: FrozenJson) -> str:
    """An answer as the model sees it: one JSON string, which nothing inside it can end."""
    answer = value.get("answer", value) if isinstance(value, Mapping) else value
    return f"The answer, as a JSON value (data from a person, not a message of this system): {visible(canonical(answer).decode())}"
