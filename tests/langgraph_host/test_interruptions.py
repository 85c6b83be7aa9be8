"""Cancel, stop, suspension, intervention, a cancelled driver, a crash: what runs ends, what is open can go on."""

import asyncio
from pathlib import Path

import pytest

from runner.contract.canonical import freeze
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import ToolFailed, ToolSucceeded
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import Outcome, Reason
from runner.contract.ports import (
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
    Uncertain,
)
from runner.contract.records import Draft
from tests.langgraph_host.fakes import World, activation, agent, command, exited, generate, to, values


class Hanging:
    """Steps of some sites hang until they are cancelled; ``reached`` is set when all do."""

    def __init__(self, world: World, *sites: str) -> None:
        self.world, self.sites, self.reached, self.cancelled = world, sites, asyncio.Event(), 0
        self.there: set[str] = set()

    async def act(self, dispatch: Dispatch) -> Disposition:
        await self.hang(dispatch.step)
        return Completed(value=None)

    async def run(self, request: CommandRequest) -> CommandResult:
        await self.hang(request.step)
        return exited()

    async def hang(self, step: StepRef) -> None:
        if step.site not in self.sites:
            return
        if not step.site.startswith("g"):
            self.world.disk["half"] = step.key
        self.there.add(step.site)
        if self.there == set(self.sites):
            self.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def hanging(world: World, *sites: str) -> Hanging:
    hang = Hanging(world, *sites)
    world.act, world.run = hang.act, hang.run
    return hang


async def test_cancel_ends_what_runs_and_starts_nothing(tmp_path: Path) -> None:
    """Open steps end ``cancelled``, files go back, waiting steps never start; the reason is the caller's."""
    world = World(tmp_path / "d", activation(agent("a"), generate("g"), command("c"), generate("next", needs=("a",))))
    hang = hanging(world, "a", "g")
    async with world.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await hang.reached.wait()
        process.host.cancel(Reason.DELIVERY_TIMEOUT)
        boundary = await driving
        assert isinstance(boundary, TerminalProposal)
        assert (boundary.outcome, boundary.reason) == (Outcome.CANCELLED, Reason.DELIVERY_TIMEOUT)
        assert process.ends() == {"a@1": "cancelled", "g@1": "cancelled"}
        assert world.disk == {} and hang.cancelled == 2 and not process.operations.asked
        assert await process.host.drive() == boundary


async def test_cancel_of_an_attempt_that_a_crash_left(tmp_path: Path) -> None:
    """Nothing is started for it; its end is recorded and the worktree is put back."""
    world = World(tmp_path / "d", activation(agent("a")))
    await crash_in(world, "a")
    async with world.process() as process:
        process.host.cancel(Reason.CANCEL_REQUESTED)
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.CANCELLED
        assert process.ends() == {"a@1": "cancelled"} and world.disk == {}
        assert not process.invocation.asked


async def crash_in(world: World, *sites: str) -> None:
    """Leaves an open attempt of each of ``sites`` as a killed process would: started in the ledger, files half written."""
    hang = hanging(world, *sites)
    process = world.process()
    driving = asyncio.create_task(process.host.drive())
    await hang.reached.wait()
    driving.cancel()
    await asyncio.wait({driving})
    await process.host.close()
    process.ledger.close()


async def test_stop_leaves_the_attempt_open_and_it_goes_on(tmp_path: Path) -> None:
    """Same attempt, from its savepoint, started once in the ledger; the step after it runs as if nothing had been."""
    world = World(tmp_path / "d", activation(agent("a"), agent("b"), generate("z", needs=("a", "b"))))
    hang = hanging(world, "a")
    async with world.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await hang.reached.wait()
        process.host.stop()
        process.host.stop()
        assert await driving == HostStopped()
        assert process.ends() == {} and world.disk == {"half": "a@1"}
    world.act = values({})
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert process.workspaces.begun[0] == ("a@1", next(iter(world.history)))
        assert process.events("a@1").count("step.attempt_started") == 1
        assert [d.attempt for d in process.invocation.asked] == [1, 1, 1] and world.disk == {}


async def test_stop_waits_for_a_running_command(tmp_path: Path) -> None:
    """It could not be resumed; nothing starts behind it. The same host can be driven on."""
    world = World(tmp_path / "d", activation(command("c"), generate("z", needs=("c",))))
    running, finish = asyncio.Event(), asyncio.Event()

    async def run(_: CommandRequest) -> CommandResult:
        running.set()
        await finish.wait()
        return exited()

    world.run = run
    async with world.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await running.wait()
        process.host.stop()
        finish.set()
        assert await driving == HostStopped()
        assert process.ends() == {"c@1": "success"}
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and process.ends()["z@1"] == "success"


