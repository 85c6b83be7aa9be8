"""Whole Deliveries over real git, processes, files and HTTP: what they publish, repeat, refuse and leave alone."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from runner import Busy, RunnerFactory, Settled
from runner.contract import activation as a
from runner.contract.canonical import parse
from runner.contract.errors import CallerError, Code
from tests.delivery.world import PY, READ_ONLY, SECRET, SRC, World, agent, command, git
from tests.servers.chunks import Call, Calls, Garbage, Result, Text
from tests.servers.scripted_openai import Dropped, ScriptedOpenAi, Status, in_order

WRITE = "import pathlib; pathlib.Path('src/made.py').write_text('MADE = 1\\n')"


async def test_a_command_workflow_settles_and_publishes(world: World) -> None:
    """The result is a commit on the base, at a new branch, with exactly what the steps wrote."""
    before = world.fingerprint()
    settlement = await world.settle(world.activation(command("make", PY, "-c", WRITE, scope=SRC)))
    assert settlement.outcome == "completed"
    assert settlement.publication.disposition == "published"
    published = git(world.repository, "rev-parse", "refs/heads/runner/d1")
    assert published == settlement.result_commit == settlement.publication.new
    assert git(world.repository, "show", "runner/d1:src/made.py") == "MADE = 1"
    assert git(world.repository, "rev-parse", "runner/d1^") == git(world.repository, "rev-parse", "main")
    assert git(world.repository, "diff", "--stat", "main", "runner/d1").splitlines()[-1].startswith(" 1 file changed")
    assert world.fingerprint() == before


async def test_executed_again_it_answers_the_same_bytes_without_effect(world: World) -> None:
    """After settlement the same activation is a lookup: same bytes, no record, no process, no git."""
    count = world.root / "count"
    activation = world.activation(command("once", PY, "-c", f"open({str(count)!r}, 'a').write('x')"))
    first = await world.settle(activation)
    records = world.kinds()
    again = await world.settle(activation)
    assert again.to_bytes() == first.to_bytes()
    assert world.kinds() == records
    assert count.read_text() == "x"


async def test_another_input_under_the_same_id_is_refused_before_any_effect(world: World) -> None:
    """A Delivery id belongs to one activation."""
    await world.settle(world.activation(command("one", "true")))
    records = world.kinds()
    with pytest.raises(CallerError) as caught:
        await world.execute(world.activation(command("two", "true")))
    assert caught.value.code is Code.CORRELATION_MISMATCH
    assert world.kinds() == records


async def test_a_second_driver_meanwhile_is_told_who_drives(world: World) -> None:
    """Busy names host, pid and since when; nothing is done."""
    begun, gate = world.pipe("begun"), world.pipe("gate")
    activation = world.activation(command("hold", "sh", "-c", f"echo 1 > '{begun}'; cat '{gate}'"))
    running = asyncio.create_task(world.execute(activation))
    await world.begun(begun, running)
    program = (
        "import asyncio,sys\nfrom runner import RunnerFactory, RunnerFactoryConfig\n"
        "async def go():\n"
        f" config = RunnerFactoryConfig.load({str(world.root / 'runner.json')!r})\n"
        " async with RunnerFactory(config).open() as r: return await r.execute(sys.stdin.buffer.read())\n"
        "b = asyncio.run(go()); print(type(b).__name__, b.host, b.pid, b.since)"
    )
    config = world.config()
    (world.root / "runner.json").write_text(
        json.dumps(
            {
                "state_root": config.state_root,
                "isolation": config.isolation,
                "providers": {p.key: {"settings": dict(p.settings)} for p in config.providers},
            }
        )
    )
    other = await asyncio.create_subprocess_exec(
        PY, "-c", program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await other.communicate(json.dumps(activation.model_dump(mode="json")).encode())
    here = await world.execute(activation)
    await asyncio.to_thread(gate.write_text, "go")
    assert isinstance(await running, Settled)
    name, host, pid, since = out.decode().split()
    assert (name, host, int(pid)) == ("Busy", socket.gethostname(), os.getpid())
    assert since.endswith("Z") or "+" in since
    assert isinstance(here, Busy)


async def test_an_agent_outside_its_scope_is_rejected_and_undone(world: World) -> None:
    """The paths and the rule are named, the worktree is what it was, nothing is published, no attempt is spent."""
    script = (
        "import pathlib; pathlib.Path('README').write_text('taken over\\n'); pathlib.Path('x').mkdir();"
        "pathlib.Path('x/new').write_text('1')"
    )
    before = world.fingerprint()
    settlement = await world.settle(world.activation(command("stray", PY, "-c", script, scope=SRC)))
    assert (settlement.outcome, settlement.reason) == ("failed", "scope-violation")
    assert settlement.publication.disposition == "not-requested"
    failed = next(r.event for r in world.records() if r.event.KIND == "step.failed")
    assert failed.code == "scope-violation"
    assert any("README" in p for p in failed.paths)
    assert any("x/new" in p for p in failed.paths)
    assert "src/**" in failed.message and "let the step's 'scope' allow" in failed.message.lower()
    assert (world.worktree / "README").read_text() == "hello\n"
    assert not (world.worktree / "x").exists()
    assert world.kinds().count("step.attempt_started") == 1
    assert world.fingerprint() == before


async def test_a_target_that_moved_meanwhile_is_a_conflict(world: World) -> None:
    """Conflict is known and settles; the result is preserved, the user's ref is left alone."""
    theirs = git(world.repository, "rev-parse", "main")
    move = f"import subprocess; subprocess.check_call(['git','-C',{str(world.repository)!r},'update-ref','refs/heads/runner/d1','{theirs}'])"
    settlement = await world.settle(
        world.activation(command("make", PY, "-c", WRITE), command("move", PY, "-c", move, needs=("make",)))
    )
    assert settlement.outcome == "completed"
    assert (settlement.publication.disposition, settlement.publication.reason) == ("conflict", "moved")
    assert settlement.publication.new == theirs
    assert git(world.repository, "rev-parse", "refs/heads/runner/d1") == theirs
    assert git(world.repository, "show", f"{settlement.result_commit}:src/made.py") == "MADE = 1"


