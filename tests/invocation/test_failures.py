"""Failed calls: tried again, suspended, failed, or cancelled; never rounded to an answer."""

import asyncio
from typing import Any

import httpx
import pytest

from runner.contract.errors import CallerError, Code, EnvironmentFault, ProviderError
from runner.contract.events import ModelResponded, SessionFailed
from runner.contract.ports import Completed, Failed
from runner.contract.provider import ToolRequest, TurnEnded
from tests.invocation.conftest import Make
from tests.invocation.fakes import Delivery, asks, completes, fails, response, says


def failures(delivery: Delivery) -> list[Any]:
    events = [r.event for r in delivery.records() if isinstance(r.event, ModelResponded)]
    return [e.failure and e.failure["class"] for e in events]


async def failed(delivery: Delivery, **changes: Any) -> Failed:
    disposition = await delivery.invocation.invoke(delivery.dispatch(**changes))
    assert isinstance(disposition, Failed), disposition
    return disposition


async def test_a_transient_failure_retries_the_call_and_not_the_step(make: Make) -> None:
    """The same turn under the same call id, after a growing pause; what tools did before stays done."""
    delivery = make()
    delivery.script.turns = [
        asks(("write", {"path": "a", "content": "x"})),
        fails(exception="httpx.ReadTimeout"),
        fails(http_status=502),
        completes(),
    ]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)
    assert failures(delivery) == [None, "transient", "transient", None]
    assert delivery.clock.slept == [1.0, 2.0]
    assert delivery.kinds().count("tool.called") == 1
    assert [r.event.call for r in delivery.records() if isinstance(r.event, ModelResponded)] == [
        "code@1/1/m1",
        "code@1/1/m2",
        "code@1/1/m2",
        "code@1/1/m2",
    ]
    assert delivery.script.heard[1] == delivery.script.heard[2] == delivery.script.heard[3]


async def test_tries_are_bounded_for_each_turn(make: Make) -> None:
    """After the last one the failure is the answer, and says when the step is worth another."""
    delivery = make()
    delivery.script.turns = [fails(http_status=500, message="upstream") for _ in range(5)]
    answer = await failed(delivery)
    assert (answer.code, answer.retriable, answer.suspend_s) == ("transient", True, 60.0)
    assert "tried 3 times" in answer.message
    assert "upstream" in answer.message
    assert len(delivery.script.sent) == 3
    assert delivery.kinds()[-1] == "session.failed"


async def test_a_suspended_call_is_tried_once_by_each_life(make: Make) -> None:
    """Its tries are spent: a later execute calls once and suspends again, until somebody answers."""
    delivery = make()
    delivery.script.turns = [fails(http_status=500) for _ in range(5)] + [completes()]
    await failed(delivery)
    for sent in (4, 5):
        delivery.again()
        again = await failed(delivery)
        assert (again.suspend_s, len(delivery.script.sent)) == (60.0, sent)
    delivery.again()
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)


DEAD: dict[str, dict[str, Any]] = {
    "connection refused": {"exception": "builtins.ConnectionRefusedError"},
    "unknown host": {"exception": "socket.gaierror"},
    "silence": {"error_code": "timeout"},
    "server error": {"http_status": 502},
    "overload": {"http_status": 503},
    "rate limit": {"http_status": 429},
    "key refused": {"http_status": 401},
    "quota spent": {"http_status": 402},
    "key unreadable": {"exception": "runner.contract.errors.CallerError", "error_code": "secret-unreadable"},
}


@pytest.mark.parametrize("cause", DEAD)
async def test_a_dead_endpoint_suspends_in_the_middle_of_the_work(make: Make, cause: str) -> None:
    """Whatever turn it is, and without hanging: nothing that was done is lost, the attempt goes on where it was."""
    delivery = make()
    delivery.script.turns = [asks(("write", {"path": "a", "content": "x"})), *[fails(**DEAD[cause])] * 3]
    answer = await failed(delivery, grant=delivery.grant(delivery.dispatch().step))
    assert answer.suspend_s is not None
    assert answer.suspend_s >= 60.0
    assert sum(delivery.clock.slept) < 10.0
    delivery.again()
    delivery.script.turns = [completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)
    assert delivery.kinds().count("tool.called") == 1


