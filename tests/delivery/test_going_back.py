"""A new Delivery from the middle of another: what had ended counts, what had not is done, over the files as they were then."""

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner import Dependencies, RunnerFactory, Settled
from runner.clock import SystemClock
from runner.contract import activation as a
from runner.contract.errors import CallerError, Code
from runner.contract.events import SavepointTaken, ToolCalled
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import Departure
from runner.records import Records
from tests.delivery.world import EVERYTHING, PY, World, agent, command, git
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import ScriptedOpenAi, in_order


def records(world: World) -> Records:
    return RunnerFactory(world.config()).open_records()


def elsewhere(world: World, name: str) -> Path:
    """Another worktree at the base commit."""
    path = world.root / name
    git(world.repository, "worktree", "add", "-q", "--detach", str(path), git(world.worktree, "rev-parse", "HEAD"))
    return path


def started(world: World, old: a.Activation, departure: Departure, name: str = "d2", **changes: Any) -> a.Activation:
    """``old`` again under another name and in another worktree, from where it says."""
    workspace = old.workspace.model_copy(update={"worktree": str(elsewhere(world, name))})
    fields: dict[str, Any] = {
        "delivery": name,
        "admitted_at": "2026-02-03T04:05:06Z",
        "workspace": workspace,
        "target": a.Target(ref=f"refs/heads/runner/{name}", expected="absent"),
        "origin": departure.origin,
        **changes,
    }
    kept = ("workflow", "executors", "tools", "limits", "input")
    return a.seal(**{**{field: getattr(old, field) for field in kept}, **fields})


def counted(world: World, name: str) -> tuple[str, ...]:
    """A command that appends to a file outside every worktree, and writes one inside."""
    text = f"open({str(world.root / 'count')!r}, 'a').write({name!r}); open('{name}.txt', 'w').write({name!r})"
    return (PY, "-c", text)


def ran(world: World) -> str:
    path = world.root / "count"
    return path.read_text() if path.exists() else ""


def flaky(world: World) -> tuple[str, ...]:
    """Fails until the file ``mended`` is there."""
    text = f"import os, sys; open('half', 'w').write('x'); sys.exit(not os.path.exists({str(world.root / 'mended')!r}))"
    return (PY, "-c", text)


def failing(world: World) -> a.Activation:
    return world.activation(
        command("one", *counted(world, "a")),
        command("two", *flaky(world), needs=("one",)),
        command("three", *counted(world, "c"), needs=("two",)),
    )


async def test_retry_does_only_what_had_not_succeeded(world: World) -> None:
    """The failed step runs again over the files that it had found, once; what had ended before does not; the result is the
    whole difference from the base commit; the old Delivery is what it was."""
    old = failing(world)
    first = await world.settle(old)
    assert (first.outcome, first.step) == ("failed", "two@1")
    before = [record.event for record in world.records()]
    (world.root / "mended").touch()
    departure = records(world).failure_to_retry(DeliveryId("d1"))
    assert (departure.step, departure.what) == ("two@1", "before two")
    new = started(world, old, departure)
    told = records(world).taken_over(new)
    assert (told.kept, told.again, told.changed) == (("one@1",), ("two@1",), ())
    second = await world.settle(new)
    assert second.outcome == "completed"
    assert ran(world) == "ac"
    changed = git(world.repository, "diff", "--name-only", old.workspace.base_commit, second.result_commit).split()
    assert changed == ["a.txt", "c.txt", "half"]
    assert [record.event for record in world.records()] == before
    assert world.kinds("d2").count("delivery.forked") == 1
    assert records(world).inspect(DeliveryId("d2")).origin.startswith("d1 at record ")
    checks = {check.name: check for check in records(world).verify(DeliveryId("d2")).checks}
    assert all(check.ok for check in checks.values()), checks
    assert await world.settle(new) == second
    assert checks["origin"].detail.endswith("they are what the source has there")


def write(path: str, text: str) -> Call:
    return Call("write", {"path": path, "content": text})