async def test_an_agent_works_through_real_http(world: World) -> None:
    """Tool calls over the file tools, a structured result, usage; 429 and 500 are retried; the secret is in no file."""
    replies = in_order(
        Status(429, retry_after="0"),
        Calls((Call("read", {"path": "src/app.py"}),)),
        Status(500),
        Calls((Call("edit", {"path": "src/app.py", "old": "VALUE = 1", "new": "VALUE = 2"}),)),
        Result({"summary": f"done, and the key is {SECRET}"}),
    )
    with ScriptedOpenAi(replies) as server:
        world.base_url = server.base_url
        output = a.Output(value="{{ steps.edit.output.summary }}", json_schema={"type": "string"})
        settlement = await world.settle(world.activation(agent("edit", "Raise the value.", SRC), output=output))
        assert len(server.requests) == 5
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert settlement.outcome == "completed", world.records()[-8:]
    assert git(world.repository, "show", "runner/d1:src/app.py") == "VALUE = 2"
    assert SECRET.encode() not in world.every_byte()
    responded = [r.event for r in world.records() if r.event.KIND == "model.responded"]
    assert sum(e.usage.input_tokens or 0 for e in responded) == 33


async def test_a_recording_replays_to_the_same_settlement_elsewhere(tmp_path: Path) -> None:
    """Recorded through every way in which an endpoint can fail, replayed offline in another directory: the same outcome,
    output, tree, commit and publication. Only what names the provider differs."""
    live = World(tmp_path / "live", record_to=tmp_path / "recordings").build()
    elsewhere = World(tmp_path / "far" / "away", recorded=tmp_path / "recordings" / "d1").build()
    output = a.Output(value="{{ steps.edit.output.summary }}", json_schema={"type": "string"})
    edit = agent("edit", "Raise the value.", SRC)
    read = Calls((Call("read", {"path": "src/app.py"}),))
    replies = in_order(
        Status(429, retry_after="0"),
        Dropped(read),
        read,
        Status(500),
        Calls((Call("edit", '{"path": "src/app.py", "old'),)),
        Calls((Call("edit", {"path": "src/app.py", "old": "VALUE = 1", "new": "VALUE = 2"}),)),
        Garbage(),
        Text("It is done."),
        Result({"summary": "raised"}),
    )
    with ScriptedOpenAi(replies) as server:
        live.base_url = server.base_url
        first = await live.settle(live.activation(edit, output=output))
        assert len(server.requests) == 9
    second = await elsewhere.settle(elsewhere.activation(edit, output=output))
    assert first.outcome == "completed"
    named = {"activation", "plan", "retirements"}  # by the binding, which differs: openai there, recorded here
    assert {**first.model_dump(exclude=named)} == {**second.model_dump(exclude=named)}


