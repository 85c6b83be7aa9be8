"""execute: one Delivery from its activation to its settlement, and every way it may stop in between."""

import asyncio

import pytest

from runner.contract import events
from runner.contract.canonical import canonical, freeze
from runner.contract.errors import CallerError, Code, EnvironmentFault, Finding, IntegrityError
from runner.contract.ids import DeliveryId, SiteId, StepRef
from runner.contract.layout import delivery_layout, leases_dir
from runner.contract.outcomes import (
    ExecuteResult,
    Interrupted,
    NeedsIntervention,
    Outcome,
    Reason,
    Settled,
    Settlement,
    Suspended,
)
from runner.contract.ports import Boundary, HostIntervention, HostSuspended
from runner.contract.records import Draft
from runner.ledger import open_reader
from tests.coordinator.fakes import DiedError, FakeHost, House, started, tool_called

A = StepRef(site=SiteId("a"))


def settled(result: ExecuteResult) -> Settlement:
    assert isinstance(result, Settled), result
    return result.settlement


def kinds(house: House, delivery: str = "one") -> list[str]:
    with open_reader(delivery_layout(house.state, DeliveryId(delivery))) as reader:
        return [record.event.KIND for record in reader.read()]


async def die(house: House, point: str) -> None:
    house.world.die_at = point
    with pytest.raises(DiedError):
        await house.coordinator().execute(house.activation())
    house.world.die_at = ""


async def test_the_whole_way(house: House) -> None:
    """Accepted, driven, preserved, published, retired by all four, settled; the lease is gone, every effect was one."""
    settlement = settled(await house.coordinator().execute(house.activation()))
    assert (settlement.outcome, settlement.reason) == (Outcome.COMPLETED, Reason.ALL_STEPS_FINISHED)
    assert settlement.publication.disposition == "published"
    assert [r.owner for r in settlement.retirements] == ["host", "invocation", "custody", "coordinator"]
    assert len({r.authorization for r in settlement.retirements}) == 1
    assert kinds(house)[0] == "delivery.accepted"
    assert kinds(house)[-11:] == [
        "step.completed",
        "terminal.proposed",
        "result.preserved",
        "publication.asked",
        "publication.known",
        "retirement.authorized",
        *["owner.retired"] * 4,
        "delivery.settled",
    ]
    assert set(house.world.effects.values()) == {1}
    assert [path.name for path in leases_dir(house.state).iterdir()] == [".lock"]


async def test_a_settled_delivery_is_replayed(house: House) -> None:
    """The same activation, as a value or as bytes, in the same or another process, under whatever configuration: the
    same bytes and nothing else."""
    coordinator = house.coordinator()
    first = settled(await coordinator.execute(house.activation()))
    records, points, checked = kinds(house), list(house.world.points), house.world.checked
    house.meaning = freeze({"engine": "another"})
    for again in (coordinator, house.coordinator()):
        for document in (house.activation(), canonical(house.activation().to_json())):
            assert settled(await again.execute(document)).to_bytes() == first.to_bytes()
    assert (kinds(house), house.world.points, house.world.checked) == (records, points, checked)


async def test_another_activation_under_the_same_id(house: House) -> None:
    """A correlation error before any effect, whether the Delivery is open or settled."""
    await die(house, "host.plan")
    for _ in range(2):
        records = kinds(house)
        with pytest.raises(CallerError) as caught:
            await house.coordinator().execute(house.activation(say="other"))
        assert caught.value.code is Code.CORRELATION_MISMATCH
        assert kinds(house) == records
        settled(await house.coordinator().execute(house.activation()))


async def test_another_meaning_is_refused_with_the_differences(house: House) -> None:
    """An open Delivery goes on only under the configuration that accepted it; the refusal names each field."""
    await die(house, "host.plan")
    stored, house.meaning = house.meaning, freeze({"engine": "langgraph", "isolation": "bwrap", "providers": {}})
    with pytest.raises(CallerError) as caught:
        await house.coordinator().execute(house.activation())
    assert caught.value.code is Code.MEANING_CHANGED
    assert [finding.place for finding in caught.value.findings] == ["isolation", "providers.fake"]
    house.meaning = stored
    settled(await house.coordinator().execute(house.activation()))


async def test_an_uncertain_effect_is_never_repeated(house: House) -> None:
    """An outside effect without an answer: the host is not driven again, the question is recorded once, and a cancel
    waits for the same answer."""

    async def dies(host: FakeHost) -> Boundary:
        host.writer.append(Draft(event=events.StepScheduled(), step=A), started(A))
        host.case.ledger.writer("invocation").append(tool_called(A, "external"))
        raise DiedError

    house.world.script = dies
    with pytest.raises(DiedError):
        await house.coordinator().execute(house.activation())
    for _ in range(2):
        asked = await house.coordinator().execute(house.activation())
        assert isinstance(asked, NeedsIntervention)
        assert [(e.step, e.call) for e in asked.effects] == [(A.key, "c1")]
    assert kinds(house).count("intervention.needed") == 1
    assert (await house.coordinator().inspect(DeliveryId("one"))).phase == "needs-intervention"
    assert (await house.coordinator().cancel(DeliveryId("one"))).disposition == "requested"
    assert house.world.points.count("host.drive") == 1


