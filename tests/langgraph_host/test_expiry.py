"""Questions that nobody answers in time: what follows is applied once, whenever it is noticed and whatever the clock does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runner.contract.activation import Step
from runner.contract.canonical import thaw
from runner.contract.events import WaitExpired, WaitOpened
from runner.contract.outcomes import Outcome, Reason
from runner.contract.ports import Boundary, Completed, Dispatch, Disposition, HostSuspended, TerminalProposal
from tests.langgraph_host.fakes import FakeBridge, Process, SetClock, World, activation, approval, generate, to

YES, NO = {"decision": "approve"}, {"decision": "reject"}


def world(tmp_path: Path, *steps: Step, **replies: Any) -> World:
    return World(tmp_path / "d", activation(*steps), bridge=FakeBridge(**replies), clock=SetClock())


def pending() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def expiries(process: Process) -> list[tuple[str, str]]:
    records = process.ledger.read(kinds=frozenset({WaitExpired.KIND}))
    return [(r.event.wait, r.event.consequence) for r in records if isinstance(r.event, WaitExpired)]


def suspended(boundary: Boundary) -> HostSuspended:
    assert isinstance(boundary, HostSuspended)
    return boundary


async def test_a_suspended_delivery_says_when_to_come_back(tmp_path: Path) -> None:
    """The time to the nearest expiry, by what is recorded; nothing sleeps while nobody is asked."""
    it = world(tmp_path, approval("a", expires_s=100), approval("b", expires_s=40), approval("c"))
    async with it.process() as process:
        boundary = suspended(await process.host.drive())
        assert boundary.resume_in_s == 40.0 and len(boundary.waits) == 3
        assert [w.expires_at for w in boundary.waits] == [
            "2026-01-01T00:01:40.000000Z",
            "2026-01-01T00:00:40.000000Z",
            None,
        ]
    it.clock.set(30.0)
    async with it.process() as process:
        assert suspended(await process.host.drive()).resume_in_s == 10.0 and expiries(process) == []


@pytest.mark.parametrize(
    ("routes", "outcome", "reason"),
    [
        ({}, Outcome.INCOMPLETE, Reason.WAIT_EXPIRED),
        ({"failure": "z"}, Outcome.INCOMPLETE, Reason.WAIT_EXPIRED),
        ({"wait_expired": "z"}, Outcome.COMPLETED, Reason.ALL_STEPS_FINISHED),
        ({"wait_expired": "failed"}, Outcome.FAILED, Reason.ROUTED),
    ],
)
async def test_incomplete(tmp_path: Path, routes: dict[str, str], outcome: Outcome, reason: Reason) -> None:
    """Routed by its exact name only; unrouted the Delivery ends incomplete, not failed. Noticed by the next drive, once."""
    it = world(
        tmp_path, approval("a", expires_s=60, routes=to(**routes)), *([generate("z")] if "z" in routes.values() else [])
    )
    async with it.process() as process:
        suspended(await process.host.drive())
    it.clock.set(60.0)
    async with it.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and (boundary.outcome, boundary.reason) == (outcome, reason)
        assert expiries(process) == [("a@1", "incomplete")] and process.ends()["a@1"] == "wait-expired"
        assert process.events("a@1")[-2:] == ["wait.expired", "step.failed"] and it.bridge.ids == ["a@1"]
    it.clock.set(0.0)
    async with it.process() as process:
        assert await process.host.drive() == boundary and len(expiries(process)) == 1


async def test_default(tmp_path: Path) -> None:
    """The default is the answer: it routes and is the output, and no answer is pretended."""
    more: Any = {"expires_s": 60, "on_expiry": "default", "default": NO}
    it = world(tmp_path, approval("a", routes=to(reject="z"), **more), generate("z"))
    async with it.process() as process:
        suspended(await process.host.drive())
        it.clock.set(61.0)
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and process.ends() == {"a@1": "reject", "z@1": "success"}
        assert expiries(process) == [("a@1", "default")] and thaw(process.last("a@1").output.inline) == NO
        assert process.events("a@1").count("wait.answered") == 0


async def test_renew(tmp_path: Path) -> None:
    """Opened and asked again under a new id, as often as it says, then incomplete; a long absence counts as one expiry."""
    it = world(tmp_path, approval("a", expires_s=60, on_expiry="renew", renewals_max=2))
    for time, wait, left in (
        (0.0, "a@1", 60.0),
        (1000.0, "a@1~1", 60.0),
        (1059.0, "a@1~1", 1.0),
        (1060.0, "a@1~2", 60.0),
    ):
        it.clock.set(time)
        async with it.process() as process:
            boundary = suspended(await process.host.drive())
            assert [w.wait for w in boundary.waits] == [wait] and boundary.resume_in_s == left
    it.clock.set(2000.0)
    async with it.process() as process:
        end = await process.host.drive()
        assert isinstance(end, TerminalProposal) and end.reason is Reason.WAIT_EXPIRED
        assert expiries(process) == [("a@1", "renewed"), ("a@1~1", "renewed"), ("a@1~2", "incomplete")]
        opened = process.ledger.read(kinds=frozenset({WaitOpened.KIND}))
        assert [r.event.renewal for r in opened if isinstance(r.event, WaitOpened)] == [0, 1, 2]
        assert it.bridge.ids == ["a@1", "a@1~1", "a@1~1", "a@1~2"]


async def test_an_answer_to_an_opening_that_is_over(tmp_path: Path) -> None:
    """It is told apart from one to the renewed opening and does not count."""
    it = world(tmp_path, approval("a", expires_s=60, on_expiry="renew"))
    async with it.process() as process:
        suspended(await process.host.drive())
        it.clock.set(60.0)
        suspended(await process.host.drive())
        process.answer("a@1", YES)
        assert [w.wait for w in suspended(await process.host.drive()).waits] == ["a@1~1"] and process.ends() == {}
        process.answer("a@1~1", NO)
        assert isinstance(await process.host.drive(), TerminalProposal) and process.ends() == {"a@1": "reject"}


async def test_an_answer_recorded_before_the_expiry_was(tmp_path: Path) -> None:
    """It counts, however late it is noticed."""
    it = world(tmp_path, approval("a", expires_s=60))
    async with it.process() as process:
        suspended(await process.host.drive())
        process.answer("a@1", YES)
    it.clock.set(1000.0)
    async with it.process() as process:
        assert isinstance(await process.host.drive(), TerminalProposal) and process.ends() == {"a@1": "approve"}
        assert expiries(process) == []


async def test_it_expires_while_somebody_is_asked(tmp_path: Path) -> None:
    """The bridge's call is ended; the next opening is asked in the same drive."""
    it = world(tmp_path, approval("a", expires_s=60, on_expiry="renew"), **{"a@1": [pending()], "a@1~1": [YES]})
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        await settled()
        it.clock.set(59.0)
        await settled()
        assert it.bridge.cancelled == []
        it.clock.set(60.0)
        assert isinstance(await driving, TerminalProposal)
        assert it.bridge.ids == ["a@1", "a@1~1"] and it.bridge.cancelled == ["a@1"]