async def test_a_fork_goes_on_behind_a_tool_call(world: World) -> None:
    """From the middle of a session: no model call that was answered is made again and no tool call that returned runs again;
    the files are those behind the call; what is called from then on goes by the new Delivery's keys."""
    replies = in_order(
        Calls((write("src/a", "1"),)),
        Calls((write("src/b", "2"), write("src/c", "3"))),
        Result({"summary": "first"}),
        Calls((write("src/d", "4"),)),
        Result({"summary": "second"}),
    )
    with ScriptedOpenAi(replies) as server:
        world.base_url = server.base_url
        old = world.activation(command("one", *counted(world, "a")), agent("code", "Go.", EVERYTHING, needs=("one",)))
        assert (await world.settle(old)).outcome == "completed"
        listed = records(world).savepoints(DeliveryId("d1"))
        assert [(s.role, s.call) for s in listed if s.role == "mid-step"] == [
            ("mid-step", f"code@1/1/t{n}") for n in (1, 2, 3)
        ]
        middle = next(s for s in listed if s.call == "code@1/1/t2")
        departure = records(world).savepoint_to_fork(DeliveryId("d1"), middle.savepoint[:8])
        assert (departure.step, departure.what) == ("code@1", "code after write (code@1/1/t2)")
        new = started(world, old, departure)
        assert records(world).taken_over(new).inside == "code@1"
        # The third call of the second answer is made anew; then the model is asked what nobody asked before.
        second = await world.settle(new)
    assert second.outcome == "completed"
    assert len(server.requests) == 5
    there = Path(new.workspace.worktree)
    assert sorted(p.name for p in (there / "src").iterdir()) == ["a", "app.py", "b", "c", "d"]
    assert ran(world) == "a"
    keys = {e.key for e in (r.event for r in world.records()) if isinstance(e, ToolCalled)}
    assert keys.isdisjoint(e.key for e in (r.event for r in world.records("d2")) if isinstance(e, ToolCalled))
    assert all(check.ok for check in records(world).verify(DeliveryId("d2")).checks)
    changed = git(world.repository, "diff", "--name-only", old.workspace.base_commit, second.result_commit).split()
    assert changed == ["a.txt", "src/a", "src/b", "src/c", "src/d"]


def only(world: World, old: a.Activation, word: str) -> Departure:
    return records(world).savepoint_to_fork(DeliveryId(old.delivery), word)


async def test_a_changed_workflow_takes_over_what_fits(world: World) -> None:
    """An end whose step is defined differently now is taken over and named; a step that is gone, one that now follows something
    that has not run, and an end that ends the Delivery are refused by name before anything is made."""
    old = failing(world)
    await world.settle(old)
    (world.root / "mended").touch()
    steps = {step.id: step for step in old.workflow.steps}
    other = command("one", *counted(world, "z"))
    departure = only(world, old, "one")

    def changed(*given: a.Step, name: str) -> a.Activation:
        workflow = old.workflow.model_copy(update={"steps": given})
        return started(world, old, departure, name, workflow=workflow)

    fits = changed(other, steps["two"], steps["three"], name="fits")
    assert records(world).taken_over(fits).changed == ("one@1",)
    assert (await world.settle(fits)).outcome == "completed"
    assert ran(world) == "ac"
    gone = changed(command("two", "true"), name="gone")
    early = changed(
        command("zero", "true"),
        steps["one"].model_copy(update={"needs": ("zero",)}),
        steps["two"],
        name="early",
    )
    for activation, problem in ((gone, "step one: this workflow has no such step"), (early, "before zero")):
        with pytest.raises(CallerError, match="does not fit") as raised:
            await world.execute(activation)
        assert raised.value.code is Code.ORIGIN_INVALID
        assert problem in str(raised.value.findings[0])
        assert not (world.state / "deliveries" / activation.delivery).exists()
    last = started(world, old, only(world, old, "two"), "last")
    with pytest.raises(CallerError) as raised:
        await world.execute(last)
    assert "nothing would be left" in raised.value.findings[0].problem


async def test_what_was_not_looked_at_is_not_taken_over(world: World) -> None:
    """A record that is another one, a savepoint that is not the one of that moment, another base commit and the Delivery
    itself are refused, and nothing is recorded."""
    old = failing(world)
    await world.settle(old)
    good = only(world, old, "one")
    taken = [r.event.savepoint for r in world.records() if isinstance(r.event, SavepointTaken)]
    wrong: dict[str, dict[str, Any]] = {
        "the activation was made over": {"record": "sha256:" + "1" * 64},
        "does not exist": {"position": 10_000},
        "the files of d1 were those of": {"savepoint": taken[0]},
        "had no savepoint": {"savepoint": "1" * 40},
    }
    for number, (message, changes) in enumerate(wrong.items()):
        departure = good.model_copy(update={"origin": good.origin.model_copy(update=changes)})
        with pytest.raises(CallerError, match=message) as raised:
            await world.execute(started(world, old, departure, f"wrong-{number}"))
        assert raised.value.code is Code.ORIGIN_INVALID
        assert not (world.state / "deliveries" / f"wrong-{number}").exists()
    unknown = good.model_copy(update={"origin": good.origin.model_copy(update={"delivery": "never"})})
    with pytest.raises(CallerError) as raised:
        await world.execute(started(world, old, unknown, "d9"))
    assert raised.value.code is Code.DELIVERY_UNKNOWN