async def test_an_open_attempt_without_outside_effects_goes_on(house: House) -> None:
    """A workspace effect without an answer restarts with the host, without a person."""

    async def dies(host: FakeHost) -> Boundary:
        step = StepRef(site=SiteId("plan"))
        host.writer.append(Draft(event=events.StepScheduled(), step=step), started(step))
        host.case.ledger.writer("invocation").append(tool_called(step, "workspace"))
        raise DiedError

    house.world.script = dies
    with pytest.raises(DiedError):
        await house.coordinator().execute(house.activation())
    house.world.script = None
    settled(await house.coordinator().execute(house.activation()))


async def test_suspended_and_intervention_boundaries(house: House) -> None:
    """The host's reasons reach the caller, the Delivery stays open, and the next execute goes on."""

    async def suspend(host: FakeHost) -> Boundary:
        return HostSuspended(reason="quota", detail="try later", step=A, resume_in_s=90)

    async def ask(host: FakeHost) -> Boundary:
        return HostIntervention(reason="foreign-edit", detail="x.py", step=A)

    house.world.script = suspend
    result = await house.coordinator().execute(house.activation())
    assert isinstance(result, Suspended)
    assert (result.reason, result.step, result.not_before) == ("quota", A, "2026-03-01T12:01:30Z")
    assert (await house.coordinator().inspect(result.delivery)).phase == "suspended"
    house.world.script = ask
    for _ in range(2):
        asked = await house.coordinator().execute(house.activation(), early=True)
        assert isinstance(asked, NeedsIntervention)
        assert (asked.reason, asked.detail) == ("foreign-edit", "a: x.py")
    assert kinds(house).count("intervention.needed") == 1
    house.world.script = None
    settled(await house.coordinator().execute(house.activation()))


async def test_what_a_provider_holds_against_a_completion(house: House) -> None:
    """Findings at the end make it a failure that asks for no publication."""
    house.world.findings = (Finding(place="fixture", problem="unused", fix=""),)
    settlement = settled(await house.coordinator().execute(house.activation()))
    assert (settlement.outcome, settlement.reason) == (Outcome.FAILED, Reason.RECORDING_UNUSED)
    assert settlement.publication.disposition == "not-requested"
    assert settlement.output is None


async def test_a_conflict_is_known_and_settles(house: House) -> None:
    """Completed, with a publication that did not move the ref."""
    house.world.conflict = True
    settlement = settled(await house.coordinator().execute(house.activation()))
    assert (settlement.outcome, settlement.publication.disposition) == (Outcome.COMPLETED, "conflict")


async def test_stop_at_the_next_boundary(house: House) -> None:
    """stop() from another thread ends the drive with Interrupted; an execute after it is not asked to stop."""
    coordinator = house.coordinator()

    async def stops(host: FakeHost) -> Boundary:
        await asyncio.to_thread(coordinator.stop)
        await host.woken.wait()
        return await host.work()

    house.world.script = stops
    assert isinstance(await coordinator.execute(house.activation()), Interrupted)
    house.world.script = None
    settled(await coordinator.execute(house.activation()))


async def test_after_it_was_closed(house: House) -> None:
    """The Runner of a context that has ended executes nothing, and says so."""
    coordinator = house.coordinator()
    await coordinator.close()
    with pytest.raises(CallerError, match="closed") as caught:
        await coordinator.execute(house.activation())
    assert caught.value.code is Code.USAGE and not house.state.exists()


async def test_stop_before_the_host_exists(house: House) -> None:
    """Asked while the rooms are being built, nothing is driven."""
    coordinator = house.coordinator()
    house.world.on_rooms = lambda case: coordinator.stop()
    assert isinstance(await coordinator.execute(house.activation()), Interrupted)
    assert "host.drive" not in house.world.points


async def test_a_cancelled_task_frees_the_fence(house: House) -> None:
    """The host has ended, the rooms are closed, the Delivery is open, and the cancellation travels on - also when the
    caller is cancelled again during the cleanup."""
    seen: list[str] = []
    driving = asyncio.Event()

    async def hangs(host: FakeHost) -> Boundary:
        driving.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append("cleaned up")
        raise AssertionError

    house.world.script = hangs
    task = asyncio.create_task(house.coordinator().execute(house.activation()))
    await driving.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cleaned up"]
    assert house.world.effects["rooms closed"] == 1
    house.world.script = None
    settled(await house.coordinator().execute(house.activation()))


async def test_a_room_that_records_nothing_is_noticed(house: House) -> None:
    """An owner that does not record its fact stops the Delivery instead of being asked for ever."""
    house.world.forgetful = True
    with pytest.raises(IntegrityError, match="retire-host") as caught:
        await house.coordinator().execute(house.activation())
    assert caught.value.code is Code.LEDGER_ORDER


async def test_a_driver_that_was_overtaken_stops(house: House) -> None:
    """When the ledger belongs to another generation, the drive ends with fence-lost and appends nothing more."""
    from runner.ledger import create_or_open

    async def overtaken(host: FakeHost) -> Boundary:
        create_or_open(host.case.layout, clock=house.clock).close()
        return await host.work()

    house.world.script = overtaken
    with pytest.raises(EnvironmentFault) as caught:
        await house.coordinator().execute(house.activation())
    assert caught.value.code is Code.FENCE_LOST
    assert kinds(house)[-1] == "savepoint.taken"
