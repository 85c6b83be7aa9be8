"""resolve: what a person says of an uncertain effect or of an edited worktree, and what comes of it."""

import pytest

from runner.contract import events
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code
from runner.contract.outcomes import ExecuteResult, NeedsIntervention, Outcome, Reason
from runner.contract.ports import Boundary, HostIntervention
from runner.contract.records import Draft
from tests.coordinator.asking import ONE, A, begin, layout, leave_uncertain, post, recorded, resolve
from tests.coordinator.fakes import BASE, TREE, DiedError, FakeHost, House, completed
from tests.coordinator.test_execute import kinds, settled


async def execute(house: House) -> ExecuteResult:
    return await house.coordinator().execute(house.activation())


async def finish(host: FakeHost) -> Boundary:
    """Ends the step that was left open, then does the rest."""
    if A in host.case.ledger.open_steps():
        host.writer.append(completed(A))
    return await host.work()


def refused(house: House, call: str, said: str, value: FrozenJson = None) -> Code:
    with pytest.raises(CallerError) as caught:
        resolve(house, call, said, value)
    assert caught.value.remedy
    return caught.value.code


async def test_happened(house: House) -> None:
    """Its value is the call's result from now on; the host is driven, and who said it stands beside it."""
    await leave_uncertain(house, "c1")
    resolve(house, "c1", "happened", {"id": 7}, who="ann")
    house.world.script = finish
    assert settled(await execute(house)).outcome is Outcome.COMPLETED
    (record,) = recorded(house, events.InterventionResolved)
    assert (record.step, record.attempt) == (A, 1)
    event = record.event
    assert isinstance(event, events.InterventionResolved)
    assert (event.call, event.resolution, event.who) == ("c1", "happened", "ann")
    assert event.value is not None
    assert event.value.inline == '{"id":7}'


async def test_did_not_happen(house: House) -> None:
    """The effect may run again; dying in it again, it is asked for again."""
    await leave_uncertain(house, "c1")
    resolve(house, "c1", "did-not-happen")
    await leave_uncertain(house, "c1")
    assert isinstance(await execute(house), NeedsIntervention)
    resolve(house, "c1", "did-not-happen")
    house.world.script = finish
    assert settled(await execute(house)).outcome is Outcome.COMPLETED
    assert len(recorded(house, events.InterventionResolved)) == 2


async def test_abandon(house: House) -> None:
    """Failed with the call in the detail, settled like any other end, with the host told to put everything back."""
    await leave_uncertain(house, "c1", "c2")
    resolve(house, "c1", "abandon")
    reasons: list[Reason | None] = []

    async def ends(host: FakeHost) -> Boundary:
        reasons.append(host.cancelled)
        return await finish(host)

    house.world.script = ends
    settlement = settled(await execute(house))
    assert reasons == [Reason.ABANDONED]
    assert (settlement.outcome, settlement.reason, settlement.step) == (Outcome.FAILED, Reason.ABANDONED, "a@1")
    assert "c1" in (await house.coordinator().inspect(ONE)).detail
    assert settlement.publication.disposition == "not-requested"


async def test_abandon_after_a_cancel(house: House) -> None:
    """A cancel does not make an effect known; given up, the Delivery converges to what was asked first."""
    await leave_uncertain(house, "c1")
    assert (await house.coordinator().cancel(ONE)).disposition == "requested"
    assert isinstance(await execute(house), NeedsIntervention)
    resolve(house, "c1", "abandon")
    house.world.script = finish
    settlement = settled(await execute(house))
    assert (settlement.outcome, settlement.reason) == (Outcome.CANCELLED, Reason.CANCEL_REQUESTED)


async def test_an_abandonment_survives_a_death(house: House) -> None:
    """Killed after it was recorded, the next execute fails the Delivery although nobody says it again."""
    await leave_uncertain(house, "c1")
    resolve(house, "c1", "abandon")
    house.world.die_at = "host.drive"
    with pytest.raises(DiedError):
        await execute(house)
    house.world.die_at, house.world.script = "", finish
    assert settled(await execute(house)).reason is Reason.ABANDONED


async def test_one_of_two(house: House) -> None:
    """The other one is still asked for, and inspect names only that."""
    await leave_uncertain(house, "c1", "c2")
    resolve(house, "c1", "did-not-happen")
    asked = await execute(house)
    assert isinstance(asked, NeedsIntervention)
    assert [effect.call for effect in asked.effects] == ["c2"]
    state = await house.coordinator().inspect(ONE)
    assert (state.phase, [effect.call for effect in state.uncertain]) == ("needs-intervention", ["c2"])
    resolve(house, "c2", "did-not-happen")
    house.world.script = finish
    settled(await execute(house))


async def test_said_twice(house: House) -> None:
    """The same twice counts once; something else is refused, naming what was said before."""
    await leave_uncertain(house, "c1")
    resolve(house, "c1", "did-not-happen", who="ann")
    resolve(house, "c1", "did-not-happen", who="bob")
    with pytest.raises(CallerError, match="did-not-happen") as caught:
        resolve(house, "c1", "abandon")
    assert caught.value.code is Code.ANSWER_INVALID
    post(house, "other id", "resolution", '{"call":"c1","resolution":"abandon","value":null}')
    house.world.script = finish
    assert settled(await execute(house)).outcome is Outcome.COMPLETED
    (record,) = recorded(house, events.InterventionResolved)
    assert isinstance(record.event, events.InterventionResolved)
    assert record.event.who == "ann"


