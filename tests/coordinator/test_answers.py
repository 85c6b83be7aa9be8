"""Answers: who may answer what, how often, and that the driver hears of it."""

import asyncio
import datetime as dt

import pytest

from runner.contract import events
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import Suspended
from runner.contract.ports import Boundary, HostSuspended
from runner.contract.records import Draft
from tests.coordinator.asking import ONE, A, answer, opened, post, recorded, suspend
from tests.coordinator.fakes import FakeHost, House, completed, started
from tests.coordinator.test_execute import settled
from tests.ledger.fakes import StillClock

FIRST, SECOND = (StepRef(site=SiteId(name)) for name in ("first", "second"))


def refused(house: House, wait: str | None, value: FrozenJson) -> CallerError:
    with pytest.raises(CallerError) as caught:
        answer(house, wait, value)
    return caught.value


async def finish(host: FakeHost) -> Boundary:
    """Ends what waits with its answer, suspends with what is not answered, else does the rest."""
    ledger = host.case.ledger
    for step in ledger.open_steps():
        if ledger.last(frozenset({events.WaitAnswered.KIND}), step):
            host.writer.append(completed(step))
    if ledger.open_steps():
        return HostSuspended(reason="approval", detail="?", step=None, resume_in_s=None)
    return await host.work()


async def test_the_only_wait(house: House) -> None:
    """Without an id the only open wait is meant; a bare word stands for the property that routes."""
    await suspend(house, "first")
    state = await house.coordinator().inspect(ONE)
    (wait,) = state.waits
    assert (state.phase, wait.wait, wait.kind, wait.step) == ("suspended", "first", "approval", "first@1")
    assert answer(house, None, "approve", who="ann") == wait
    house.world.script = finish
    settled(await house.coordinator().execute(house.activation()))
    (record,) = recorded(house, events.WaitAnswered)
    assert (record.step, record.attempt) == (FIRST, 1)
    assert isinstance(record.event, events.WaitAnswered)
    assert (record.event.value.inline, record.event.who) == ({"decision": "approve"}, "ann")


async def test_two_waits_and_no_id(house: House) -> None:
    """Refused naming them all; each is answered by its name, and the Delivery stays suspended with the other."""
    await suspend(house, "first", "second")
    error = refused(house, None, "approve")
    assert error.code is Code.WAIT_UNKNOWN
    assert "first: first?" in error.remedy
    assert "second: second?" in error.remedy
    answer(house, "second", "reject")
    house.world.script = finish
    assert isinstance(await house.coordinator().execute(house.activation()), Suspended)
    assert [wait.wait for wait in (await house.coordinator().inspect(ONE)).waits] == ["first"]
    answer(house, None, "approve")
    settled(await house.coordinator().execute(house.activation()))


@pytest.mark.parametrize("value", ["aprove", 3, None])
async def test_a_slip_hears_the_choices(house: House, value: FrozenJson) -> None:
    """What fits no choice is told them in words."""
    await suspend(house, "first")
    error = refused(house, None, value)
    assert error.code is Code.ANSWER_INVALID and "does not answer wait first" in error.message
    assert error.remedy.startswith("say approve or reject;")


@pytest.mark.parametrize(("begins", "said"), [("Ship it?", "first: Ship it?; second"), ("", "first; second")])
async def test_untrusted_text_is_not_shown_in_part(house: House, begins: str, said: str) -> None:
    """Which questions are open is said by name and first line: no fence is opened that is not closed."""
    await suspend(
        house, "first", "second", prompt=f"{begins}\n<<<untrusted 00: data>>>\n{'x' * 200}\n<<<end untrusted 00>>>"
    )
    remedy = refused(house, None, "approve").remedy
    assert remedy.startswith(said) and "untrusted" not in remedy


async def test_an_answer_that_arrives_twice(house: House) -> None:
    """Counts once, however it arrives; another answer meanwhile is refused, naming the one that was left."""
    await suspend(house, "first")
    answer(house, "first", "approve", who="ann")
    answer(house, "first", "approve", who="bob")
    assert "ann" in refused(house, "first", "reject").message
    post(house, "another id", "answer", '{"wait":"first","value":{"decision":"reject"}}')
    house.world.script = finish
    settled(await house.coordinator().execute(house.activation()))
    (record,) = recorded(house, events.WaitAnswered)
    assert isinstance(record.event, events.WaitAnswered)
    assert record.event.who == "ann"


async def test_an_answer_while_driving(house: House) -> None:
    """The driver takes it within a poll, records it and tells the host, which need not suspend."""

    async def asks(host: FakeHost) -> Boundary:
        host.writer.append(Draft(event=events.StepScheduled(), step=FIRST), started(FIRST), opened("first", FIRST))
        await asyncio.to_thread(answer, house, None, "approve")
        await host.woken.wait()
        assert host.answers == ["first"]
        return await finish(host)

    house.world.script = asks
    settled(await house.coordinator().execute(house.activation()))


