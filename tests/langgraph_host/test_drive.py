"""Whole drives on a real ledger with fake primitives."""

from pathlib import Path

from runner.contract.outcomes import Outcome, Reason
from runner.contract.ports import TerminalProposal
from tests.langgraph_host.fakes import World, activation, agent, command, decision, exited, generate, to


async def test_chain(tmp_path: Path) -> None:
    """Every kind of step runs, in the order of its needs, and the Delivery completes."""
    world = World(
        tmp_path / "d",
        activation(
            agent("a"),
            command("b", needs=("a",)),
            decision("c", "{{ steps.b.output.exit }}", needs=("b",), routes=to(**{"0": "e", "1": "f"})),
            generate("e"),
            generate("f"),
            generate("g", needs=("e", "f")),
        ),
    )
    async with world.process() as process:
        boundary = await process.host.drive()
        assert boundary == TerminalProposal(
            outcome=Outcome.COMPLETED, reason=Reason.ALL_STEPS_FINISHED, step=None, detail="", output=None
        )
        assert process.ends() == {
            "a@1": "success",
            "b@1": "success",
            "c@1": "0",
            "e@1": "success",
            "f@1": "skipped",
            "g@1": "success",
        }


async def test_loop(tmp_path: Path) -> None:
    """A failing step goes back as often as its budget allows, then is budget-exhausted."""

    async def run(_):
        return exited(1)

    world = World(
        tmp_path / "d",
        activation(
            agent("a"),
            command("b", needs=("a",), routes=to(success="c", failure="a"), budget_visits=3),
            generate("c"),
        ),
        run=run,
    )
    async with world.process() as process:
        boundary = await process.host.drive()
        print(process.ends())
        assert boundary.reason is Reason.BUDGET_EXHAUSTED
        assert process.ends()["b@3"] == "budget-exhausted"
