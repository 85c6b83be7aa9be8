"""What the coordinator may ask: the providers' verdict at the end, and retirement, once."""

import pytest

from runner.contract.canonical import digest
from runner.contract.errors import Code, Finding, IntegrityError
from runner.contract.events import OwnerRetired, RetirementAuthorized, ToolCalled, ToolFailed
from runner.contract.ids import SiteId, StepRef
from runner.contract.ports import Completed, Uncertain
from runner.contract.records import Draft
from tests.invocation.conftest import Make
from tests.invocation.fakes import GENERATE, completes, executor, fails

ONE, TWO = digest("one"), digest("two")


async def test_the_providers_are_asked_about_the_calls_of_the_ledger(make: Make) -> None:
    """By role, also when another process made them; roles that share a binding are asked about together."""
    delivery = make()
    delivery.actions["other"] = GENERATE.model_copy(update={"executor": "second"})
    delivery.actions["never"] = GENERATE.model_copy(update={"executor": "third"})
    roles = ("coder", "second", "third")
    delivery.executors = tuple(
        executor(delivery.factory, role, **({"model": "own"} if role == "third" else {})) for role in roles
    )
    delivery.ledger.close()
    delivery.open()
    delivery.script.turns = [fails(http_status=500), completes(), completes()]
    await delivery.invocation.invoke(delivery.dispatch("code"))
    await delivery.invocation.invoke(delivery.dispatch("other"))
    delivery.ledger.close()
    delivery.open()
    delivery.script.findings = (Finding(place="f:2", problem="was not asked for", fix=""),)
    assert len(await delivery.invocation.conclude()) == 2
    assert delivery.script.asked == [("coder", frozenset({("code@1", 1), ("other@1", 1)})), ("third", frozenset())]


async def test_a_provider_that_was_never_called_is_not_started_to_be_asked(make: Make) -> None:
    """Nothing to hold against nothing."""
    delivery = make()
    assert await delivery.invocation.conclude() == ()
    assert delivery.factory.started == 0


async def test_retirement_is_recorded_once_and_replays(make: Make) -> None:
    """The same authorization gives the same fact, in any process; realms stay."""
    delivery = make()
    fact = await delivery.invocation.retire(ONE)
    assert (fact.owner, fact.authorization) == ("invocation", ONE)
    delivery.ledger.close()
    delivery.open()
    assert await delivery.invocation.retire(ONE) == fact
    assert [r.event for r in delivery.records()] == [OwnerRetired(retirement=fact)]
    assert delivery.script.realms_closed == []


async def test_another_authorization_is_refused(make: Make) -> None:
    """Whether it differs from the one that retired or from the one that was issued."""
    delivery = make()
    delivery.ledger.writer("coordinator").append(Draft(event=RetirementAuthorized(authorization=ONE)))
    for _ in range(2):
        with pytest.raises(IntegrityError) as caught:
            await delivery.invocation.retire(TWO)
        assert caught.value.code is Code.AUTHORIZATION_FOREIGN
        await delivery.invocation.retire(ONE)


async def test_an_outside_effect_without_a_recorded_end_is_uncertain(make: Make) -> None:
    """It is not repeated and not guessed; once its end is recorded, the step goes on."""
    delivery = make()
    step = StepRef(site=SiteId("code"))
    writer = delivery.ledger.writer("invocation")
    ref = delivery.ledger.artifacts.put(None)
    called = ToolCalled(call="code@1/1/t1", tool="mail", caller="model", effect="external", key=ONE, input=ref)
    writer.append(Draft(event=called, step=step, attempt=1))
    disposition = await delivery.invocation.invoke(delivery.dispatch())
    assert isinstance(disposition, Uncertain)
    assert disposition.call == "code@1/1/t1"
    assert delivery.factory.started == 0
    failed = ToolFailed(call=called.call, message="bounced")
    writer.append(Draft(event=failed, step=step, attempt=1))
    delivery.script.turns = [completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)
