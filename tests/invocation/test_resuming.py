"""What an earlier life left: used where it holds, refused where it does not fit, and no shorter pause for having died."""

import asyncio
from typing import Any

import pytest

from runner.contract import limits, recording
from runner.contract.canonical import freeze
from runner.contract.errors import Code, ProviderError
from runner.contract.events import InterventionResolved, ToolFailed
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import Digest
from runner.contract.ports import Completed, Disposition, Failed, Uncertain
from runner.contract.provider import ToolOutcome, ToolResults, ToolSpec, TurnEnded
from runner.contract.records import Draft
from runner.contract.text import screened
from tests.invocation.conftest import Make
from tests.invocation.fakes import GOOD, Delivery, asks, completes, fails, response, says


class Died(BaseException):
    """As a killed process ends: nothing is journaled any more."""


async def die() -> None:
    raise Died


async def invoke(delivery: Delivery, **changes: Any) -> Disposition:
    return await delivery.invocation.invoke(delivery.dispatch(**changes))


async def killed(delivery: Delivery, **changes: Any) -> None:
    """A life that ends in its last scripted turn, and the next one opened."""
    with pytest.raises(Died):
        await invoke(delivery, **changes)
    delivery.again()


# --- verification before skipping ------------------------------------------------------------------------------------


async def test_another_prompt_is_drift(make: Make) -> None:
    """An answer to another request is not taken: which call, both digests, what would be said now; nothing is called."""
    delivery = make()
    delivery.script.turns = [asks(("list", {})), [die]]
    await killed(delivery)
    sent = len(delivery.script.sent)
    said = await invoke(delivery, prompt="Do \x1b[2Jsomething else." + "x" * 5_000)
    assert isinstance(said, Failed)
    assert (said.code, said.retriable) == ("binding-drift", False)
    assert "code@1/1/m1" in said.message
    assert said.message.count("sha256:") == 2
    assert "Do \\x1b[2Jsomething else." in said.message
    assert len(said.message) < 1_500
    assert len(delivery.script.sent) == sent


async def test_a_call_on_its_way_is_not_made_with_another_request(make: Make) -> None:
    """Under one call id one thing is asked."""
    delivery = make()
    delivery.script.turns = [[die]]
    await killed(delivery)
    said = await invoke(delivery, prompt="Other.")
    assert isinstance(said, Failed)
    assert said.code == "binding-drift"
    assert len(delivery.script.sent) == 1


@pytest.mark.parametrize("error", [TypeError("x"), ProviderError(Code.BINDING_DRIFT, "no such turn", remedy="go back")])
async def test_a_session_that_cannot_go_on_is_drift(make: Make, error: Exception) -> None:
    """Whatever its adapter says; it is not begun anew behind the agent's back."""
    delivery = make()
    delivery.script.turns = [asks(("list", {})), [die]]
    await killed(delivery)
    delivery.script.replay_error = error
    said = await invoke(delivery)
    assert isinstance(said, Failed)
    assert said.code == "binding-drift"
    assert delivery.kinds()[-1] == "session.failed"


# --- ends that were reached --------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else []


ENDS: dict[str, list[list[Any]]] = {
    "completed": [completes()],
    "invalid": [says("a"), says("b")],
    "limit": [asks(("list", {})) for _ in range(6)],
    "protocol later": [asks(("list", {})), fails(http_status=400)],
    "cut off": [[*completes()[:-1], TurnEnded(finish="length")]],
    "refused": [[ProviderError(Code.RECORDING_MISS, "turn 1 was not recorded", remedy="record it")]],
    "escaped": [[RuntimeError("x")]],
    "too deep": [asks(("list", nested(60)))],
    "retry-after later": [asks(("list", {})), fails(http_status=429, retry_after_s=4_000.0)],
}


@pytest.mark.parametrize("end", ENDS)
async def test_an_end_is_the_same_again(make: Make, end: str) -> None:
    """Killed after it and before the host heard of it: the same words, no call, no entry."""
    delivery = make()
    delivery.script.turns = list(ENDS[end])
    first = await invoke(delivery)
    before, sent = delivery.kinds(), len(delivery.script.sent)
    assert before[-1] in ("session.completed", "session.failed")
    delivery.again()
    assert await invoke(delivery) == first
    assert (delivery.kinds(), len(delivery.script.sent)) == (before, sent)


