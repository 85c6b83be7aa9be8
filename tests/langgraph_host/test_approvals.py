"""Questions to people: opened, asked, answered from anywhere, shown while they wait, gone when a loop goes over them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hosts.langgraph.lowering import thread
from runner.contract.activation import Step
from runner.contract.canonical import freeze, thaw
from runner.contract.events import WaitAnswered
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import Outcome, Reason
from runner.contract.plan import FAILING
from runner.contract.ports import (
    Boundary,
    Completed,
    Deferred,
    Dispatch,
    Disposition,
    HostIntervention,
    HostStopped,
    HostSuspended,
    TerminalProposal,
    Uncertain,
)
from tests.langgraph_host.fakes import (
    FakeBridge,
    Process,
    World,
    activation,
    agent,
    approval,
    command,
    generate,
    to,
    values,
)

YES, NO = {"decision": "approve"}, {"decision": "reject", "comment": "not yet"}


def world(tmp_path: Path, *steps: Step, **replies: Any) -> World:
    return World(tmp_path / "d", activation(*steps), bridge=FakeBridge(**replies))


def completed(boundary: Boundary) -> bool:
    return isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED


def pending() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def shown(process: Process) -> list[str]:
    """The questions that LangGraph shows for the thread."""
    graph: Any = process.host._graph
    state = await graph.aget_state(thread(process.case.plan))
    return sorted(found.value["wait"] for found in state.interrupts)


async def test_an_answer_from_the_bridge(tmp_path: Path) -> None:
    """Opened in one transaction, answered and ended in another; the answer is the output and routes by its outcome."""
    it = world(
        tmp_path, approval("a", routes=to(reject="b")), generate("b", prompt="{{ steps.a.output.comment }}"), a=[NO]
    )
    async with it.process() as process:
        assert completed(await process.host.drive())
        assert process.events("a@1") == [
            "step.scheduled",
            "step.attempt_started",
            "wait.opened",
            "wait.answered",
            "output.validated",
            "step.completed",
        ]
        assert process.ends() == {"a@1": "reject", "b@1": "success"}
        assert thaw(process.last("a@1").output.inline) == NO
        assert [d.prompt for d in process.invocation.asked] == ["not yet"] and it.bridge.ids == ["a@1"]
        (wait,) = it.bridge.asked
        assert (wait.kind, wait.step, wait.prompt, wait.show_diff, wait.expires_at) == (
            "approval",
            "a@1",
            "ok?",
            True,
            None,
        )
        (record,) = process.ledger.read(kinds=frozenset({WaitAnswered.KIND}))
        assert isinstance(record.event, WaitAnswered) and record.event.who == "fake"


async def test_nobody_answers(tmp_path: Path) -> None:
    """What does not depend on it goes on; then the Delivery is suspended with the question, and the thread shows it. The
    same execute asks once; a later one asks again, unless there is an answer by then."""
    it = world(tmp_path, approval("a"), generate("b"), generate("c", needs=("b",)), generate("z", needs=("a",)))
    async with it.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, HostSuspended) and boundary.reason == "wait" and boundary.resume_in_s is None
        assert [wait.wait for wait in boundary.waits] == ["a@1"] and boundary.step == StepRef(site=SiteId("a"))
        assert process.ends() == {"b@1": "success", "c@1": "success"} and await shown(process) == ["a@1"]
        assert await process.host.drive() == boundary and it.bridge.ids == ["a@1"]
    async with it.process() as process:
        assert await process.host.drive() == boundary and it.bridge.ids == ["a@1", "a@1"]
        assert await shown(process) == ["a@1"]
    async with it.process() as process:
        process.answer("a@1", YES)
    async with it.process() as process:
        assert completed(await process.host.drive()) and it.bridge.ids == ["a@1", "a@1"]
        assert await shown(process) == [] and process.events("a@1").count("wait.opened") == 1
        assert process.ends()["z@1"] == "success" and process.events("a@1").count("step.scheduled") == 1


async def test_answered_from_elsewhere_while_the_bridge_asks(tmp_path: Path) -> None:
    """The bridge's call is cancelled and has ended; the recorded answer counts, once."""
    it = world(tmp_path, approval("a", routes=to(approve="b")), generate("b"), a=[pending()])
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        process.host.answered("nothing@1")
        await asyncio.sleep(0)
        assert it.bridge.cancelled == []
        process.answer("a@1", YES)
        assert completed(await driving) and it.bridge.cancelled == ["a@1"]
        assert process.events("a@1").count("wait.answered") == 1 and process.ends()["b@1"] == "success"


async def test_the_first_answer_counts(tmp_path: Path) -> None:
    """Recorded in the same moment as the bridge's: the bridge's is dropped."""
    reply = pending()
    it = world(tmp_path, approval("a"), a=[reply])
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        process.answer("a@1", NO, tell=False)
        reply.set_result(YES)
        assert completed(await driving) and process.ends() == {"a@1": "reject"}
        assert process.events("a@1").count("wait.answered") == 1