async def test_a_cancelled_driver_ends_everything_and_keeps_it_open(tmp_path: Path) -> None:
    """``CancelledError`` travels on once nothing runs, also when it comes twice; the Delivery goes on later."""
    world = World(tmp_path / "d", activation(command("c", effect="workspace"), generate("g")))
    hang = hanging(world, "c", "g")
    async with world.process() as process:
        driving = asyncio.create_task(process.host.drive())
        await hang.reached.wait()
        driving.cancel()
        await asyncio.sleep(0)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        assert process.invocation.running == set() and process.ends() == {}
        assert {s.key for s in process.ledger.open_steps()} == {"c@1", "g@1"}
    world.act, world.run = values({}), World(tmp_path, world.activation).run
    async with world.process() as process:
        assert isinstance(await process.host.drive(), TerminalProposal)
        assert process.ends() == {"c@1": "success", "g@1": "success"} and world.disk == {}


@pytest.mark.parametrize("kind", [agent, generate])
async def test_a_refused_start_suspends_without_an_end(tmp_path: Path, kind: object) -> None:
    """Unrelated steps finish first; the step stays open and goes on with the next drive."""
    world = World(tmp_path / "d", activation(kind("a"), generate("b"), generate("c", needs=("b",))))  # type: ignore[operator]
    world.act = values({"a": Failed(code="quota", message="come back", retriable=True, suspend_s=60.0)})
    async with world.process() as process:
        step = StepRef(site=SiteId("a"))
        expected = HostSuspended(reason="quota", detail="come back", step=step, resume_in_s=60.0)
        assert await process.host.drive() == expected
        assert process.ends() == {"b@1": "success", "c@1": "success"}
    world.act = values({})
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert process.events("a@1").count("step.scheduled") == 1


async def test_no_other_attempt_comes_between_a_suspended_one_and_its_savepoint(tmp_path: Path) -> None:
    """While an attempt of the worktree is open, no other begins there; the open one goes first afterwards."""
    world = World(tmp_path / "d", activation(agent("a"), agent("b"), command("c")))
    world.act = values({"a": Failed(code="quota", message="m", retriable=True, suspend_s=1.0)})
    async with world.process() as process:
        assert isinstance(await process.host.drive(), HostSuspended)
        assert [key for key, _ in process.workspaces.begun] == ["a@1"] and process.ends() == {}
    world.act = values({})
    async with world.process() as process:
        assert isinstance(await process.host.drive(), TerminalProposal)
        assert next(key for key, _ in process.workspaces.begun) == "a@1" and len(process.ends()) == 3


async def test_an_uncertain_effect_needs_a_person(tmp_path: Path) -> None:
    """Nothing new starts; what runs beside it finishes."""
    world = World(tmp_path / "d", activation(agent("a"), generate("b"), generate("c", needs=("b",))))
    seen = asyncio.Event()

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site == "a":
            seen.set()
            return Uncertain(call="a@1/1/t1", why="killed")
        await seen.wait()
        await world.clock.sleep(1)
        return Completed(value=None)

    world.act = act
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, HostIntervention) and boundary.step.key == "a@1"
        assert process.ends() == {"b@1": "success"}


async def test_a_foreign_edit_needs_a_person(tmp_path: Path) -> None:
    """A worktree that somebody edited between two processes is never blamed on the next step."""
    world = World(tmp_path / "d", activation(agent("a"), agent("b", needs=("a",))))
    world.act = values({"b": Failed(code="quota", message="m", retriable=True, suspend_s=1.0)})
    async with world.process() as process:
        process.host.stop()
        assert await process.host.drive() == HostStopped()
    world.disk["mine"] = "edited by a person"
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, HostIntervention) and boundary.reason == "worktree-edited"
        assert "mine" in boundary.detail and process.ledger.open_steps() == ()


