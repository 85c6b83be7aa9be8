"""Checkpoints only save time: lost, they change nothing; ahead, hostile or broken, they are refused."""

import dataclasses
import datetime as dt
import enum
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from hosts.langgraph.checkpoints import FORMAT, PlainSerializer
from runner.contract.canonical import digest
from runner.contract.errors import Code, IntegrityError
from runner.contract.ports import HostStopped, TerminalProposal
from tests.langgraph_host.fakes import World, activation, decision, generate, to

CHAIN = (
    generate("a", budget_visits=4),
    decision("d", "{{ steps.a.visit < 4 ? 'again' : 'on' }}", needs=("a",), routes=to(again="a", on="z")),
    generate("z"),
)


def world_of(tmp_path: Path) -> World:
    return World(tmp_path / "d", activation(*CHAIN), checkpoint_every=2)


async def half_way(world: World) -> None:
    """A drive that was stopped after three visits of the loop."""
    async with world.process() as process:

        async def act(dispatch: Any) -> Any:
            if dispatch.step.visit == 3:
                process.host.stop()
            return await world.act(dispatch)

        process.invocation._act = act
        assert await process.host.drive() == HostStopped()


def rows(world: World, query: str, *values: object) -> list[Any]:
    with sqlite3.connect(world.layout.checkpoints) as database:
        return database.execute(query, values).fetchall()


@pytest.mark.parametrize("forget", [False, True])
async def test_without_checkpoints_the_same_ends(tmp_path: Path, forget: bool) -> None:
    """Finished steps are found in the ledger and are not run again."""
    world = world_of(tmp_path)
    await half_way(world)
    if forget:
        world.forget_checkpoints()
    async with world.process() as process:
        before = process.ends()
        assert isinstance(await process.host.drive(), TerminalProposal)
        asked = {d.step.key for d in process.invocation.asked}
        assert not asked & before.keys()
        assert [k for k, v in process.ends().items() if v == "success"] == ["a@1", "a@2", "a@3", "a@4", "z@4"]


async def test_one_row_and_its_ledger_sequence(tmp_path: Path) -> None:
    """However many supersteps ran, one checkpoint is left, no writes, and it names the sequence it stands for."""
    world = world_of(tmp_path)
    async with world.process() as process:
        await process.host.drive()
        assert rows(world, "SELECT count(*) FROM checkpoints") == [(1,)]
        assert rows(world, "SELECT count(*) FROM writes") == [(0,)]
        [(metadata,)] = rows(world, "SELECT json_extract(metadata, '$.ledger_seq') FROM checkpoints")
        assert metadata == process.ledger.head()


async def test_ahead_of_the_ledger_is_refused(tmp_path: Path) -> None:
    """A checkpoint that knows more than the ledger means that the ledger was cut."""
    world = world_of(tmp_path)
    await half_way(world)
    kept = world.layout.checkpoints.read_bytes()
    other = World(tmp_path / "e", world.activation)
    async with other.process():
        pass
    other.layout.checkpoints.write_bytes(kept)
    async with other.process() as process:
        with pytest.raises(IntegrityError) as raised:
            await process.host.drive()
        assert raised.value.code is Code.CHECKPOINT_AHEAD and not process.invocation.asked


def packed(**changes: Any) -> tuple[str, bytes]:
    checkpoint = {"v": 4, "ts": "", "id": "1", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}
    return FORMAT, ormsgpack.packb({**checkpoint, **changes})


HOSTILE = {
    "another format": ("msgpack", b"\x80"),
    "pickle": ("pickle", b"cos\nsystem\n(S'true'\ntR."),
    "an extension type": (FORMAT, ormsgpack.packb({"x": ormsgpack.Ext(5, b"code")})),
    "cut off": (FORMAT, b"\x82\xa1"),
    "no map": (FORMAT, ormsgpack.packb([1])),
    "versions that are no numbers": packed(channel_versions={"st": "9"}),
    "an unknown step": packed(channel_values={"st": {"evil": [1, "success", 1]}, "sq": 1}),
    "a mark of another shape": packed(channel_values={"st": {"a": [1, {"x": 1}, 1]}, "sq": 1}),
    "a closing of another kind": packed(channel_values={"cl": {"a": [1, 1, "evil"]}, "sq": 1}),
    "a negative count": packed(channel_values={"ep": {"a": -5}, "sq": 1}),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_hostile_row_is_refused(tmp_path: Path, what: str) -> None:
    """Nothing of it is revived, guessed or run."""
    world = world_of(tmp_path)
    await half_way(world)
    kind, blob = HOSTILE[what]
    sequence = 1 if b"sq" in blob else 0
    with sqlite3.connect(world.layout.checkpoints) as database:
        query = "UPDATE checkpoints SET type = ?, checkpoint = ?, metadata = json_set(metadata, '$.ledger_seq', ?)"
        database.execute(query, (kind, blob, sequence))
    async with world.process() as process:
        with pytest.raises(IntegrityError) as raised:
            await process.host.drive()
        assert raised.value.code is Code.CHECKPOINT_CORRUPT and "delete" in raised.value.remedy
        assert not process.invocation.asked


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """By its code, without a traceback of SQLite's."""
    world = world_of(tmp_path)
    await half_way(world)
    world.forget_checkpoints()
    world.layout.checkpoints.write_bytes(b"not a database" * 1000)
    async with world.process() as process:
        with pytest.raises(IntegrityError) as raised:
            await process.host.drive()
        assert raised.value.code is Code.CHECKPOINT_CORRUPT


@dataclasses.dataclass
class Thing:
    x: int = 1


class Colour(enum.Enum):
    RED = 1


class Text(str):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Thing(),
        dt.datetime.now(dt.UTC),
        Colour.RED,
        object(),
        uuid.uuid4(),
        {1},
        Text("x"),
        ValueError("secret"),
        {1: "x"},
    ],
)
def test_the_serializer_refuses_what_is_not_plain(value: object) -> None:
    """On the way in, also deep inside."""
    with pytest.raises(TypeError):
        PlainSerializer().dumps_typed({"deep": [value]})


def test_the_serializer_keeps_what_is_plain() -> None:
    """Text, numbers, bytes, lists and maps come back equal."""
    plain = {"a": [1, -2.5, None, True, "é", b"x"], "b": {"c": {}}}
    assert PlainSerializer().loads_typed(PlainSerializer().dumps_typed(plain)) == plain


async def test_retire_deletes_once_and_replays(tmp_path: Path) -> None:
    """The files are gone, the fact is there once; the same authorization replays it, another is refused."""
    world = world_of(tmp_path)
    first, second = digest("first"), digest("second")
    async with world.process() as process:
        await process.host.drive()
        fact = await process.host.retire(first)
        assert (fact.owner, fact.authorization) == ("host", first)
        assert not list(world.root.glob("checkpoints.sqlite*"))
        head = process.ledger.head()
    async with world.process() as process:
        assert await process.host.retire(first) == fact and process.ledger.head() == head
        with pytest.raises(IntegrityError) as raised:
            await process.host.retire(second)
        assert raised.value.code is Code.AUTHORIZATION_FOREIGN