async def test_an_answer_that_broke_off_is_no_answer(make: Make) -> None:
    """It is recorded as the failure it was; the call is made again in this life or the next."""
    delivery = make()
    delivery.script.turns = [[response("half")], [response("half"), die]]
    await killed(delivery)
    assert delivery.kinds() == ["session.started", "model.called", "model.responded", "model.called"]
    delivery.script.turns = [completes()]
    assert isinstance(await invoke(delivery), Completed)
    assert len(delivery.script.sent) == 3


# --- back-off ----------------------------------------------------------------------------------------------------------


async def paused(delivery: Delivery, **signals: Any) -> None:
    """A life that ends in the pause after one failed call."""
    delivery.script.turns = [fails(**signals)]
    delivery.clock.endless = True
    task = asyncio.create_task(invoke(delivery))
    await delivery.clock.sleeping.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    delivery.clock.endless = False
    delivery.clock.slept.clear()
    delivery.again()


@pytest.mark.parametrize(("later", "left"), [(0.0, 30.0), (12.0, 18.0), (500.0, None), (-90_000.0, 30.0)])
@pytest.mark.parametrize("site", ["code", "ask"])
async def test_a_pause_survives_the_process(make: Make, later: float, left: float | None, site: str) -> None:
    """What is left of it is waited for, by every step of the Delivery that uses the provider; a clock that went backwards
    makes it no longer than it was."""
    delivery = make()
    await paused(delivery, http_status=429, retry_after_s=30.0)
    delivery.clock.skew += later
    delivery.script.turns = [completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch(site)), Completed)
    assert delivery.clock.slept == ([] if left is None else [pytest.approx(left)])


async def test_an_answer_since_ends_the_pause(make: Make) -> None:
    """Whoever was answered shows that the provider is back."""
    delivery = make()
    delivery.script.turns = [fails(http_status=429, retry_after_s=20.0), completes(), completes()]
    await invoke(delivery)
    delivery.again()
    delivery.clock.slept.clear()
    await delivery.invocation.invoke(delivery.dispatch("ask"))
    assert delivery.clock.slept == []


async def test_executed_too_early_a_suspended_step_suspends_again(make: Make) -> None:
    """For what is left of what the endpoint asked for, without a call; later it goes on."""
    delivery = make()
    delivery.script.turns = [fails(http_status=503, retry_after_s=3_600.0), completes()]
    await invoke(delivery)
    for passed in (600.0, 1_000.0):
        delivery.again()
        delivery.clock.time += passed
        said = await invoke(delivery)
        assert isinstance(said, Failed)
        assert said.suspend_s == pytest.approx(3_600.0 - delivery.clock.time + 1_000.0)
        assert len(delivery.script.sent) == 1
    delivery.again()
    delivery.clock.time += 2_500.0
    assert isinstance(await invoke(delivery), Completed)


# --- recordings --------------------------------------------------------------------------------------------------------


async def test_a_torn_recording_is_healed(make: Make) -> None:
    """A kill in the middle of a line, and lines of somebody else: the file of a session that went on is whole again."""
    delivery = make(record=True)
    delivery.script.turns = [asks(("list", {})), says("hm"), [die]]
    await killed(delivery)
    assert delivery.recordings is not None
    path = delivery.recordings / "code.1.jsonl"
    header, first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first + b'{"turn": 7}\n' + second[:40])
    delivery.script.turns = [completes()]
    assert isinstance(await invoke(delivery), Completed)
    assert path.read_bytes().startswith(header)
    read = recording.read(path.read_bytes(), "f")
    assert list(read.turns) == [1, 2, 3]
    requests = delivery.script.sent[:2] + delivery.script.sent[3:]
    worktree = str(delivery.worktree)
    assert [t.line.digest for t in read.turns.values()] == [recording.request_digest(r, worktree, ()) for r in requests]


# --- values ------------------------------------------------------------------------------------------------------------


class Odd:
    """One tool that gives ``outcome``, or raises it."""

    def __init__(self, outcome: Any, effect: Any = "external") -> None:
        self.outcome = outcome
        self.calls = 0
        self.spec = ToolSpec(name="odd", description="", parameters=freeze({}), effect=effect)

    def specs(self, names: tuple[str, ...], writable: bool) -> tuple[ToolSpec, ...]:
        return (self.spec,)

    async def call(self, grant: WorkspaceGrant, spec: ToolSpec, arguments: Any, *, key: Digest) -> ToolOutcome:
        self.calls += 1
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return ToolOutcome(ok=True, text=self.outcome)


