"""Collecting whole Deliveries: what is settled goes, what anybody needs stays, and the end is remembered. Killed anywhere too."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from custody.collect import Outside
from runner import Settled
from runner.clock import SystemClock
from runner.contract import activation as a
from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.ids import DeliveryId
from runner.contract.kept import Collection, Retention
from runner.contract.layout import delivery_layout, made_worktree
from runner.coordinator.collection import Collector
from runner.coordinator.fence import Fence, acquire
from runner.coordinator.settled import reading
from runner.factory import RunnerFactory
from runner.records import Records
from tests.custody.fakes import KillAt, Killed, tree_of
from tests.delivery.world import World, command, git
from tests.factory.test_records import approval

ALL = Retention(keep_days=0, keep_count=0, failed=True)
D1 = DeliveryId("d1")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Its worktree is one that was made for d1."""
    made = World(tmp_path).build()
    place = made_worktree(made.state, "d1")
    place.parent.mkdir(parents=True)
    git(made.repository, "worktree", "move", str(made.worktree), str(place))
    made.worktree.symlink_to(place)
    return made


def activation(world: World, *steps: a.Step, **more: Any) -> a.Activation:
    """By default a step that leaves a directory which its owner cannot write."""
    closed = command("write", "sh", "-c", "mkdir -p closed && echo x > closed/n && chmod 500 closed")
    made = world.activation(*(steps or (closed,)), **more)
    fields = {name: getattr(made, name) for name in a.Activation.model_fields if name != "binding_identity"}
    place = str(world.worktree.resolve())
    return a.seal(**{**fields, "workspace": made.workspace.model_copy(update={"worktree": place})})


def records(world: World) -> Records:
    return RunnerFactory(world.config()).open_records()


def collect(world: World, before_effect: Callable[[str], None] = lambda _: None) -> tuple[Collection, ...]:
    collector = Collector(state_root=world.state, outside=Outside(), clock=SystemClock(), before_effect=before_effect)
    return collector.collect(ALL, (), dry_run=False)


def left(world: World) -> set[str]:
    """In the Delivery's directory."""
    return {path.name for path in delivery_layout(world.state, D1).root.iterdir()}


async def test_a_collected_delivery_is_answered_as_before(world: World) -> None:
    """Only its settlement is left; published branch and user's things stay; every door says what became of it."""
    made, other = activation(world), activation(world, input={"another": True})
    settlement = await world.settle(made)
    before = world.fingerprint()
    (gone,) = collect(world)
    assert (gone.state, gone.notes) == ("collected", ()) and gone.bytes > 10_000
    assert left(world) == {"tombstone.json", "fence.lock", "read.lock"}
    assert not made_worktree(world.state, "d1").exists()
    assert git(world.repository, "worktree", "list").count("\n") == 0
    assert git(world.repository, "for-each-ref", "refs/runner") == ""
    assert git(world.repository, "rev-parse", "runner/d1") == settlement.result_commit
    assert world.fingerprint() == before
    answer = await world.execute(made)
    assert isinstance(answer, Settled) and answer.settlement.to_bytes() == settlement.to_bytes()
    async with RunnerFactory(world.config()).open() as runner:
        assert (await runner.cancel(D1)).disposition == "too-late"
    state = records(world).inspect(D1)
    assert (state.phase, state.settlement) == ("collected", settlement)
    assert [check.name for check in records(world).verify(D1).checks] == ["collected", "settlement"]
    for ask in (records(world).diff, records(world).document, lambda d: list(records(world).events(d))):
        with pytest.raises(CallerError):
            ask(D1)
    with pytest.raises(CallerError) as refused:
        await world.execute(other)
    assert refused.value.code is Code.CORRELATION_MISMATCH
    assert collect(world) == () and records(world).open_deliveries() == ()


async def test_killed_anywhere_it_is_finished_by_the_next(world: World, tmp_path: Path) -> None:
    """From the tombstone on the same settlement is answered at every point; in the end nothing else is left."""
    made = activation(world)
    settlement = (await world.settle(made)).to_bytes()
    kept, repository = tmp_path / "kept", world.repository
    shutil.copytree(world.state, kept / "state", symlinks=True)
    shutil.copytree(repository, kept / "repository", symlinks=True)
    number, points = 0, list[str]()
    while True:
        kill = KillAt(number)

        def at(what: str, kill: KillAt = kill) -> None:
            points.append(what)
            kill(what)

        try:
            collect(world, at)
        except Killed:
            answer = await world.execute(made)
            assert isinstance(answer, Settled) and answer.settlement.to_bytes() == settlement
            (again,) = collect(world)
            assert again.state == "collected"
        assert left(world) == {"tombstone.json", "fence.lock", "read.lock"}
        assert not made_worktree(world.state, "d1").exists()
        assert list((world.state / "worktrees").iterdir()) == [] and list((world.state / "leases").glob("[0-9]*")) == []
        assert git(repository, "for-each-ref", "refs/runner") == ""
        if kill.number >= 0:
            break
        for place in (world.state, repository):
            shutil.rmtree(place)
            shutil.copytree(kept / place.name, place, symlinks=True)
        number += 1
    assert {"write tombstone", "delete ref", "set worktree aside", "delete worktree", "set store aside"} <= set(points)
    assert points[-1] == "delete ledger.sqlite" and number > 8