async def test_answered_while_parked_and_others_run(tmp_path: Path) -> None:
    """The drive goes on with it at once, not only when the others are done."""
    it = world(tmp_path, approval("a"), generate("b", needs=("a",)), generate("slow"))
    began, after = asyncio.Event(), asyncio.Event()

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site == "slow":
            began.set()
            await after.wait()
        after.set()
        return Completed(value=None)

    it.act = act
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await began.wait()
        await it.bridge.deferred.wait()
        process.answer("a@1", YES)
        assert completed(await driving)
        assert next(iter(process.ends())) == "a@1" and len(process.ends()) == 3 and it.bridge.ids == ["a@1"]


@pytest.mark.parametrize("bad", [{"decision": "perhaps"}, "perhaps", 7, {"decision": "approve", "more": 1}, object()])
async def test_an_answer_that_does_not_fit_is_asked_for_once_more(tmp_path: Path, bad: object) -> None:
    """Then nobody answered. A bare word stands for the outcome."""
    it = world(tmp_path, approval("a"), approval("b"), a=[bad, "approve"], b=[bad, bad, YES])
    async with it.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, HostSuspended) and [w.wait for w in boundary.waits] == ["b@1"]
        assert process.ends() == {"a@1": "approve"} and thaw(process.last("a@1").output.inline) == YES
        assert sorted(it.bridge.ids) == ["a@1", "a@1", "b@1", "b@1"]


async def test_several_questions_at_once(tmp_path: Path) -> None:
    """All are asked beside each other, all are shown, and each is answered by its own id."""
    it = world(tmp_path, *(approval(n) for n in "abc"), generate("z", needs=("a", "b", "c")), b=[YES])
    it.steps_max = 1
    async with it.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, HostSuspended) and [w.wait for w in boundary.waits] == ["a@1", "c@1"]
        assert boundary.detail == "open questions: a@1, c@1" and await shown(process) == ["a@1", "c@1"]
    async with it.process() as process:
        process.answer("c@1", YES)
        boundary = await process.host.drive()
        assert isinstance(boundary, HostSuspended) and await shown(process) == ["a@1"]
        process.answer("a@1", NO)
        assert completed(await process.host.drive()) and process.ends()["z@1"] == "success"


async def test_a_question_takes_no_slot(tmp_path: Path) -> None:
    """While one is asked, everything else runs, one step at a time."""
    reply = pending()
    it = world(tmp_path, approval("a"), generate("b"), command("c", needs=("b",)), a=[reply])
    it.steps_max = 1

    async def run(_: Any) -> Any:
        reply.set_result(YES)
        return await World(tmp_path, it.activation).run(_)

    it.run = run
    async with it.process() as process:
        assert completed(await process.host.drive()) and process.ends().keys() == {"a@1", "b@1", "c@1"}


async def test_four_approvals_in_one_loop(tmp_path: Path) -> None:
    """Rejected once, answered one drive after the other: nothing before a question repeats, no visit asks twice."""
    names = ("w", "x", "y", "z")
    steps = [agent("build", budget_visits=2)]
    for before, name in zip(("build", *names), names, strict=False):
        routes = to(reject="build", approve="completed") if name == "z" else ()
        steps.append(approval(name, needs=(before,), routes=routes))
    it = world(tmp_path, *steps)
    it.act = values({})
    answers = [YES, YES, YES, NO, YES, YES, YES, YES]
    asked: list[str] = []
    for number in range(len(answers)):
        async with it.process() as process:
            boundary = await process.host.drive()
            assert isinstance(boundary, HostSuspended) and await shown(process) == [boundary.waits[0].wait]
            asked.append(boundary.waits[0].wait)
            process.answer(asked[-1], answers[number])
        if number % 3 == 2:
            it.forget_checkpoints()
    async with it.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.reason is Reason.ROUTED
        assert asked == [f"{n}@{v}" for v in (1, 2) for n in names]
        assert [k for k, _ in process.workspaces.begun] == [] and len(it.history) == 1
        assert {k: v for k, v in process.ends().items() if k.startswith("build")} == {
            "build@1": "success",
            "build@2": "success",
        }
        assert process.events("build@1").count("step.attempt_started") == 1


async def test_a_loop_goes_over_an_open_question(tmp_path: Path) -> None:
    """It is not waited for: superseded with the loop, its bridge call ended, and asked anew at the next visit."""
    steps = (
        generate("start", budget_visits=2),
        approval("a", needs=("start",)),
        generate("judge", needs=("start",), outcome="verdict", routes=to(again="start")),
    )
    it = world(tmp_path, *steps, **{"a@1": [pending()], "a@2": [YES]})

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.key == "judge@1":
            await it.bridge.reached.wait()
            return Completed(value=freeze({"verdict": "again"}))
        return Completed(value=freeze({"verdict": "good"}))

    it.act = act
    async with it.process() as process:
        assert completed(await process.host.drive())
        assert process.ends()["a@1"] == "superseded" and process.ends()["a@2"] == "approve"
        assert it.bridge.cancelled == ["a@1"] and it.bridge.ids == ["a@1", "a@2"]