async def test_retry_says_what_to_do_instead(world: World) -> None:
    """A Delivery that is completed has nothing to retry."""
    await world.settle(world.activation(command("one", "true")))
    with pytest.raises(CallerError, match="is completed") as raised:
        records(world).failure_to_retry(DeliveryId("d1"))
    assert "runner fork" in raised.value.remedy
    with pytest.raises(CallerError) as raised:
        records(world).savepoint_to_fork(DeliveryId("d1"), "beef")
    assert raised.value.code is Code.SAVEPOINT_UNKNOWN


async def test_a_middle_that_cannot_be_gone_through_again_is_refused(world: World) -> None:
    """A prompt that names the Delivery would be another one in the new Delivery: it does not go on behind a tool call, and
    the place names the beginning of the step, from which it does."""
    replies = in_order(Calls((write("src/a", "1"),)), Result({"summary": "x"}), Result({"summary": "y"}))
    with ScriptedOpenAi(replies) as server:
        world.base_url = server.base_url
        old = world.activation(agent("code", "Go, {{ delivery.id }}.", EVERYTHING))
        await world.settle(old)
        middle = next(s for s in records(world).savepoints(DeliveryId("d1")) if s.role == "mid-step")
        departure = only(world, old, middle.savepoint)
        with pytest.raises(CallerError, match="its prompt names the Delivery's id"):
            await world.execute(started(world, old, departure))
        assert departure.nearest is not None
        nearest = departure.model_copy(update={"origin": departure.nearest})
        assert (await world.settle(started(world, old, nearest, "d3"))).outcome == "completed"
    assert len(server.requests) == 3


async def test_its_copies_hold_when_the_source_is_gone(world: World) -> None:
    """A fork is complete in itself: without its source it is verified, continued and forked again."""
    old = failing(world)
    await world.settle(old)
    new = started(world, old, records(world).failure_to_retry(DeliveryId("d1")))
    assert (await world.settle(new)).outcome == "failed"
    shutil.rmtree(world.state / "deliveries" / "d1")
    checks = records(world).verify(DeliveryId("d2")).checks
    assert all(check.ok for check in checks), checks
    assert any("its copies hold" in check.detail for check in checks)
    (world.root / "mended").touch()
    third = started(world, new, records(world).failure_to_retry(DeliveryId("d2")), "d3")
    assert (await world.settle(third)).outcome == "completed"
    assert ran(world) == "ac"


class DiedError(Exception):
    """The process is gone, as far as a test in one process can show it."""


class DyingClock(SystemClock):
    """Dies when it is asked for the time for the ``number``-th time: right before a transaction, as that is who asks."""

    def __init__(self, number: int) -> None:
        self.number = number

    def now(self) -> dt.datetime:
        self.number -= 1
        if self.number == 0:
            raise DiedError
        return super().now()


def begun_anew(world: World, new: a.Activation) -> None:
    """As before the Delivery: its records, refs and files are gone."""
    shutil.rmtree(world.state / "deliveries" / new.delivery, ignore_errors=True)
    for ref in git(world.repository, "for-each-ref", "--format=%(refname)", f"refs/runner/{new.delivery}").split():
        git(world.repository, "update-ref", "-d", ref)
    git(world.repository, "update-ref", "-d", new.target.ref, ok=False)
    there = Path(new.workspace.worktree)
    git(there, "reset", "-q", "--hard")
    git(there, "clean", "-q", "-f", "-d")


async def test_interrupted_before_a_transaction_it_settles_the_same(world: World) -> None:
    """A fork that dies before its n-th transaction, for every third n, and is executed again settles to the bytes of an undisturbed
    one, over the same files."""
    old = world.activation(command("one", *counted(world, "a")), command("two", *counted(world, "b"), needs=("one",)))
    await world.settle(old)
    new = started(world, old, only(world, old, "one"))
    expected = (await world.settle(new)).to_bytes()
    there = Path(new.workspace.worktree)
    files = sorted(path.name for path in there.iterdir())
    for number in range(1, 100, 3):
        begun_anew(world, new)
        try:
            result = await world.execute(new, Dependencies(clock=DyingClock(number)))
        except DiedError:
            assert (await world.settle(new)).to_bytes() == expected, number
            assert sorted(path.name for path in there.iterdir()) == files, number
            continue
        assert isinstance(result, Settled)
        assert number > 10
        return
    raise AssertionError("it never came to its end")