async def test_what_does_not_fit(house: House) -> None:
    """Refused before it is left: an unknown call, a word that says nothing, a result that is none, another kind."""
    await leave_uncertain(house, "c1")
    assert refused(house, "c2", "did-not-happen") is Code.CALL_UNKNOWN
    assert refused(house, "c1", "maybe") is Code.ANSWER_INVALID
    assert refused(house, "c1", "adopt") is Code.ANSWER_INVALID
    assert refused(house, "c1", "happened") is Code.ANSWER_INVALID
    assert refused(house, "", "adopt") is Code.CALL_UNKNOWN
    assert isinstance(await execute(house), NeedsIntervention)
    assert recorded(house, events.InterventionResolved) == []


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"call":1,"resolution":"abandon","value":null}', '{"call":"c1"}', "\x00", "[" * 10_000]
)
async def test_what_nobody_meant(house: House, body: str) -> None:
    """An item that is not a resolution is taken and becomes nothing."""
    await leave_uncertain(house, "c1")
    post(house, "x", "resolution", body)
    assert isinstance(await execute(house), NeedsIntervention)
    with pytest.raises(AssertionError):
        settled(await execute(house))
    assert recorded(house, events.InterventionResolved) == []


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (0, {"status": 0, "stdout": "", "stderr": ""}),
        ({"exit": 3, "stdout": "x"}, {"status": 3, "stdout": "x", "stderr": ""}),
        ("done", None),
        (True, None),
        (256, None),
        ({"stdout": "x"}, None),
    ],
)
async def test_how_a_command_ended(house: House, value: FrozenJson, stored: dict[str, object] | None) -> None:
    """A command's result is given as its exit status, or with what it printed; it is kept as the command keeps it."""

    async def dies(host: FakeHost) -> Boundary:
        await begin(host)
        called = {"call": "a@1/1/t1", "tool": "command", "caller": "workflow", "effect": "external"}
        put = host.case.ledger.artifacts.put({"argv": ("x",)})
        event = events.ToolCalled.model_validate({**called, "key": put.digest, "input": put})
        host.case.ledger.writer("operations").append(Draft(event=event, step=A, attempt=1))
        raise DiedError

    house.world.script = dies
    with pytest.raises(DiedError):
        await execute(house)
    if stored is None:
        assert refused(house, "a@1/1/t1", "happened", value) is Code.ANSWER_INVALID
        return
    resolve(house, "a@1/1/t1", "happened", value)
    house.world.script = finish
    settled(await execute(house))
    (record,) = recorded(house, events.InterventionResolved)
    assert isinstance(record.event, events.InterventionResolved)
    assert record.event.value is not None
    assert record.event.value.inline == {"end": "exit", "truncated": False, "message": "", **stored}


async def test_a_live_driver_has_nothing_uncertain(house: House) -> None:
    """What it began is in flight: a resolution is refused, and one that was left all the same becomes nothing."""
    codes: list[Code] = []

    async def works(host: FakeHost) -> Boundary:
        await begin(host, "c1")
        codes.append(refused(house, "c1", "did-not-happen"))
        post(house, "x", "resolution", '{"call":"c1","resolution":"abandon","value":null}')
        post(house, "cancel", "cancel", "")
        await host.woken.wait()
        event = events.ToolFailed(call="c1", message="cancelled")
        host.case.ledger.writer("invocation").append(Draft(event=event, step=A, attempt=1))
        return await finish(host)

    house.world.script = works
    assert settled(await execute(house)).outcome is Outcome.CANCELLED
    assert codes == [Code.CALL_UNKNOWN]
    assert recorded(house, events.InterventionResolved) == []


@pytest.mark.parametrize("said", ["adopt", "discard"])
async def test_an_edited_worktree(house: House, said: str) -> None:
    """The host asks; what a person decides is recorded without a step, and the host is driven again - also when it is said
    while the host still comes to rest."""

    async def asks(host: FakeHost) -> Boundary:
        if host.case.ledger.last(frozenset({events.InterventionResolved.KIND})):
            return await host.work()
        event = events.SavepointTaken(savepoint=TREE, tree=TREE, role="foreign")
        host.case.ledger.writer("custody").stage(Draft(event=event))
        return HostIntervention(reason="foreign-edit", detail="x.py", step=A)

    house.world.script = asks
    assert isinstance(await execute(house), NeedsIntervention)
    assert refused(house, "c1", "abandon") is Code.CALL_UNKNOWN
    assert refused(house, "", "happened", 1) is Code.ANSWER_INVALID
    resolve(house, "", said)
    settled(await execute(house))
    (record,) = recorded(house, events.InterventionResolved)
    assert isinstance(record.event, events.InterventionResolved)
    assert (record.step, record.event.call, record.event.resolution) == (None, "", said)
    assert BASE != TREE
    assert layout(house).ledger.exists()


async def test_inspect_knows_before_the_next_driver_says_so(house: House) -> None:
    """Its driver was killed in an effect: needs-intervention, with call, tool, input, key and time."""
    await leave_uncertain(house, "c1")
    assert "intervention.needed" not in kinds(house)
    state = await house.coordinator().inspect(ONE)
    assert state.phase == "needs-intervention"
    (effect,) = state.uncertain
    assert (effect.step, effect.call, effect.tool, effect.input_text) == ("a@1", "c1", "mail", '{"to":"somebody"}')
    assert effect.since.endswith("Z")
    assert "c1" in state.detail
