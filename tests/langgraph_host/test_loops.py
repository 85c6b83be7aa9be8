"""Back routes: budgets, closings, and what a loop does to the steps beside it."""

import asyncio
from pathlib import Path

from runner.contract.activation import Output
from runner.contract.canonical import freeze
from runner.contract.outcomes import Outcome, Reason
from runner.contract.ports import CommandRequest, CommandResult, Completed, Dispatch, Disposition, TerminalProposal
from tests.langgraph_host.fakes import World, activation, agent, command, decision, exited, generate, to

LOOP = (
    agent("implement"),
    command("tests", needs=("implement",), routes=to(success="review", failure="implement"), budget_visits=3),
    generate("review"),
)


def failing(times: int) -> object:
    async def run(request: CommandRequest) -> CommandResult:
        return exited(1 if request.step.visit <= times else 0)

    return run


async def test_a_loop_goes_on_until_it_succeeds(tmp_path: Path) -> None:
    """Each pass is a new visit of everything downstream of the target; expressions see the last visit that ran."""
    world = World(tmp_path / "d", activation(*LOOP, output=Output(value="{{ steps.tests.visit }}")), run=failing(2))  # type: ignore[arg-type]
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.output is not None
        assert (boundary.outcome, boundary.output.inline) == (Outcome.COMPLETED, 3)
        assert process.ends() == {
            "implement@1": "success",
            "tests@1": "failure",
            "review@1": "superseded",
            "implement@2": "success",
            "tests@2": "failure",
            "review@2": "superseded",
            "implement@3": "success",
            "tests@3": "success",
            "review@3": "success",
        }


async def test_exactly_the_budget(tmp_path: Path) -> None:
    """A budget of three gives three visits; the fourth is not opened, and the step that asked for it says so."""
    world = World(tmp_path / "d", activation(*LOOP), run=failing(9))  # type: ignore[arg-type]
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.reason is Reason.BUDGET_EXHAUSTED
        assert boundary.step is not None and boundary.step.key == "tests@3"
        assert process.ends()["tests@3"] == "budget-exhausted" and "implement@4" not in process.ends()
        assert process.last("tests@3").output.inline["exit"] == 1


async def test_two_loops_in_a_row_have_a_budget_each(tmp_path: Path) -> None:
    """What the first goes over before it has run costs the second nothing: it goes back once, as its budget of two says."""
    world = World(
        tmp_path / "d",
        activation(
            command("build", routes=to(failure="build"), budget_visits=3),
            command("check", needs=("build",), routes=to(failure="check"), budget_visits=2),
        ),
    )
    ran: list[str] = []

    async def run(request: CommandRequest) -> CommandResult:
        ran.append(request.step.site)
        return exited(0 if ran.count(request.step.site) == {"build": 3, "check": 2}[request.step.site] else 1)

    world.run = run
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert ran == ["build"] * 3 + ["check"] * 2 and process.ends()["check@4"] == "success"


async def test_an_exhausted_budget_is_routed(tmp_path: Path) -> None:
    """As any outcome; the bound may be another step's than the one that decides."""
    world = World(
        tmp_path / "d",
        activation(
            generate("a", budget_visits=2),
            decision("d", "{{ 'again' }}", needs=("a",), routes=to(again="a", budget_exhausted="z")),
            generate("z"),
        ),
    )
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert process.ends()["d@2"] == "budget-exhausted" and process.ends()["z@2"] == "success"


async def test_work_in_flight_beside_a_loop_is_consumed(tmp_path: Path) -> None:
    """What runs downstream of the target when the loop goes back finishes first; its own routing no longer counts."""
    went_back = asyncio.Event()
    world = World(
        tmp_path / "d",
        activation(
            generate("a", budget_visits=2),
            generate("slow", needs=("a",), outcome="v", routes=to(stop="failed")),
            generate("fast", needs=("a",), outcome="v", routes=to(again="a")),
        ),
    )

    async def act(dispatch: Dispatch) -> Disposition:
        site, first = dispatch.step.site, dispatch.step.visit == 1
        if site == "slow" and first:
            await went_back.wait()
        if site == "fast" and first:
            asyncio.get_running_loop().call_later(0.01, went_back.set)
        verdict = {"slow": "stop", "fast": "again"}.get(site, "ok") if first else "ok"
        return Completed(value=freeze({"v": verdict}))

    world.act = act
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        assert list(process.ends().items())[1:3] == [("fast@1", "again"), ("slow@1", "stop")]
        assert process.ends()["slow@2"] == "ok"


async def test_two_loops_over_each_other_stay_within_their_budgets(tmp_path: Path) -> None:
    """An inner and an outer loop: every visit has exactly one end, none is beyond its budget, nothing is stuck."""
    world = World(
        tmp_path / "d",
        activation(
            generate("a", budget_visits=3),
            generate("b", needs=("a",), budget_visits=7),
            decision(
                "inner", "{{ steps.b.visit % 2 == 1 ? 'again' : 'on' }}", needs=("b",), routes=to(again="b", on="c")
            ),
            generate("c"),
            decision("outer", "{{ steps.a.visit < 3 ? 'again' : 'on' }}", needs=("c",), routes=to(again="a", on="z")),
            generate("z"),
        ),
    )
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.outcome is Outcome.COMPLETED
        ends = process.ends()
        assert [k for k in ends if k.startswith("a@")] == ["a@1", "a@2", "a@3"]
        assert ends["b@6"] == "success" and "b@7" not in ends and ends["z@6"] == "success"


async def test_a_step_may_go_back_to_itself(tmp_path: Path) -> None:
    """The smallest loop."""
    world = World(
        tmp_path / "d",
        activation(
            decision(
                "a",
                "{{ has(steps.a) && steps.a.visit >= 4 ? 'on' : 'again' }}",
                routes=to(again="a", on="completed"),
                budget_visits=9,
            )
        ),
    )
    async with world.process() as process:
        boundary = await process.host.drive()
        assert isinstance(boundary, TerminalProposal) and boundary.reason is Reason.ROUTED
        assert list(process.ends()) == [f"a@{n}" for n in range(1, 6)]