@pytest.mark.parametrize(
    "signals", [{"http_status": 400}, {"http_status": 404}, {"error_code": "context_length_exceeded"}]
)
async def test_what_the_request_caused_fails(make: Make, signals: dict[str, Any]) -> None:
    """Waiting would not mend it."""
    delivery = make()
    delivery.script.turns = [fails(**signals)]
    assert (await failed(delivery)).suspend_s is None


async def test_retry_after_is_honoured_and_shared(make: Make) -> None:
    """The pause is at least what was asked for, and everything that uses the realm keeps it."""
    delivery = make()
    delivery.script.turns = [fails(http_status=429, retry_after_s=17.5), completes(), completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    assert delivery.clock.slept == [17.5]
    delivery.registry.gate("fake").close_for(5.0, delivery.clock.monotonic())
    await delivery.invocation.invoke(delivery.dispatch("ask"))
    assert delivery.clock.slept == [17.5, 5.0]


async def test_too_long_a_pause_suspends_instead_of_waiting(make: Make) -> None:
    """An hour is not slept through."""
    delivery = make()
    delivery.script.turns = [fails(http_status=503, retry_after_s=3_600.0)]
    answer = await failed(delivery)
    assert answer.suspend_s == 3_600.0
    assert delivery.clock.slept == []


async def test_an_exhausted_rate_limit_at_the_start_suspends(make: Make) -> None:
    """A provider that backs off does not fail hours of work."""
    delivery = make()
    delivery.script.turns = [fails(http_status=429) for _ in range(3)]
    answer = await failed(delivery)
    assert (answer.code, answer.retriable, answer.suspend_s) == ("rate-limit", True, 60.0)


@pytest.mark.parametrize("turn", [[response("half")], [], [ToolRequest(id="c", name="list", arguments={})]])
async def test_a_stream_that_broke_off_is_a_failure(make: Make, turn: list[Any]) -> None:
    """Without the end of the turn nothing of it counts; no tool of it is run."""
    delivery = make()
    delivery.script.turns = [turn, completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)
    assert "tool.called" not in delivery.kinds()
    assert len(delivery.script.sent) == 2


@pytest.mark.parametrize(("finish", "code"), [("length", "limit"), ("content_filter", "refusal")])
async def test_an_answer_that_was_cut_off_is_not_taken(make: Make, finish: str, code: str) -> None:
    """Even if what came happens to fit."""
    delivery = make()
    delivery.script.turns = [[*completes()[:-1], TurnEnded(finish=finish)]]
    assert (await failed(delivery)).code == code


async def test_an_exception_that_escapes_the_adapter_is_a_failed_call(make: Make) -> None:
    """Known types are classified, unknown ones fail the step; its text, which nobody vouched for, is not kept."""
    delivery = make()
    delivery.script.turns = [[httpx.ReadTimeout("t")], [RuntimeError("sk-unknown-secret")]]
    answer = await failed(delivery)
    assert failures(delivery) == ["transient", "unknown"]
    assert answer.code == "unknown"
    assert "RuntimeError" in answer.message
    assert "sk-unknown-secret" not in str(delivery.records())


async def test_what_is_not_json_is_a_protocol_failure(make: Make) -> None:
    """An adapter's slip does not end the Runner."""
    delivery = make()
    delivery.script.turns = [[ToolRequest(id="c", name="list", arguments=float("nan")), TurnEnded(finish="x")]]
    assert (await failed(delivery)).code == "protocol"


async def test_a_refusal_of_our_own_keeps_its_code(make: Make) -> None:
    """A recording's miss is not tried again and names itself."""
    delivery = make()
    delivery.script.turns = [[ProviderError(Code.RECORDING_MISS, "turn 1 was not recorded", remedy="record it")]]
    answer = await failed(delivery)
    assert (answer.code, answer.retriable, answer.suspend_s) == ("recording-miss", False, None)
    assert "record it" in answer.message
    assert len(delivery.script.sent) == 1
    assert delivery.kinds()[-2:] == ["model.responded", "session.failed"]


@pytest.mark.parametrize(
    ("error", "code", "suspend_s"),
    [
        (ProviderError(Code.PROVIDER_START_FAILED, "no"), "provider-start-failed", 60.0),
        (CallerError(Code.SECRET_UNREADABLE, "no"), "secret-unreadable", 300.0),
        (ProviderError(Code.PROVIDER_NOT_IMPLEMENTED, "no"), "provider-not-implemented", None),
        (OSError("no"), "provider-start-failed", 60.0),
    ],
)
async def test_a_provider_that_does_not_start(make: Make, error: Exception, code: str, suspend_s: float | None) -> None:
    """Nothing was done: what time or a person can mend suspends; a later try starts it."""
    delivery = make(start_errors=[error])
    delivery.script.turns = [completes()]
    answer = await failed(delivery)
    assert (answer.code, answer.suspend_s) == (code, suspend_s)
    assert delivery.kinds() == []
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)


