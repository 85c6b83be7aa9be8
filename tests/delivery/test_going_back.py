"""A new Delivery from the middle of another: what had ended counts, what had not is done, over the files as they were then."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner import RunnerFactory
from runner.contract import activation as a
from runner.contract.errors import CallerError, Code
from runner.contract.events import DeliveryForked, SavepointTaken, ToolCalled
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import Departure
from runner.factory import Records
from tests.delivery.world import EVERYTHING, PY, READ_ONLY, World, agent, command, git
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