async def test_another_expires_while_somebody_is_asked(tmp_path: Path) -> None:
    """What is parked expires beside it, and what follows from that runs at once."""
    reply = pending()
    it = world(
        tmp_path, approval("a"), approval("b", expires_s=60, routes=to(wait_expired="z")), generate("z"), a=[reply]
    )

    async def act(_: Dispatch) -> Disposition:
        reply.set_result(YES)
        return Completed(value=None)

    it.act = act
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        await it.bridge.deferred.wait()
        await settled()
        it.clock.set(60.0)
        assert isinstance(await driving, TerminalProposal)
        assert process.ends() == {"b@1": "wait-expired", "z@1": "success", "a@1": "approve"}


async def test_the_clock_goes_back(tmp_path: Path) -> None:
    """An expiry that was recorded stands and is not repeated; a wait that has not expired by then waits on."""
    it = world(tmp_path, approval("a", expires_s=60, on_expiry="renew"), a=[pending()])
    it.clock.set(1000.0)
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        it.clock.set(1060.0)
        assert [w.wait for w in suspended(await driving).waits] == ["a@1~1"]
    it.clock.set(0.0)
    for _ in range(2):
        async with it.process() as process:
            boundary = suspended(await process.host.drive())
            assert boundary.resume_in_s == 1120.0 and expiries(process) == [("a@1", "renewed")]


async def test_the_wall_clock_jumps_while_somebody_is_asked(tmp_path: Path) -> None:
    """As after a laptop slept: it is looked at every minute, not only when the whole time has passed."""
    it = world(tmp_path, approval("a", expires_s=86_400), a=[pending()])
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        await settled()
        it.clock.ahead = 90_000.0
        it.clock.set(60.0)
        boundary = await driving
        assert isinstance(boundary, TerminalProposal) and boundary.reason is Reason.WAIT_EXPIRED


async def settled() -> None:
    """Everybody had the turns of the event loop that they can use without an event from outside."""
    for _ in range(50):
        await asyncio.sleep(0)
