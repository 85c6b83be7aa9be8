"""One episode: what is recorded in which order, what the model is told, and what comes out."""

import pytest

from runner.contract.activation import AgentAction
from runner.contract.canonical import freeze
from runner.contract.effects import effect_key
from runner.contract.events import ModelCalled, ModelResponded, SessionFailed, SessionStarted, ToolCalled, ToolFailed
from runner.contract.ids import DeliveryId, SiteId, StepRef
from runner.contract.ports import Completed, Failed, Invalid
from runner.contract.provider import Completion, Correction, Prompt, ToolRequest, ToolResults, TurnEnded
from tests.invocation.conftest import Make
from tests.invocation.fakes import GOOD, Delivery, asks, completes, executor, response, says


def told(delivery: Delivery, number: int) -> ToolResults:
    turn = delivery.script.heard[number]
    assert isinstance(turn, ToolResults)
    return turn


def findings(delivery: Delivery, number: int) -> tuple[str, ...]:
    turn = delivery.script.heard[number]
    assert isinstance(turn, Correction)
    return turn.findings


async def test_a_tool_loop_is_journaled_in_order(make: Make) -> None:
    """Intent before, result after, for every call; the files are there; one session begins and ends."""
    delivery = make()
    delivery.script.turns = [
        asks(("write", {"path": "a.txt", "content": "hello"}), ("read", {"path": "a.txt"})),
        completes(),
    ]
    assert await delivery.invocation.invoke(delivery.dispatch()) == Completed(value=freeze(GOOD))
    assert delivery.kinds() == [
        "session.started",
        "model.called",
        "model.responded",
        "tool.called",
        "tool.succeeded",
        "tool.called",
        "tool.succeeded",
        "model.called",
        "model.responded",
        "session.completed",
    ]
    assert (delivery.worktree / "a.txt").read_text() == "hello"
    assert [r.text for r in told(delivery, 1).results] == ["wrote a.txt", "hello"]
    assert [r.event.call for r in delivery.records() if isinstance(r.event, ModelCalled | ToolCalled)] == [
        "code@1/1/m1",
        "code@1/1/t1",
        "code@1/1/t2",
        "code@1/1/m2",
    ]
    assert all(r.step is not None and r.step.key == "code@1" and r.attempt == 1 for r in delivery.records())
    assert delivery.script.closed == 1


async def test_the_intent_is_durable_before_the_request_leaves(make: Make) -> None:
    """What another reader of the ledger sees at the moment of sending includes the intent."""
    delivery = make()
    seen: list[list[str]] = []
    delivery.script.on_send = lambda: seen.append(delivery.kinds())
    delivery.script.turns = [completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    assert seen == [["session.started", "model.called"]]


async def test_who_answered_and_what_it_cost_is_recorded(make: Make) -> None:
    """From the response, not from what was asked for; unknown cost stays unknown."""
    delivery = make()
    delivery.script.turns = [[response(input_tokens=7), Completion(value=freeze(GOOD)), TurnEnded(finish="stop")]]
    await delivery.invocation.invoke(delivery.dispatch())
    (event,) = [r.event for r in delivery.records() if isinstance(r.event, ModelResponded)]
    assert (event.provider, event.model) == ("fake", "answered-1")
    assert (event.usage.input_tokens, event.usage.output_tokens, event.usage.cost_usd) == (7, None, None)


async def test_equal_tool_calls_are_two_effects_with_stable_keys(make: Make) -> None:
    """Each has its own effect key, by what is called and how often, in whatever Delivery's life."""
    delivery = make()
    delivery.script.turns = [asks(("list", {}), ("list", {}), ("list", {"path": "."})), completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    keys = [r.event.key for r in delivery.records() if isinstance(r.event, ToolCalled)]
    step = StepRef(site=SiteId("code"))
    asked = [({}, 0), ({}, 1), ({"path": "."}, 0)]
    assert keys == [effect_key(DeliveryId("d1"), step, "list", freeze(a), n) for a, n in asked]


async def test_an_invalid_result_gets_one_turn_with_the_findings(make: Make) -> None:
    """The corrective turn carries every finding of the validator."""
    delivery = make()
    delivery.script.turns = [completes({"verdict": "maybe", "extra": 1}), completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch("ask")), Completed)
    told_findings = findings(delivery, 1)
    assert len(told_findings) == 2
    assert any("'maybe' is not one of" in f and f.startswith("$.verdict:") for f in told_findings)
    assert any("extra" in f for f in told_findings)


async def test_twice_invalid_is_invalid(make: Make) -> None:
    """Bounded: the findings of the last result are the answer."""
    delivery = make()
    delivery.script.turns = [completes({}), completes([])]
    disposition = await delivery.invocation.invoke(delivery.dispatch())
    assert isinstance(disposition, Invalid)
    assert disposition.findings == ("$: [] is not of type 'object'",)
    assert isinstance(delivery.records()[-1].event, SessionFailed)


async def test_text_is_never_completion(make: Make) -> None:
    """Text that looks like the result is answered with a correction, then invalid."""
    delivery = make()
    delivery.script.turns = [says('{"verdict": "good"}'), says("really")]
    disposition = await delivery.invocation.invoke(delivery.dispatch("ask"))
    assert isinstance(disposition, Invalid)
    assert "no structured result" in findings(delivery, 1)[0]


async def test_generate_offers_no_tools_and_runs_none(make: Make) -> None:
    """A model that asks for one anyway gave invalid output; nothing is run."""
    delivery = make()
    delivery.script.turns = [asks(("write", {"path": "x", "content": "y"})), completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch("ask")), Completed)
    assert delivery.script.opened[0].tools == ()
    assert "no tools" in findings(delivery, 1)[0]
    assert "tool.called" not in delivery.kinds()
    assert list(delivery.worktree.iterdir()) == []