@pytest.mark.parametrize("change", ["file", "commit"])
async def test_a_worktree_that_somebody_works_in_stays(world: World, change: str) -> None:
    """Named, and exactly as it is; the rest goes."""
    await world.settle(activation(world))
    (world.worktree / "mine.txt").write_text("mine\n")
    if change == "commit":
        git(world.worktree, "add", "mine.txt")
        git(world.worktree, "commit", "-q", "-m", "mine")
    before = tree_of(world.worktree.resolve())
    (gone,) = collect(world)
    assert gone.state == "collected" and any(str(world.worktree.resolve()) in note for note in gone.notes)
    assert tree_of(world.worktree.resolve()) == before
    assert collect(world) == ()


async def test_a_worktree_of_the_users_stays(tmp_path: Path) -> None:
    """It was never made for the Delivery."""
    world = World(tmp_path).build()
    await world.settle(world.activation(command("w", "sh", "-c", "echo x > n.txt")))
    before = tree_of(world.worktree)
    (gone,) = collect(world)
    assert (gone.state, gone.notes) == ("collected", ())
    assert tree_of(world.worktree) == before


async def test_what_is_open_driven_or_read_stays(world: World) -> None:
    """Nothing of it is touched, and why is said; afterwards it goes."""
    await world.execute(activation(world, approval("ask"), delivery="d2"))
    assert [(one.delivery, one.why) for one in collect(world)] == [("d2", "it is open")]
    async with RunnerFactory(world.config()).open() as runner:
        await runner.cancel(DeliveryId("d2"))
    layout = delivery_layout(world.state, DeliveryId("d2"))
    fence = acquire(layout, SystemClock())
    assert isinstance(fence, Fence)
    (one,) = collect(world)
    assert one.state == "kept" and one.why.startswith("driven by pid")
    fence.release()
    with reading(layout), reading(layout):
        (one,) = collect(world)
        assert (one.state, one.why) == ("kept", "somebody reads it")
    assert [one.state for one in collect(world)] == ["collected"]


async def test_what_an_open_delivery_starts_from_stays(world: World) -> None:
    """Also one that was admitted and has not begun; and it is said which."""
    await world.settle(activation(world))
    record = records(world).inspect(D1).records
    origin = {"delivery": "d1", "position": record, "record": "sha256:" + "0" * 64, "savepoint": "0" * 40}
    file = world.state / "activations" / "d3.json"
    file.parent.mkdir()
    file.write_bytes(canonical(activation(world, delivery="d3", origin=origin).to_json()))
    (one,) = collect(world)
    assert (one.state, one.why) == ("kept", "the open Delivery d3 starts from it")
    file.unlink()
    assert [one.state for one in collect(world)] == ["collected"]


async def test_a_dry_run_only_tells(world: World) -> None:
    """By the rules, and for those that are named; a name that is none is refused."""
    await world.settle(activation(world))
    before = tree_of(delivery_layout(world.state, D1).store)
    found = records(world)
    assert [one.state for one in found.collect(ALL, dry_run=True)] == ["collected"]
    assert [one.state for one in found.collect(Retention(), dry_run=True)] == ["kept"]
    assert [one.state for one in found.collect(Retention(), [D1], dry_run=True)] == ["collected"]
    with pytest.raises(CallerError):
        found.collect(ALL, [DeliveryId("nobody")], dry_run=True)
    assert tree_of(delivery_layout(world.state, D1).store) == before


async def test_an_altered_tombstone_is_noticed(world: World) -> None:
    """It answers executes: whoever could change it could change the end."""
    made = activation(world)
    await world.settle(made)
    collect(world)
    stone = delivery_layout(world.state, D1).tombstone
    stone.write_bytes(stone.read_bytes().replace(b"completed", b"failed"))
    with pytest.raises(IntegrityError):
        await world.execute(made)