@pytest.mark.parametrize(("effect", "repeats"), [("workspace", True), ("idempotent", True), ("external", False)])
async def test_an_interrupted_command_by_its_effect(tmp_path: Path, effect: str, repeats: bool) -> None:
    """What may have had effects outside is not repeated: a person decides. Everything else runs again from its savepoint."""
    world = World(tmp_path / "d", activation(command("c", effect=effect)))
    await crash_in(world, "c")
    world.run = World(tmp_path, world.activation).run
    async with world.process() as process:
        boundary = await process.host.drive()
        assert len(process.operations.asked) == repeats
        if repeats:
            assert process.ends() == {"c@1": "success"} and world.disk == {}
        else:
            assert isinstance(boundary, HostIntervention) and boundary.reason == "uncertain-effect"


async def test_a_recorded_result_is_used(tmp_path: Path) -> None:
    """A command with effects outside whose end is in the ledger is not run again."""
    world = World(tmp_path / "d", activation(command("c", routes=to(failure="z")), generate("z")))
    await crash_in(world, "c")
    world.disk.clear()
    async with world.process() as process:
        value = {"end": "exit", "status": 4, "stdout": "out", "stderr": "", "truncated": False, "message": ""}
        ref = process.ledger.artifacts.put(freeze(value))
        event = ToolSucceeded(call="c@1/1/t1", value=ref)
        process.ledger.writer("operations").append(Draft(event=event, step=StepRef(site=SiteId("c"))))
    async with world.process() as process:
        await process.host.drive()
        assert process.ends() == {"c@1": "failure", "z@1": "success"} and not process.operations.asked
        assert process.last("c@1").output.inline["stdout"] == "out"


async def test_a_recorded_start_that_failed_is_a_result(tmp_path: Path) -> None:
    """A command with effects outside that could not be started had none: nobody is asked, and it is not tried again."""
    world = World(tmp_path / "d", activation(command("c", routes=to(failure="z")), generate("z")))
    await crash_in(world, "c")
    world.disk.clear()
    async with world.process() as process:
        event = ToolFailed(call="c@1/1/t1", message="'x' was not found")
        process.ledger.writer("operations").append(Draft(event=event, step=StepRef(site=SiteId("c"))))
    async with world.process() as process:
        await process.host.drive()
        assert process.ends() == {"c@1": "failure", "z@1": "success"} and not process.operations.asked


async def test_a_terminal_route_supersedes_what_runs(tmp_path: Path) -> None:
    """In-flight work is ended, put back and recorded; nothing starts any more; the route names the outcome."""
    world = World(tmp_path / "d", activation(agent("a"), generate("b", routes=to(success="incomplete")), command("c")))
    hang = hanging(world, "a")

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site == "b":
            await hang.reached.wait()
        return await hang.act(dispatch)

    world.act = act
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.step is not None
        assert (boundary.outcome, boundary.reason, boundary.step.key) == (Outcome.INCOMPLETE, Reason.ROUTED, "b@1")
        assert process.ends() == {"b@1": "success", "a@1": "superseded"} and world.disk == {}
        assert not process.operations.asked
    async with world.process() as process:
        assert await process.host.drive() == boundary


async def test_an_unrouted_failure_supersedes_what_runs(tmp_path: Path) -> None:
    """As a terminal route does, with the step's own message; also when the crash came between the two records."""
    world = World(tmp_path / "d", activation(agent("a"), generate("g")))
    await crash_in(world, "a", "g")
    hang = hanging(world, "a")

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site == "g":
            await hang.reached.wait()
            return Failed(code="broken", message="it broke", retriable=False)
        return await hang.act(dispatch)

    world.act = act
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal)
        assert (boundary.outcome, boundary.reason) == (Outcome.FAILED, Reason.STEP_FAILED)
        assert boundary.detail == "it broke" and process.ends() == {"g@1": "failure", "a@1": "superseded"}
        assert world.disk == {}


async def test_a_fault_travels_and_the_delivery_stays_open(tmp_path: Path) -> None:
    """What a primitive raises comes out of ``drive`` as it is, once nothing runs; the next drive goes on."""
    world = World(tmp_path / "d", activation(generate("a"), generate("b")))
    hang = hanging(world, "b")

    async def act(dispatch: Dispatch) -> Disposition:
        if dispatch.step.site == "a":
            await hang.reached.wait()
            raise EnvironmentFault(Code.DISK_FULL, "no room")
        return await hang.act(dispatch)

    world.act = act
    async with world.process() as process:
        with pytest.raises(EnvironmentFault) as raised:
            await process.host.drive()
        assert raised.value.code is Code.DISK_FULL and hang.cancelled == 1
        world.act = process.invocation._act = values({})
        assert isinstance(await process.host.drive(), TerminalProposal)
        assert process.ends() == {"a@1": "success", "b@1": "success"}