async def test_an_answer_while_it_comes_to_rest(house: House) -> None:
    """Left after the host had decided to suspend: it is driven on instead, and nobody waits for nothing."""

    async def asks(host: FakeHost) -> Boundary:
        if FIRST not in host.case.ledger.open_steps():
            host.writer.append(Draft(event=events.StepScheduled(), step=FIRST), started(FIRST), opened("first", FIRST))
            answer(house, None, "approve")
            return HostSuspended(reason="approval", detail="?", step=None, resume_in_s=None)
        return await finish(host)

    house.world.script = asks
    settled(await house.coordinator().execute(house.activation()))


async def test_what_is_refused_by_name(house: House) -> None:
    """Never asked, answered, expired, over with its step, or not fitting: each says which and why."""
    await suspend(house, "first", "second")
    assert refused(house, "third", "approve").code is Code.WAIT_UNKNOWN
    unfit = refused(house, "first", "perhaps")
    assert unfit.code is Code.ANSWER_INVALID
    assert [finding.place for finding in unfit.findings] == ["answer.decision"]
    assert refused(house, "first", {"decision": "approve", "why": 1}).code is Code.ANSWER_INVALID
    assert refused(house, "first", 7).code is Code.ANSWER_INVALID
    answer(house, "first", "approve", who="ann")

    async def ends(host: FakeHost) -> Boundary:
        host.writer.append(completed(SECOND))
        return HostSuspended(reason="approval", detail="?", step=None, resume_in_s=None)

    house.world.script = ends
    await house.coordinator().execute(house.activation())
    assert "was answered" in refused(house, "first", "approve").message
    assert "ann" in refused(house, "first", "approve").message
    assert "its step has ended" in refused(house, "second", "approve").message
    assert "no wait is open" in refused(house, None, "approve").message


async def test_time_is_over(house: House) -> None:
    """An answer that comes after the expiry is refused, also while nobody drives; one that was in time counts even when it
    is taken later."""
    clock = StillClock()
    house.clock = clock
    await suspend(house, "first", "second", expires_at="2026-03-01T13:00:00Z")
    answer(house, "first", "approve")
    clock.moment += dt.timedelta(hours=2)
    assert "expired at 2026-03-01T13:00:00Z" in refused(house, "second", "approve").message

    async def looks(host: FakeHost) -> Boundary:
        assert host.case.ledger.last(frozenset({events.WaitAnswered.KIND}), FIRST)
        expired = events.WaitExpired(wait="second", consequence="incomplete")
        host.writer.append(Draft(event=expired, step=SECOND, attempt=1), completed(FIRST), completed(SECOND))
        return await host.work()

    house.world.script = looks
    settled(await house.coordinator().execute(house.activation()))
    assert "expired" in refused(house, "second", "approve").message


async def test_what_a_running_agent_asks(house: House) -> None:
    """Answered under its own word, with the attempt that asked."""

    async def asks(host: FakeHost) -> Boundary:
        if A not in host.case.ledger.open_steps():
            host.writer.append(Draft(event=events.StepScheduled(), step=A), started(A))
            event = events.InteractionRequested(wait="a@1/1/t2", prompt="which?", answer_schema={"type": "string"})
            host.case.ledger.writer("invocation").append(Draft(event=event, step=A, attempt=1))
            return HostSuspended(reason="interaction", detail="which?", step=A, resume_in_s=None)
        host.writer.append(completed(A))
        return await host.work()

    house.world.script = asks
    assert isinstance(await house.coordinator().execute(house.activation()), Suspended)
    (wait,) = (await house.coordinator().inspect(ONE)).waits
    assert (wait.wait, wait.kind, wait.outcome) == ("a@1/1/t2", "interaction", None)
    assert refused(house, None, 7).code is Code.ANSWER_INVALID
    answer(house, None, "the second")
    settled(await house.coordinator().execute(house.activation()))
    (record,) = recorded(house, events.InteractionAnswered)
    assert record.step == A
    assert isinstance(record.event, events.InteractionAnswered)
    assert record.event.value.inline == "the second"


async def test_a_large_answer(house: House) -> None:
    """Kept by reference, like every value."""
    await suspend(house, "first")
    answer(house, "first", {"decision": "approve", "why": "x" * 10_000})
    house.world.script = finish
    settled(await house.coordinator().execute(house.activation()))
    (record,) = recorded(house, events.WaitAnswered)
    assert isinstance(record.event, events.WaitAnswered)
    assert record.event.value.stored


@pytest.mark.parametrize("body", ["", "[]", '{"wait":1,"value":1}', '{"wait":"x","value":1}', '{"wait":"first"}'])
async def test_what_nobody_meant(house: House, body: str) -> None:
    """An item that answers nothing is taken and becomes nothing; one of an unknown kind is left where it is."""
    await suspend(house, "first")
    post(house, "x", "answer", body)
    post(house, "y", "from-the-future", body)
    house.world.script = finish
    assert isinstance(await house.coordinator().execute(house.activation()), Suspended)
    assert recorded(house, events.WaitAnswered) == []
    answer(house, None, "approve")
    settled(await house.coordinator().execute(house.activation()))