async def test_a_loop_goes_over_a_parked_question(tmp_path: Path) -> None:
    """The same when nobody was being asked any more; an answer that comes too late changes nothing."""
    steps = (
        generate("start", budget_visits=2),
        approval("a", needs=("start",)),
        approval("judge", needs=("start",), routes=to(reject="start")),
    )
    it = world(tmp_path, *steps)
    async with it.process() as process:
        assert isinstance(await process.host.drive(), HostSuspended)
        process.answer("judge@1", NO)
        boundary = await process.host.drive()
        assert isinstance(boundary, HostSuspended) and {w.wait for w in boundary.waits} == {"a@2", "judge@2"}
        assert process.ends()["a@1"] == "superseded" and await shown(process) == ["a@2", "judge@2"]
    async with it.process() as process:
        process.answer("a@2", YES)
        process.answer("judge@2", YES)
        assert completed(await process.host.drive()) and process.ends()["a@2"] == "approve"


@pytest.mark.parametrize("parked", [False, True])
async def test_cancel_with_open_questions(tmp_path: Path, parked: bool) -> None:
    """They end cancelled, whoever was being asked is let go."""
    it = world(tmp_path, approval("a"), generate("z", needs=("a",)), a=[Deferred() if parked else pending()])
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        if parked:
            assert isinstance(await driving, HostSuspended)
            process.host.cancel(Reason.CANCEL_REQUESTED)
            driving = asyncio.create_task(process.host.drive())
        else:
            await it.bridge.reached.wait()
            process.host.cancel(Reason.CANCEL_REQUESTED)
        boundary = await driving
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.CANCELLED
        assert process.ends() == {"a@1": "cancelled"} and it.bridge.cancelled == ([] if parked else ["a@1"])


@pytest.mark.parametrize("how", ["stop", "cancel the task"])
async def test_stopped_while_asking(tmp_path: Path, how: str) -> None:
    """The step stays open and is asked again by the next process, under the same id."""
    it = world(tmp_path, approval("a"), a=[pending(), YES])
    async with it.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await it.bridge.reached.wait()
        if how == "stop":
            process.host.stop()
            assert await driving == HostStopped()
        else:
            driving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await driving
        assert it.bridge.cancelled == ["a@1"] and process.ends() == {}
        assert [s.key for s in process.ledger.open_steps()] == ["a@1"]
    async with it.process() as process:
        assert completed(await process.host.drive()) and it.bridge.ids == ["a@1", "a@1"]


async def test_an_intervention_does_not_wait_for_a_person_twice(tmp_path: Path) -> None:
    """A question that is being asked is let go and stays open."""
    it = world(tmp_path, approval("a"), generate("g"), a=[pending(), YES])

    async def act(_: Dispatch) -> Disposition:
        await it.bridge.reached.wait()
        return Uncertain(call="g@1/1/t1", why="killed")

    it.act = act
    async with it.process() as process:
        assert isinstance(await process.host.drive(), HostIntervention) and it.bridge.cancelled == ["a@1"]
    it.act = values({})
    async with it.process() as process:
        assert completed(await process.host.drive())


async def test_the_end_of_the_delivery_ends_questions(tmp_path: Path) -> None:
    """A terminal route supersedes them."""
    it = world(tmp_path, approval("a"), generate("g", routes=to(success="completed")), a=[pending()])

    async def act(_: Dispatch) -> Disposition:
        await it.bridge.reached.wait()
        return Completed(value=None)

    it.act = act
    async with it.process() as process:
        assert completed(await process.host.drive())
        assert process.ends() == {"g@1": "success", "a@1": "superseded"} and it.bridge.cancelled == ["a@1"]


async def test_a_bridge_that_fails_leaves_the_delivery_open(tmp_path: Path) -> None:
    """What it raises travels, once nothing runs; also while another step is at work."""
    it = world(tmp_path, approval("a"), generate("g"), a=[RuntimeError("no terminal"), YES])

    async def act(_: Dispatch) -> Disposition:
        await asyncio.Event().wait()
        return Completed(value=None)

    it.act = act
    async with it.process() as process:
        with pytest.raises(RuntimeError, match="no terminal"):
            await process.host.drive()
        assert process.invocation.running == set()
    it.act = values({})
    async with it.process() as process:
        assert completed(await process.host.drive())


async def test_a_question_without_a_value_fails_the_step(tmp_path: Path) -> None:
    """Nothing is opened; the failure is routed like any other."""
    it = world(tmp_path, approval("a", "{{ input.missing }}", routes=to(failure="b")), generate("b"))
    async with it.process() as process:
        assert completed(await process.host.drive())
        assert process.ends()["a@1"] in FAILING and process.events("a@1") == [
            "step.scheduled",
            "step.attempt_started",
            "step.failed",
        ]
