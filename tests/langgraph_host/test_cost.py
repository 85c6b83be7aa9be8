"""What a step costs does not grow with the steps before it, and a drive opens no connection."""

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

from runner.contract.events import STEP_ENDS
from runner.contract.ports import CommandRequest, CommandResult, TerminalProposal
from tests.langgraph_host.fakes import World, activation, command, decision, exited, to

VISITS = 301


async def test_transactions_and_bytes_per_visit_are_constant(tmp_path: Path) -> None:
    """The same number of durable transactions, records and checkpoint bytes at visit 10 and at visit 300 of a loop."""
    world = World(
        tmp_path / "d",
        activation(
            command("c", budget_visits=VISITS),
            decision(
                "d", "{{ steps.c.visit < input ? 'again' : 'on' }}", needs=("c",), routes=to(again="c", on="completed")
            ),
            input=VISITS,
        ),
    )
    at: dict[int, tuple[int, int]] = {}

    async with world.process() as process:

        async def run(request: CommandRequest) -> CommandResult:
            at[request.step.visit] = (process.ledger.transactions, process.ledger.head())
            return exited()

        process.operations._run = run
        assert isinstance(await process.host.drive(), TerminalProposal)
        assert len(list(process.ledger.read(kinds=STEP_ENDS))) == 2 * VISITS
        assert _differences(at, 10) == _differences(at, 300) == (4, 11)
    assert world.layout.checkpoints.stat().st_size < 100_000


def _differences(at: dict[int, tuple[int, int]], visit: int) -> tuple[int, int]:
    """Transactions (intent, result, end of the command; end of the decision) and records of one pass."""
    return at[visit + 1][0] - at[visit][0], at[visit + 1][1] - at[visit][1]


def test_tracing_in_the_environment_sends_nothing(tmp_path: Path) -> None:
    """With LangSmith's tracing switched on from outside, a drive opens no socket."""
    program = textwrap.dedent(
        """
        import asyncio, pathlib, sys
        def refuse(event, args):
            if event in ("socket.connect", "socket.getaddrinfo"):
                print(event, args[-1]); sys.stdout.flush(); import os; os._exit(9)
        sys.addaudithook(refuse)
        from tests.langgraph_host.fakes import World, activation, generate
        async def main():
            async with World(pathlib.Path(sys.argv[1]), activation(generate("a"))).process() as process:
                print(type(await process.host.drive()).__name__)
        asyncio.run(main())
        from langsmith import run_trees
        client = run_trees._CLIENT
        print("no client" if client is None else "a client")
        """
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        env = {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": url, "LANGSMITH_API_KEY": "k", "PATH": ""}
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "d")],
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
            cwd=Path(__file__).parents[2],
            check=False,
        )
    assert (done.returncode, done.stdout.split("\n")) == (0, ["TerminalProposal", "no client", ""]), done.stderr
