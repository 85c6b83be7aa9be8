"""What an attempt that was interrupted goes on with: its files, its input, what a person said of its effects."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runner.contract.canonical import freeze
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import (
    InteractionAnswered,
    InteractionRequested,
    InterventionResolved,
    StepAttemptStarted,
    StepScheduled,
)
from runner.contract.ids import StepRef
from runner.contract.outcomes import OpenWait, Outcome, Reason
from runner.contract.ports import (
    AwaitingInput,
    CommandRequest,
    CommandResult,
    Completed,
    Dispatch,
    Disposition,
    Failed,
    HostIntervention,
    HostStopped,
    HostSuspended,
    TerminalProposal,
)
from runner.contract.records import Draft
from tests.langgraph_host.fakes import (
    Process,
    World,
    activation,
    agent,
    approval,
    command,
    exited,
    generate,
    to,
    until,
)

QUESTION = OpenWait(wait="a@1/1/t1", kind="interaction", step="a@1", prompt="which?", answer_schema={}, since="now")


# --- an agent that asks ----------------------------------------------------------------------------------------------


def asking(world: World) -> list[Dispatch]:
    """Agent ``a`` writes a file, asks, and ends when it is asked to go on once there is an answer."""
    seen: list[Dispatch] = []

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site != "a":
            return Completed(value=None)
        seen.append(dispatch)
        if len(seen) == 1:
            assert dispatch.mark is not None
            world.disk["kept"] = "by its first call"
            dispatch.mark(("kept",))
            world.disk["lost"] = "half of its second"
            return AwaitingInput(wait=QUESTION)
        assert world.disk == {"kept": "by its first call"}
        return Completed(value=None)

    world.act = act
    return seen


def record_question(process: Process) -> None:
    step = StepRef.parse("a@1")
    event = InteractionRequested(wait=QUESTION.wait, prompt="which?", answer_schema={})
    process.ledger.writer("invocation").append(Draft(event=event, step=step, attempt=1))


def answer_question(process: Process) -> None:
    value = process.ledger.artifacts.put("that one")
    event = InteractionAnswered(wait=QUESTION.wait, value=value, who="somebody")
    process.ledger.writer("coordinator").append(Draft(event=event, step=StepRef.parse("a@1"), attempt=1))
    process.host.answered(QUESTION.wait)


async def test_an_agent_that_asks_waits_with_its_files(tmp_path: Path) -> None:
    """Its attempt stays open and its files stay; what needs no worktree goes on; the next drive goes on with the attempt, from
    its last mid-step savepoint."""
    world = World(tmp_path / "d", activation(agent("a"), agent("b"), generate("g"), generate("z", needs=("a",))))
    seen = asking(world)
    async with world.process() as process:
        boundary = await process.host.drive()
        expected = HostSuspended(
            reason="interaction", detail="which?", step=StepRef.parse("a@1"), resume_in_s=None, waits=(QUESTION,)
        )
        assert boundary == expected and process.ends() == {"g@1": "success"}
        assert world.disk.keys() == {"kept", "lost"} and process.workspaces.discarded == []
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert [d.attempt for d in seen] == [1, 1] and process.events("a@1").count("step.attempt_started") == 1
        ends = list(process.ends())
        assert ends[:2] == ["g@1", "a@1"] and sorted(ends[2:]) == ["b@1", "z@1"]


async def test_an_agent_is_answered_while_others_run(tmp_path: Path) -> None:
    """It goes on in the same drive, as the attempt that it was."""
    world = World(tmp_path / "d", activation(agent("a"), generate("slow")))
    asking(world)
    asked = asyncio.Event()
    plain = world.act

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site == "slow":
            await asked.wait()
            record_question(process)
            answer_question(process)
            await until(lambda: "a@1" in process.ends())
            return Completed(value=None)
        asked.set()
        return await plain(dispatch)

    world.act = act
    process = world.process()
    async with process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and list(process.ends()) == ["a@1", "slow@1"]


async def test_cancel_while_an_agent_asks(tmp_path: Path) -> None:
    """Its attempt is undone like any other that is open."""
    world = World(tmp_path / "d", activation(agent("a")))
    asking(world)
    async with world.process() as process:
        assert isinstance(await process.host.drive(), HostSuspended)
        process.host.cancel(Reason.CANCEL_REQUESTED)
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.CANCELLED
        assert process.ends() == {"a@1": "cancelled"} and world.disk == {}


async def test_a_quota_in_the_middle_keeps_the_files(tmp_path: Path) -> None:
    """An agent that is refused later than at its start goes on from its last tool call, not from the beginning."""
    world = World(tmp_path / "d", activation(agent("a")))
    turns = iter((1, 2))

    async def act(dispatch: Dispatch) -> Disposition:
        assert dispatch.mark is not None
        if next(turns) == 1:
            world.disk["kept"] = "1"
            dispatch.mark(("kept",))
            return Failed(code="quota", message="later", retriable=True, suspend_s=9.0)
        assert world.disk == {"kept": "1"}
        return Completed(value=None)

    world.act = act
    async with world.process() as process:
        assert isinstance(await process.host.drive(), HostSuspended) and process.workspaces.discarded == []
    async with world.process() as process:
        assert isinstance(await process.host.drive(), TerminalProposal) and process.ends() == {"a@1": "success"}


async def test_a_call_without_tools_cannot_mark(tmp_path: Path) -> None:
    """Only what holds a grant takes savepoints."""
    world = World(tmp_path / "d", activation(generate("a")))
    async with world.process() as process:
        await process.host.drive()
        assert [d.mark for d in process.invocation.asked] == [None]


# --- a command whose end nobody saw ----------------------------------------------------------------------------------


async def killed(world: World) -> None:
    """Leaves the command ``c`` as a kill does: called, not returned."""
    reached = asyncio.Event()

    async def run(_: CommandRequest) -> CommandResult:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    world.run = run
    process = world.process()
    driving = asyncio.create_task(process.host.drive())
    await reached.wait()
    driving.cancel()
    await asyncio.wait({driving})
    await process.host.close()
    process.ledger.close()

    async def again(_: CommandRequest) -> CommandResult:
        return exited(stdout="again")

    world.run = again


def resolve(process: Process, resolution: Any, value: Any = None, call: str = "c@1/1/t1") -> None:
    ref = process.ledger.artifacts.put(freeze(value)) if resolution == "happened" else None
    event = InterventionResolved(call=call, resolution=resolution, value=ref, who="somebody")
    process.ledger.writer("coordinator").append(Draft(event=event, step=StepRef.parse("c@1"), attempt=1))


WHOLE = {"end": "exit", "status": 3, "stdout": "told", "stderr": "", "truncated": False, "message": ""}


@pytest.mark.parametrize(
    ("value", "outcome", "exit", "stdout"),
    [(None, "success", 0, ""), (0, "success", 0, ""), (4, "failure", 4, ""), (WHOLE, "failure", 3, "told")],
)
async def test_it_happened(tmp_path: Path, value: Any, outcome: str, exit: int, stdout: str) -> None:
    """What a person said is the result; nothing is run. Nothing, an exit status, or all of it."""
    world = World(tmp_path / "d", activation(command("c", routes=to(failure="z")), generate("z")))
    await killed(world)
    async with world.process() as process:
        assert isinstance(await process.host.drive(), HostIntervention)
        resolve(process, "happened", value)
        assert isinstance(await process.host.drive(), TerminalProposal)
        assert process.ends()["c@1"] == outcome and not process.operations.asked
        output = process.last("c@1").output.inline
        assert (output["exit"], output["stdout"]) == (exit, stdout)


async def test_it_did_not_happen(tmp_path: Path) -> None:
    """Then it runs again from its savepoint; killed again, that is a new question which the old answer does not settle."""
    world = World(tmp_path / "d", activation(command("c")))
    await killed(world)
    async with world.process() as process:
        resolve(process, "did-not-happen")
    await killed(world)
    async with world.process() as process:
        assert isinstance(await process.host.drive(), HostIntervention) and not process.operations.asked
        resolve(process, "did-not-happen")
        assert isinstance(await process.host.drive(), TerminalProposal)
        assert process.last("c@1").output.inline["stdout"] == "again"


@pytest.mark.parametrize("value", ["done", True, [1], {"exit": 0}, 1.5])
async def test_what_is_no_result_does_not_count(tmp_path: Path, value: Any) -> None:
    """The question stays, and says what is wanted; the last resolution counts."""
    world = World(tmp_path / "d", activation(command("c")))
    await killed(world)
    async with world.process() as process:
        resolve(process, "happened", 0, call="another@1/1/t1")
        resolve(process, "happened", value)
        boundary = await process.host.drive()
        assert isinstance(boundary, HostIntervention) and "exit status" in boundary.detail
        resolve(process, "happened", 0)
        assert isinstance(await process.host.drive(), TerminalProposal) and process.ends() == {"c@1": "success"}


# --- the input of an interrupted attempt -----------------------------------------------------------------------------


async def test_an_attempt_goes_on_with_what_it_saw(tmp_path: Path) -> None:
    """A step that ran again beside it in the loop meanwhile does not change its prompt."""
    steps = (
        generate("start", budget_visits=2),
        generate("left", needs=("start",), prompt="{{ has(steps.right) ? steps.right.output.n : 0 }}"),
        generate("right", needs=("start",)),
        generate("judge", needs=("left", "right"), outcome="verdict", routes=to(again="start")),
    )
    world = World(tmp_path / "d", activation(*steps))
    prompts: list[str] = []
    right_done = asyncio.Event()

    async def act(dispatch: Dispatch) -> Disposition:
        key = dispatch.step.key
        if dispatch.step.site == "left":
            prompts.append(f"{key} {dispatch.prompt}")
        if key == "left@1":
            await right_first.wait()
        if key == "left@2" and not right_done.is_set():
            await asyncio.Event().wait()
        if key == "right@1":
            right_first.set()
        if key == "right@2":
            await until(lambda: "left@2 1" in prompts)
        return Completed(value=freeze({"n": dispatch.step.visit, "verdict": "again" if key == "judge@1" else "good"}))

    right_first = asyncio.Event()
    world.act = act
    async with world.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await until(lambda: "right@2" in process.ends())
        process.host.stop()
        assert await driving == HostStopped()
        assert process.ledger.open_steps() == (StepRef.parse("left@2"),)
    right_done.set()
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert [p for p in prompts if p.startswith("left@2")] == ["left@2 1", "left@2 1"]


@pytest.mark.parametrize("step", [agent("a"), generate("a"), command("a", effect="workspace"), approval("a")])
async def test_an_attempt_that_would_go_on_with_something_else(tmp_path: Path, step: Any) -> None:
    """It cannot be, as inputs are frozen: an integrity error names the step, and nothing is asked."""
    world = World(tmp_path / "d", activation(step))
    async with world.process() as process:
        savepoint = process.workspaces.current().commit
        started = StepAttemptStarted(savepoint=savepoint, input="sha256:" + "0" * 64)
        ref = StepRef.parse("a@1")
        pen = process.ledger.writer("host")
        pen.append(Draft(event=StepScheduled(), step=ref), Draft(event=started, step=ref, attempt=1))
        with pytest.raises(IntegrityError, match="a was begun with") as caught:
            await process.host.drive()
        assert caught.value.code is Code.LEDGER_CORRUPT
        assert not process.invocation.asked and not process.operations.asked
