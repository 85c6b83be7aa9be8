"""The checkpoint store: sparse snapshots of the graph that only save time. The ledger is the truth.

A saver on ``AsyncSqliteSaver`` that stores plain data only and *refuses* everything else in both directions, keeps one row
per thread (so a clock that was set back cannot bring an old one to life), keeps no task writes but interrupts (error texts
may hold secrets), and names in each checkpoint the ledger sequence it stands for.

Not covered: a checkpoint that somebody replaced by an older one of the same Delivery; it only costs time.
"""

import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import aiosqlite
import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Interrupt

from runner.contract.errors import Code, EnvironmentFault, IntegrityError

FORMAT: Final = "runner.checkpoint/1"
QUESTIONS: Final = "runner.questions/1"
"""The format of interrupts: pairs of an id and what is asked."""
LEDGER_SEQ: Final = "ledger_seq"
INTERRUPT: Final = "__interrupt__"
FILES: Final = ("", "-wal", "-shm", "-journal")
"""Suffixes of what SQLite keeps beside a database."""

_PACK: Final = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
)


def corrupt(why: str) -> IntegrityError:
    """The error for a checkpoint that does not hold."""
    return IntegrityError(
        Code.CHECKPOINT_CORRUPT,
        f"the checkpoint cannot be read: {why}",
        remedy="delete the Delivery's checkpoints.sqlite*: they only save time, the ledger has everything",
    )


class PlainSerializer:
    """Null, booleans, numbers, text, bytes, lists and string-keyed maps; nothing else, neither way."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """``TypeError`` for anything that is neither plain data nor questions about it."""
        if isinstance(obj, list | tuple) and obj and all(isinstance(part, Interrupt) for part in obj):
            pairs = [[part.id, part.value] for part in obj]
            return QUESTIONS, ormsgpack.packb(pairs, default=_refuse_object, option=_PACK)
        return FORMAT, ormsgpack.packb(obj, default=_refuse_object, option=_PACK)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """``IntegrityError`` (checkpoint-corrupt) for another format, an extension type or bytes that do not decode."""
        kind, packed = data
        if kind not in (FORMAT, QUESTIONS):
            raise corrupt(f"its format {str(kind)[:40]!r} is not {FORMAT}")
        try:
            value = ormsgpack.unpackb(packed, ext_hook=_refuse_extension)
            return _interrupts(value) if kind == QUESTIONS else value
        except (ValueError, TypeError) as error:
            raise corrupt(str(error)[:200]) from None

    def with_msgpack_allowlist(self, _: Collection[Any]) -> "PlainSerializer":
        """LangGraph offers to allow types; none are."""
        return self


def _interrupts(pairs: Any) -> tuple[Interrupt[Any], ...]:
    if not isinstance(pairs, list):
        raise ValueError("its questions do not hold")
    found = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError("its questions do not hold")
        found.append(Interrupt(value=pair[1], id=pair[0]))
    return tuple(found)


def _refuse_object(value: object) -> Any:
    raise TypeError(f"{type(value).__qualname__} is not plain data")


def _refuse_extension(tag: int, _: bytes) -> Any:
    raise ValueError(f"extension type {tag} is refused")


class LedgerSaver(AsyncSqliteSaver):
    """The saver that LangGraph writes through."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Integers: half the size of the stock versions, and no randomness."""
        return (current or 0) + 1

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        try:
            found = await super().aget_tuple(config)
        except sqlite3.OperationalError as error:
            raise _unwritable(error) from None
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            raise corrupt(str(error)[:200]) from None
        if found is not None:
            _check_shape(found)
        return found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores the checkpoint with the ledger sequence of its state, then drops the thread's other rows. Killed in
        between, two rows stay; either is a true snapshot."""
        known: Any = {**metadata, LEDGER_SEQ: checkpoint["channel_values"].get("sq", 0)}
        try:
            stored = await super().aput(config, checkpoint, known, new_versions)
            await self._prune(stored)
        except sqlite3.OperationalError as error:
            raise _unwritable(error) from None
        return stored

    async def _prune(self, stored: RunnableConfig) -> None:
        place = stored["configurable"]
        key = (str(place["thread_id"]), place["checkpoint_ns"], place["checkpoint_id"])
        async with self.lock:
            for table in ("checkpoints", "writes"):
                await self.conn.execute(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id <> ?",  # noqa: S608
                    key,
                )
            await self.conn.commit()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Only interrupts: results are the ledger's, and errors are never stored."""
        kept = [write for write in writes if write[0] == INTERRUPT]
        if kept:
            await super().aput_writes(config, kept, task_id, task_path)


def _check_shape(found: CheckpointTuple) -> None:
    """LangGraph trusts these fields blindly; a hostile row must not get that far."""
    checkpoint: Any = found.checkpoint
    if not isinstance(checkpoint, dict) or not isinstance(found.metadata, dict):
        raise corrupt("it is not a map")
    values, versions, seen = (checkpoint.get(k) for k in ("channel_values", "channel_versions", "versions_seen"))
    if not isinstance(values, dict) or not _counts(versions) or not isinstance(seen, dict):
        raise corrupt("its channels do not hold")
    if not all(_counts(node) for node in seen.values()) or not isinstance(checkpoint.get("id"), str):
        raise corrupt("its versions do not hold")
    if found.metadata.get(LEDGER_SEQ) != values.get("sq", 0) or not isinstance(found.metadata.get("step"), int):
        raise corrupt("its ledger sequence is not that of its state")


def _counts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, int) for k, v in value.items())


def _unwritable(error: sqlite3.OperationalError) -> EnvironmentFault:
    full = error.sqlite_errorcode == sqlite3.SQLITE_FULL if hasattr(error, "sqlite_errorcode") else False
    return EnvironmentFault(
        Code.DISK_FULL if full else Code.STATE_UNWRITABLE,
        f"the checkpoint database cannot be used: {error}",
        remedy="make room or mend the permissions of the state root, then execute again",
    )


class CheckpointStore:
    """One Delivery's checkpoint database: opened when the graph is first driven, closed with the host."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saver: LedgerSaver | None = None

    async def open(self) -> LedgerSaver:
        """The saver; ``IntegrityError`` (checkpoint-corrupt) when the file is no such database."""
        if self._saver is not None:
            return self._saver
        try:
            connection = await aiosqlite.connect(self._path)
        except sqlite3.OperationalError as error:
            raise _unwritable(error) from None
        saver = LedgerSaver(connection, serde=PlainSerializer())
        try:
            await saver.setup()
            # Losing the newest checkpoint in a power cut costs time only.
            await connection.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.DatabaseError as error:
            await connection.close()
            raise (_unwritable(error) if isinstance(error, sqlite3.OperationalError) else corrupt(str(error))) from None
        self._saver = saver
        return saver

    async def close(self) -> None:
        """Idempotent."""
        saver, self._saver = self._saver, None
        if saver is not None:
            await saver.conn.close()

    async def delete(self) -> None:
        """Closes and removes the files. Idempotent. ``EnvironmentFault`` (state-unwritable) when one of them stays."""
        await self.close()
        for suffix in FILES:
            path = Path(f"{self._path}{suffix}")
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise EnvironmentFault(
                    Code.STATE_UNWRITABLE,
                    f"{path}: the checkpoints cannot be deleted: {error.strerror}",
                    remedy="make the state root writable for this user, then execute again",
                ) from None