async def test_a_loop_runs_to_its_budget_and_no_further(world: World) -> None:
    """Visits are counted; exactly the budget passes, one more ends as budget-exhausted."""
    count = "import pathlib; p=pathlib.Path('n'); n=int(p.read_text() if p.exists() else 0)+1; p.write_text(str(n)); raise SystemExit(n<%d)"
    passes = command("try", PY, "-c", count % 3, routes=(a.RouteTo(outcome="failure", to="try"),), budget_visits=3)
    assert (await world.settle(world.activation(passes))).outcome == "completed"
    fails = command("try", PY, "-c", count % 7, routes=(a.RouteTo(outcome="failure", to="try"),), budget_visits=3)
    settlement = await world.settle(world.activation(fails, delivery="d2"))
    assert (settlement.outcome, settlement.reason) == ("failed", "budget-exhausted")


async def test_cancel_from_another_runner_settles_as_cancelled(world: World) -> None:
    """A cancel reaches the driver through the inbox; its process is ended; the worktree is restored."""
    begun = world.pipe("begun")
    activation = world.activation(command("hang", "sh", "-c", f"echo x > src/half; echo 1 > '{begun}'; sleep 1000"))
    running = asyncio.create_task(world.execute(activation))
    await world.begun(begun, running)
    assert (world.worktree / "src" / "half").exists()
    async with RunnerFactory(world.config()).open() as runner:
        ack = await runner.cancel("d1")  # type: ignore[arg-type]
    result = await running
    assert ack.disposition == "requested"
    assert isinstance(result, Settled)
    assert (result.settlement.outcome, result.settlement.publication.disposition) == ("cancelled", "not-requested")
    assert not (world.worktree / "src" / "half").exists()


async def test_nothing_ran_is_incomplete(world: World) -> None:
    """A Delivery whose only step is skipped is not a success."""
    settlement = await world.settle(world.activation(command("never", "true", when="{{ 1 > 2 }}")))
    assert (settlement.outcome, settlement.reason) == ("incomplete", "nothing-ran")


async def test_a_read_only_step_that_only_reads_publishes_nothing_new(world: World) -> None:
    """An unchanged tree publishes the base itself."""
    settlement = await world.settle(world.activation(command("look", "cat", "src/app.py", scope=READ_ONLY)))
    assert settlement.outcome == "completed"
    assert settlement.result_tree == git(world.repository, "rev-parse", "main^{tree}")


async def test_one_changed_byte_of_an_activation_is_noticed(world: World) -> None:
    """The binding identity is recomputed before anything is written."""
    data = json.dumps(world.activation(command("one", "true")).model_dump(mode="json")).replace('"true"', '"trux"')
    async with RunnerFactory(world.config()).open() as runner:
        with pytest.raises(CallerError) as caught:
            await runner.execute(data.encode())
    assert caught.value.code is Code.ACTIVATION_TAMPERED
    assert not world.state.exists()
    assert parse(data)


async def test_text_is_not_completion(world: World) -> None:
    """An agent that only talks gets one corrective turn, then has not completed."""
    with ScriptedOpenAi(in_order(*[Text("I am done!")] * 9)) as server:
        world.base_url = server.base_url
        settlement = await world.settle(world.activation(agent("talk", "Do it.", SRC)))
    assert settlement.outcome == "failed"


async def test_a_command_that_prints_the_key_leaves_it_nowhere(world: World) -> None:
    """Secrets are redacted where output enters, whoever prints them: a command finds the key's file and shows it."""
    leak = command("leak", "cat", str(world.root / "key"), scope=READ_ONLY)
    with ScriptedOpenAi(in_order(Result({"summary": "fine"}))) as server:
        world.base_url = server.base_url
        activation = world.activation(
            leak, agent("look", "Say: {{ steps.leak.output.stdout }}", READ_ONLY, needs=("leak",))
        )
        settlement = await world.settle(activation)
        assert settlement.outcome == "completed"
        assert "[redacted]" in json.dumps(server.requests[0].body)
        assert SECRET not in json.dumps(server.requests[0].body)
    assert SECRET.encode() not in world.every_byte()