async def test_a_result_beside_tool_requests_is_not_taken(make: Make) -> None:
    """It was given without knowing what the tools say."""
    delivery = make()
    asked = ToolRequest(id="c", name="list", arguments=freeze({}))
    delivery.script.turns = [[response(), asked, Completion(value=freeze(GOOD)), TurnEnded(finish="x")], completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)
    assert len(told(delivery, 1).results) == 1


async def test_two_results_in_one_turn_are_none(make: Make) -> None:
    """Which one would count is not guessed."""
    delivery = make()
    both = [Completion(value=freeze(GOOD))] * 2
    delivery.script.turns = [[response(), *both, TurnEnded(finish="x")], completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    assert "more than one" in findings(delivery, 1)[0]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("rm", {}, "there is no tool rm; the tools are: read, list, search, write, edit"),
        ("read", {}, "'path' is a required property"),
        ("read", {"path": "a", "mode": "x"}, "'mode' was unexpected"),
        ("read", "{not json", "is not of type 'object'"),
        ("read", {"path": "none"}, "no such file"),
        ("write", {"path": ".git/hooks/post-commit", "content": "x"}, "out of bounds"),
        ("x" * 10_000, {}, "there is no tool xxx"),
    ],
)
async def test_a_tool_that_cannot_be_run_is_a_result(make: Make, name: str, arguments: object, problem: str) -> None:
    """The model is told and goes on; the failure is recorded like any result."""
    delivery = make()
    delivery.script.turns = [asks((name, arguments)), completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)
    (result,) = told(delivery, 1).results
    assert not result.ok
    assert problem in result.text
    assert len(result.text) < 5_000
    (event,) = [r.event for r in delivery.records() if isinstance(r.event, ToolFailed)]
    assert event.message == result.text


async def test_turns_are_bounded(make: Make) -> None:
    """An agent that never ends does."""
    delivery = make()
    delivery.script.turns = [asks(("list", {})) for _ in range(10)]
    disposition = await delivery.invocation.invoke(delivery.dispatch())
    assert isinstance(disposition, Failed)
    assert (disposition.code, disposition.retriable) == ("limit", False)
    assert len(delivery.script.sent) == 6


async def test_using_a_tool_earns_a_new_correction(make: Make) -> None:
    """Corrections in a row are bounded, not those of a whole episode."""
    delivery = make()
    delivery.script.turns = [says("hm"), asks(("list", {})), says("hm"), completes()]
    assert isinstance(await delivery.invocation.invoke(delivery.dispatch()), Completed)