def with_tool(make: Make, tool: Odd) -> Delivery:
    delivery = make()
    delivery.toolbox = tool
    delivery.again()
    return delivery


async def texts_of_two_lives(delivery: Delivery) -> list[str]:
    delivery.script.turns = [asks(("odd", {})), [die]]
    await killed(delivery)
    delivery.script.turns = [completes()]
    assert isinstance(await invoke(delivery), Completed)
    turns = [t for t in delivery.script.heard if isinstance(t, ToolResults)]
    return [t.results[0].text for t in turns]


@pytest.mark.parametrize("text", ["", "\x00\x01", "x" * 10_000_000, "nul \x00 " * 1_000_000, '"null"', "null"])
async def test_a_result_is_replayed_as_it_was_told(make: Make, text: str) -> None:
    """Nothing, NUL bytes, a line of 10 MB: once, screened, and then the same to the last character."""
    tool = Odd(text)
    told = await texts_of_two_lives(with_tool(make, tool))
    assert told == [screened(text, str, limits.TOOL_RESULT_BYTES_MAX)] * 2
    assert len(told[0]) <= limits.TOOL_RESULT_BYTES_MAX + 50 and "\x00" not in told[0]
    assert tool.calls == 1


@pytest.mark.parametrize("outcome", ["\ud800", b"bytes", float("nan"), None, ValueError("sk-unvouched"), KeyError()])
async def test_what_cannot_be_stored_fails_once(make: Make, outcome: Any) -> None:
    """The call is over, its failure is its result: it is not made again, in this life or the next."""
    tool = Odd(outcome)
    delivery = with_tool(make, tool)
    first, second = await texts_of_two_lives(delivery)
    assert first == second
    assert "odd" in first
    assert "unvouched" not in first
    assert tool.calls == 1
    assert [type(r.event) for r in delivery.records()].count(ToolFailed) == 1


# --- what a person said ------------------------------------------------------------------------------------------------


async def left_uncertain(make: Make) -> tuple[Delivery, Odd]:
    tool = Odd(Died())
    delivery = with_tool(make, tool)
    delivery.script.turns = [asks(("odd", {"n": 1})), completes()]
    await killed(delivery)
    tool.outcome = "made"
    said = await invoke(delivery)
    assert isinstance(said, Uncertain)
    assert "odd" in said.why
    return delivery, tool


def resolve(delivery: Delivery, resolution: Any, value: Any = None) -> None:
    ref = None if value is None else delivery.ledger.artifacts.put(freeze(value))
    said = InterventionResolved(call="code@1/1/t1", resolution=resolution, value=ref, who="p")
    step = delivery.dispatch().step
    delivery.ledger.writer("coordinator").append(Draft(event=said, step=step, attempt=1))


@pytest.mark.parametrize(("value", "text"), [("sent", "sent"), ({"id": 7}, '{"id":7}'), (None, "")])
async def test_what_happened_is_the_result(make: Make, value: Any, text: str) -> None:
    """As the person gave it, as text or JSON, or nothing; the tool is not called."""
    delivery, tool = await left_uncertain(make)
    resolve(delivery, "happened", value)
    assert await invoke(delivery) == Completed(value=freeze(GOOD))
    told = delivery.script.heard[-1]
    assert isinstance(told, ToolResults)
    assert told.results[0].text == text
    assert tool.calls == 1


async def test_what_did_not_happen_is_done_and_may_be_lost_again(make: Make) -> None:
    """Under the same id and key; killed once more, the older word of a person counts no longer."""
    delivery, tool = await left_uncertain(make)
    resolve(delivery, "did-not-happen")
    tool.outcome = Died()
    await killed(delivery)
    assert isinstance(await invoke(delivery), Uncertain)
    assert tool.calls == 2
    resolve(delivery, "did-not-happen")
    tool.outcome = "made"
    assert await invoke(delivery) == Completed(value=freeze(GOOD))
    assert tool.calls == 3


async def test_what_was_given_up_is_not_gone_on_with(make: Make) -> None:
    """The coordinator ends the Delivery; here it stays what it is."""
    delivery, tool = await left_uncertain(make)
    resolve(delivery, "abandon")
    assert isinstance(await invoke(delivery), Uncertain)
    assert tool.calls == 1