async def test_a_fault_of_the_machine_is_raised(make: Make) -> None:
    """The Delivery stays open; the session is closed."""
    delivery = make()
    delivery.script.turns = [[EnvironmentFault(Code.DISK_FULL, "no space")]]
    with pytest.raises(EnvironmentFault):
        await delivery.invocation.invoke(delivery.dispatch())
    assert delivery.script.closed == 1
    assert "session.failed" not in delivery.kinds()


async def cancelled_at(delivery: Delivery, at: asyncio.Event) -> None:
    task = asyncio.create_task(delivery.invocation.invoke(delivery.dispatch()))
    await at.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_in_a_call_that_never_answers(make: Make) -> None:
    """The session is closed, the cancellation travels on, and the ledger says what is known: an intent, no result."""
    delivery, reached = make(), asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    delivery.script.turns = [[hang]]
    await cancelled_at(delivery, reached)
    assert delivery.kinds() == ["session.started", "model.called"]
    assert delivery.script.closed == 1
    assert delivery.clock.slept == [5.0]


async def test_cancelled_in_a_call_that_answers_in_time(make: Make) -> None:
    """The answer was paid for and is journaled; nothing new starts."""
    delivery, reached = make(), asyncio.Event()

    async def soon() -> None:
        reached.set()

    delivery.clock.endless = True
    delivery.script.turns = [[soon, *asks(("write", {"path": "a", "content": "x"}))], completes()]
    await cancelled_at(delivery, reached)
    assert delivery.kinds() == ["session.started", "model.called", "model.responded"]
    assert list(delivery.worktree.iterdir()) == []
    assert delivery.script.closed == 1


async def test_cancelled_while_it_waits_to_try_again(make: Make) -> None:
    """A pause is no reason to stay."""
    delivery = make()
    delivery.clock.endless = True
    delivery.script.turns = [fails(http_status=503), completes()]
    await cancelled_at(delivery, delivery.clock.sleeping)
    assert len(delivery.script.sent) == 1
    assert delivery.script.closed == 1


async def test_an_intent_without_json_never_leaves(make: Make) -> None:
    """The request must have one canonical form before it is sent."""
    delivery = make()
    delivery.script.odd_request = True
    delivery.script.turns = [completes()]
    assert (await failed(delivery)).code == "protocol"
    assert delivery.kinds() == ["session.started", "session.failed"]
    assert delivery.script.sent == []


async def test_session_failure_is_recorded_with_its_code(make: Make) -> None:
    """So that inspect can say why."""
    delivery = make()
    delivery.script.turns = [says("a"), says("b")]
    await delivery.invocation.invoke(delivery.dispatch())
    event = delivery.records()[-1].event
    assert isinstance(event, SessionFailed)
    assert event.code == "invalid-output"