async def test_what_the_session_is_opened_with(make: Make) -> None:
    """Instructions, then the action's system text; tools only as far as the scope allows; a recorded descriptor."""
    delivery = make()
    delivery.script.turns = [completes(), completes()]
    await delivery.invocation.invoke(delivery.dispatch("ask", system="Answer in JSON."))
    await delivery.invocation.invoke(delivery.dispatch("code"))
    asked, coded = delivery.script.opened
    assert asked.system == "Be brief.\n\nAnswer in JSON."
    assert coded.system == "Be brief."
    assert [t.name for t in coded.tools] == ["read", "list", "search", "write", "edit"]
    assert delivery.script.heard[0] == Prompt(text="Do it.")
    started = next(r.event for r in delivery.records() if isinstance(r.event, SessionStarted))
    assert started.descriptor["model"] == "asked-1"
    assert started.descriptor["descriptor"] == delivery.factory.descriptor.digest


async def test_a_provider_without_structured_output_is_told_the_contract(make: Make) -> None:
    """In the system prompt, the same text every time."""
    delivery = make(features=("agent", "generate", "tools"))
    delivery.script.turns = [completes(), completes()]
    for _ in range(2):
        await delivery.invocation.invoke(delivery.dispatch("ask"))
    first, second = (d.system for d in delivery.script.opened)
    assert first == second
    assert '"enum":["good","bad"]' in first


async def test_progress_shows_text_and_tools(make: Make) -> None:
    """While it runs, without control characters."""
    from runner.contract.provider import OutputDelta

    delivery = make()
    delivery.script.turns = [[OutputDelta(text="th\x1b[2Jinking"), *asks(("list", {}))], completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    text = "".join(text for _, text in delivery.shown.texts)
    assert "th\\x1b[2Jinking" in text
    assert "list" in text
    assert "\x1b" not in text


async def test_a_result_larger_than_inline_is_stored(make: Make) -> None:
    """Large tool values are artifacts, announced before the entry that names them."""
    delivery = make()
    (delivery.worktree / "big").write_text("x" * 5_000)
    delivery.script.turns = [asks(("read", {"path": "big"})), completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    kinds = delivery.kinds()
    assert kinds[kinds.index("tool.called") + 1 :][:2] == ["artifact.stored", "tool.succeeded"]


@pytest.mark.parametrize(
    "changes",
    [
        {"executor": "other"},
        {"result_schema": {}},
        {"tools": ("read",)},
        {"turns_max": 7},
    ],
)
async def test_a_dispatch_that_was_not_admitted_ends_before_any_effect(make: Make, changes: dict[str, object]) -> None:
    """No realm, no session, no secret, no entry."""
    delivery = make()
    action = AgentAction.model_validate({**delivery.actions["code"].model_dump(), **changes})
    disposition = await delivery.invocation.invoke(delivery.dispatch(action=action))
    assert isinstance(disposition, Failed)
    assert (disposition.code, disposition.retriable) == ("binding-drift", False)
    assert next(iter(changes)) in disposition.message
    assert delivery.factory.started == 0
    assert delivery.kinds() == []


async def test_a_grant_for_another_step_ends_before_any_effect(make: Make) -> None:
    """A grant is for one attempt of one step."""
    delivery = make()
    dispatch = delivery.dispatch(attempt=2)
    disposition = await delivery.invocation.invoke(dispatch)
    assert isinstance(disposition, Failed)
    assert "grant" in disposition.message


async def test_a_resumed_step_under_another_binding_is_drift(make: Make) -> None:
    """What the ledger says the session was started with is compared field by field."""
    delivery = make()
    delivery.script.turns = [completes()]
    await delivery.invocation.invoke(delivery.dispatch())
    delivery.ledger.close()
    delivery.executors = (executor(delivery.factory, model="another", instructions="Be long."),)
    delivery.open()
    before = delivery.kinds()
    disposition = await delivery.invocation.invoke(delivery.dispatch())
    assert isinstance(disposition, Failed)
    assert disposition.code == "binding-drift"
    assert "model: was asked-1, is another" in disposition.message
    assert "instructions: was sha256:" in disposition.message
    assert delivery.kinds() == before
