"""Records over whole Deliveries: what is open, what people say, what verify looks at. Real git, processes and files."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from runner import NeedsIntervention, RunnerFactory, Settled, Suspended
from runner.contract import activation as a
from runner.contract.canonical import canonical, digest, thaw
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.ids import DeliveryId
from runner.contract.layout import delivery_layout
from runner.contract.scope import EVERYTHING
from runner.records import Records
from tests.delivery.world import PY, World, command, git

D1 = DeliveryId("d1")
PROGRAM = """
import asyncio, sys
from runner import RunnerFactory, RunnerFactoryConfig
async def go():
    async with RunnerFactory(RunnerFactoryConfig.load(sys.argv[1])).open() as runner:
        return await runner.execute(open(sys.argv[2], "rb").read())
asyncio.run(go())
"""
SCHEMA = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "reject"]}},
    "required": ["decision"],
    "additionalProperties": False,
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path).build()


def records(world: World) -> Records:
    return RunnerFactory(world.config()).open_records()


async def killed(world: World, activation: a.Activation, begun: Path) -> None:
    """Another process executes ``activation`` and is killed once the command has told so."""
    config, document = world.root / "runner.json", world.root / "activation.json"
    providers = {p.key: {"settings": dict(p.settings)} for p in world.config().providers}
    config.write_text(json.dumps({"state_root": str(world.state), "isolation": "none", "providers": providers}))
    document.write_bytes(canonical(activation.to_json()))
    driver = await asyncio.create_subprocess_exec(PY, "-c", PROGRAM, str(config), str(document))
    await asyncio.to_thread(begun.read_text)
    driver.send_signal(signal.SIGKILL)
    await driver.wait()


def approval(name: str, **more: object) -> a.Step:
    action = a.ApprovalAction(prompt="ship it?", answer_schema=SCHEMA)
    return a.Step.model_validate({"id": name, "action": action, **more})


async def test_an_approval_is_answered_from_outside(world: World) -> None:
    """Suspended with its wait; answered by a bare word; the next execute publishes, and nothing ran twice."""
    count = world.root / "count"
    once = command("once", PY, "-c", f"open({str(count)!r}, 'a').write('x')")
    activation = world.activation(once, approval("ship", needs=("once",)))
    suspended = await world.execute(activation)
    assert isinstance(suspended, Suspended)
    (wait,) = suspended.waits
    assert records(world).waits(D1) == (wait,)
    assert records(world).open_deliveries() == (D1,)
    assert records(world).answer(D1, None, "approve").wait == wait.wait
    settlement = (await world.settle(activation)).outcome
    assert (settlement, count.read_text()) == ("completed", "x")
    assert records(world).open_deliveries() == ()
    with pytest.raises(CallerError, match="no wait is open"):
        records(world).answer(D1, None, "approve")


@pytest.mark.parametrize("said", ["happened", "did-not-happen", "abandon"])
async def test_a_killed_command_is_resolved(world: World, said: str) -> None:
    """Its driver was killed while it ran: nobody guesses. What a person says is what counts: its result, another run, or
    the end of the Delivery."""
    begun, count = world.pipe("begun"), world.root / "count"
    script = f"echo x >> '{count}'; [ $(wc -l < '{count}') -gt 1 ] || {{ echo 1 > '{begun}'; sleep 600; }}"
    action = a.CommandAction(run=("sh", "-c", script), scope=EVERYTHING, effect="external")
    activation = world.activation(a.Step(id="send", action=action))
    await killed(world, activation, begun)
    state = records(world).inspect(D1)
    assert state.phase == "needs-intervention"
    (effect,) = state.uncertain
    asked = await world.execute(records(world).document(D1))  # type: ignore[arg-type]
    assert isinstance(asked, NeedsIntervention)
    assert asked.effects == (effect,)
    assert count.read_text() == "x\n"
    records(world).resolve(D1, effect.call, said, 0 if said == "happened" else None)
    settlement = await world.settle(activation)
    assert settlement.outcome == ("failed" if said == "abandon" else "completed")
    assert count.read_text().count("x") == (2 if said == "did-not-happen" else 1)
    assert [check for check in records(world).verify(D1).checks if not check.ok] == []


async def test_verify_looks_at_everything(world: World) -> None:
    """The whole record of a settled Delivery holds; a ref that somebody moved since is told, and is no fault of it."""
    write = "import pathlib; pathlib.Path('made').write_text('x')"
    activation = world.activation(command("make", PY, "-c", write, scope=EVERYTHING))
    assert isinstance(await world.execute(activation), Settled)
    found = records(world).verify(D1)
    assert [check for check in found.checks if not check.ok] == []
    names = [check.name for check in found.checks]
    assert names[:6] == ["chain", "order", "artifacts", "plan", "settlement", "checkpoint"]
    assert "savepoints" in names
    git(world.repository, "update-ref", "refs/heads/runner/d1", "main")
    assert [check for check in records(world).verify(D1).checks if not check.ok] == []


@pytest.mark.parametrize("size", [1, 100_000])
async def test_the_output_value(world: World, size: int) -> None:
    """However large, it is what the workflow gave and has the settlement's digest; altered, it is refused; without one, None."""
    output = a.Output(value={"report": "x" * size})
    settlement = await world.settle(world.activation(command("one", "true"), output=output))
    value = records(world).output(D1)
    assert thaw(value) == {"report": "x" * size} and digest(value) == settlement.output
    assert settlement.output is not None
    for file in delivery_layout(world.state, D1).artifacts.glob(f"*/{settlement.output.removeprefix('sha256:')}"):
        file.chmod(0o600)
        file.write_text('"forged"')
        with pytest.raises(IntegrityError):
            records(world).output(D1)


async def test_no_output_value(world: World) -> None:
    """A workflow without one, and a Delivery that nobody knows."""
    with pytest.raises(CallerError):
        records(world).output(D1)
    await world.settle(world.activation(command("one", "true")))
    assert records(world).output(D1) is None


async def test_the_ledger_can_be_followed(world: World) -> None:
    """Asked again behind the last record, there is nothing new, and nothing is missing."""
    await world.settle(world.activation(command("one", "true")))
    everything = list(records(world).events(D1))
    assert [record.seq for record in everything] == list(range(1, len(everything) + 1))
    assert list(records(world).events(D1, after=3)) == everything[3:]
    assert list(records(world).events(D1, after=len(everything))) == []


def test_what_was_never_accepted(world: World) -> None:
    """No document, no waits to answer, nothing to resolve: each says so, and nothing is made."""
    for ask in (
        lambda: records(world).document(D1),
        lambda: records(world).answer(D1, None, "approve"),
        lambda: records(world).resolve(D1, "c", "abandon"),
        lambda: records(world).takeover(D1),
        lambda: records(world).verify(D1),
    ):
        with pytest.raises(CallerError) as caught:
            ask()
        assert caught.value.code is Code.DELIVERY_UNKNOWN
    assert not world.state.exists()
