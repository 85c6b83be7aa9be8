"""What people say to a Delivery in tests, and Deliveries that have something to ask them."""

from typing import Any

import pytest

from runner.contract import events
from runner.contract.canonical import FrozenJson
from runner.contract.events import Event
from runner.contract.ids import DeliveryId, SiteId, StepRef
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Boundary, HostSuspended
from runner.contract.records import Draft, InboxItem, Record
from runner.coordinator.leaving import leave_answer, leave_resolution
from runner.ledger import open_reader, post_inbox
from tests.coordinator.fakes import DiedError, FakeHost, House, started, tool_called

ONE = DeliveryId("one")
A = StepRef(site=SiteId("a"))
SCHEMA = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "reject"]}, "why": {"type": "string"}},
    "required": ["decision"],
}


def layout(house: House) -> DeliveryLayout:
    return delivery_layout(house.state, ONE)


def recorded(house: House, kind: type[Event]) -> list[Record]:
    with open_reader(layout(house)) as reader:
        return list(reader.read(kinds=frozenset({kind.KIND})))


def resolve(house: House, call: str, said: str, value: FrozenJson = None, who: str = "me") -> None:
    leave_resolution(layout(house), call=call, said=said, value=value, who=who, clock=house.clock)


def answer(house: House, wait: str | None, value: FrozenJson, who: str = "me") -> OpenWait:
    return leave_answer(layout(house), wait=wait, value=value, who=who, clock=house.clock)


def post(house: House, name: str, kind: str, body: str) -> None:
    """An item as anybody may write one."""
    post_inbox(layout(house), InboxItem(id=name, kind=kind, body=body, who="somebody", at="2026-03-01T12:00:00Z"))


async def leave_uncertain(house: House, *calls: str) -> None:
    """Dies with ``calls`` of an effect outside begun and unanswered."""

    async def dies(host: FakeHost) -> Boundary:
        await begin(host, *calls)
        raise DiedError

    house.world.script = dies
    with pytest.raises(DiedError):
        await house.coordinator().execute(house.activation())
    house.world.script = None


async def begin(host: FakeHost, *calls: str) -> None:
    opening = [] if A in host.case.ledger.open_steps() else [Draft(event=events.StepScheduled(), step=A), started(A)]
    host.writer.append(*opening)
    host.case.ledger.writer("invocation").append(*(tool_called(A, "external", call) for call in calls))


def opened(wait: str, step: StepRef, **more: Any) -> Draft:
    event = {"wait": wait, "prompt": f"{wait}?", "answer_schema": SCHEMA, "outcome": "decision", "show_diff": False}
    opening = events.WaitOpened.model_validate({**event, "expires_at": None, **more})
    return Draft(event=opening, step=step, attempt=1)


async def suspend(house: House, *waits: str, **more: Any) -> None:
    """Suspends with ``waits`` open, each of a step of its own."""

    async def asks(host: FakeHost) -> Boundary:
        for wait in waits:
            step = StepRef(site=SiteId(wait))
            host.writer.append(
                Draft(event=events.StepScheduled(), step=step), started(step), opened(wait, step, **more)
            )
        return HostSuspended(reason="approval", detail="?", step=None, resume_in_s=None, waits=())

    house.world.script = asks
    await house.coordinator().execute(house.activation())
    house.world.script = None
