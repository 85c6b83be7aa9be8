"""A step's time: over all lives of an attempt, but not while a person is asked."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runner.contract.ids import DeliveryId
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Answer, Completed, Deferred, Disposition, Failed
from runner.invocation.history import read_past
from runner.invocation.timing import GOES_ON_S, AttemptTime
from tests.invocation.conftest import Make
from tests.invocation.fakes import AGENT, Delivery, asks, completes, fails
from tests.invocation.test_interaction import QUESTION

DONE = Completed(value=None)


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time a test moves on."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def run(work: Callable[[Loop], Coroutine[Any, Any, Disposition]]) -> Disposition:
    loop = Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work(loop))


async def let_timers_fire() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def hang() -> None:
    await asyncio.Event().wait()


async def test_a_call_that_takes_too_long_ends_the_attempt(make: Make) -> None:
    """Everything of it has ended; it is the step's failure, not the endpoint's."""
    delivery = make()
    delivery.script.turns = [[hang]]
    delivery.clock.endless = False
    said = await delivery.invocation.invoke(delivery.dispatch(timeout_s=0.01))
    assert isinstance(said, Failed)
    assert (said.code, said.suspend_s, said.message) == ("step-timeout", None, "did not finish within 0.01 s")
    assert delivery.script.closed == 1


@pytest.mark.parametrize(
    ("limit_s", "used_s", "passes_s", "ends"),
    [
        (None, 1e9, 1e9, False),
        (100.0, 0.0, 99.0, False),
        (100.0, 0.0, 101.0, True),
        (100.0, 40.0, 59.0, False),
        (100.0, 40.0, 61.0, True),
        (100.0, 500.0, GOES_ON_S - 1, False),
        (100.0, 500.0, GOES_ON_S + 1, True),
        (1.0, 0.5, 1.1, True),
    ],
)
def test_what_earlier_lives_used_is_not_given_again(
    limit_s: float | None, used_s: float, passes_s: float, ends: bool
) -> None:
    """But enough to go through what they recorded."""

    async def work(loop: Loop) -> Disposition:
        async def pass_time() -> Disposition:
            loop.ahead += passes_s
            await let_timers_fire()
            return DONE

        return await AttemptTime(limit_s, used_s).bound(pass_time())

    said = run(work)
    assert isinstance(said, Failed) is ends


@pytest.mark.parametrize(("after_s", "ends"), [(99.0, False), (101.0, True)])
def test_it_stands_still(after_s: float, ends: bool) -> None:
    """And goes on where it stood."""

    async def work(loop: Loop) -> Disposition:
        time = AttemptTime(100.0, 0.0)

        async def ask() -> Disposition:
            with time.standing_still():
                loop.ahead += 1e6
                await let_timers_fire()
            loop.ahead += after_s
            await let_timers_fire()
            return DONE

        return await time.bound(ask())

    assert isinstance(run(work), Failed) is ends


async def test_another_timeout_is_not_taken_for_it() -> None:
    """Whoever raises one inside."""

    async def broken() -> Disposition:
        raise TimeoutError("elsewhere")

    with pytest.raises(TimeoutError, match="elsewhere"):
        await AttemptTime(100.0, 0.0).bound(broken())


class Days:
    """Somebody who thinks for days."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer | Deferred:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        loop.ahead += 1e6
        self.delivery.clock.time += 1e6
        await let_timers_fire()
        return Answer(value="blue", who="p")


def test_a_person_takes_none_of_it(make: Make) -> None:
    """Neither of this life's time nor of what a later one finds used."""
    delivery = make()
    delivery.actions["code"] = AGENT.model_copy(update={"asks": True})
    delivery.bridge = Days(delivery)
    delivery.again()
    delivery.script.turns = [asks(QUESTION), completes()]
    assert isinstance(run(lambda _: delivery.invocation.invoke(delivery.dispatch(timeout_s=100.0))), Completed)
    assert read_past(delivery.ledger, delivery.dispatch().step, 1).used_s < 1.0


def test_what_a_life_used(make: Make) -> None:
    """Answered calls, failed calls and tools; not the pauses between tries. It is what the next life goes on with."""
    delivery = make()

    def takes(seconds: float) -> Callable[[], Coroutine[Any, Any, None]]:
        async def take() -> None:
            delivery.clock.time += seconds

        return take

    delivery.script.turns = [[takes(30.0), *asks(("list", {}))], *[[takes(5.0), *fails(http_status=500)]] * 3]
    said = run(lambda _: delivery.invocation.invoke(delivery.dispatch(timeout_s=50.0)))
    assert isinstance(said, Failed)
    assert said.suspend_s is not None
    assert read_past(delivery.ledger, delivery.dispatch().step, 1).used_s == 45.0
    delivery.again()

    async def too_long() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        loop.ahead += 6.0
        await let_timers_fire()

    delivery.script.turns = [[too_long, *completes()]]
    said = run(lambda _: delivery.invocation.invoke(delivery.dispatch(timeout_s=50.0)))
    assert isinstance(said, Failed)
    assert said.code == "step-timeout"
