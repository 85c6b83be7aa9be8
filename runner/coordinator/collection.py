"""Collecting Deliveries: whole, settled ones go, and leave a tombstone.

The tombstone is the decision: durable before anything is removed, and what makes a collection that was killed go on. Then, in
this order: the result's ref, the worktree that was made for the Delivery, its store, everything else, the ledger last. An open
Delivery, one that an open one starts from, one that is driven or read is left alone.
"""

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from runner.contract import limits
from runner.contract.activation import Activation
from runner.contract.canonical import parse
from runner.contract.errors import Code, EnvironmentFault, RunnerError
from runner.contract.events import DeliverySettled, ResultPreserved, SavepointTaken
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.kept import Collection, Leftovers, Retention, Tombstone
from runner.contract.layout import DeliveryLayout, delivery_layout, made_worktree
from runner.contract.outcomes import Busy, Outcome, Settlement
from runner.contract.ports import Clock
from runner.coordinator import fence, lease, tombstone
from runner.coordinator.inspection import list_deliveries
from runner.coordinator.journal import accepted_in, settled_in
from runner.coordinator.retention import Settled, chosen
from runner.coordinator.settled import accepted_in_full, unread
from runner.ledger import SqliteReader, has_ledger, open_reader
from runner.ledger.codec import timestamp
from runner.ledger.files import read_small, sync_directory, written_at

ASIDE: Final = "store.collecting"
"""What the store is called while it is deleted: from then on nothing outside of the directory is left."""


class Outside(Protocol):
    """What custody does of it."""

    def repository_of(self, layout: DeliveryLayout) -> str:
        """The git directory that the Delivery's result is in."""
        ...

    def changed_since(self, activation: Activation, layout: DeliveryLayout, savepoint: str) -> str:
        """Why the worktree is not what ``savepoint`` holds; empty when it is."""
        ...

    def remove(self, leftovers: Leftovers, *, worktree: bool, before_effect: Callable[[str], None]) -> tuple[str, ...]:
        """Removes the result's ref, and with ``worktree`` the worktree; what was left, and why. Idempotent."""
        ...


def nothing(_: str) -> None:
    """The default seam: no effect is disturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """``before_effect`` is called by name in front of every effect; tests kill there."""

    state_root: Path
    outside: Outside
    clock: Clock
    before_effect: Callable[[str], None] = nothing

    def collect(self, policy: Retention, named: Sequence[DeliveryId], *, dry_run: bool) -> tuple[Collection, ...]:
        """What became, or with ``dry_run`` would become, of the Deliveries ``named``, or of all by ``policy``. One that was
        left half collected is finished always. ``CallerError`` (``delivery-unknown``) for a name that is none."""
        return tuple(self._each(policy, named, dry_run=dry_run))

    def _each(self, policy: Retention, named: Sequence[DeliveryId], *, dry_run: bool) -> Iterator[Collection]:
        for name in named:
            if not has_ledger(self._layout(name)) and tombstone.read(self._layout(name)) is None:
                open_reader(self._layout(name)).close()  # raises what it is that is not there
        known = list_deliveries(self.state_root)
        wanted = self._referred(known)
        settled: list[Settled] = []
        for name in known:
            found = self._look(name, wanted) if not named or name in named or self._half(name) else None
            if isinstance(found, Settled):
                settled.append(found)
            elif found is not None:
                yield found
        plan = chosen(settled, policy, self.clock.now())
        for one in sorted(settled, key=lambda one: (one.settled_at, one.delivery)):
            goes, why = plan[one.delivery]
            if self._half(one.delivery):
                goes, why = True, "its collection was cut short"
            elif named:
                goes, why = True, "asked for"
            if goes and not dry_run:
                yield self._guarded(one, why)
            else:
                yield Collection(delivery=one.delivery, state="collected" if goes else "kept", why=why, bytes=one.bytes)

    def _look(self, name: DeliveryId, wanted: dict[str, str]) -> Settled | Collection | None:
        """One that could go, why it cannot, or None for one that has gone."""
        layout = self._layout(name)
        try:
            stone = tombstone.read(layout)
            if stone is not None:
                return (
                    _settled(name, stone.settlement, stone.settled_at, self._size(layout)) if self._half(name) else None
                )
            if not has_ledger(layout):
                return Collection(delivery=name, state="kept", why="it has recorded nothing yet")
            with open_reader(layout) as reader:
                record, settlement = reader.last(frozenset({DeliverySettled.KIND})), settled_in(reader)
        except RunnerError as error:
            return Collection(delivery=name, state="kept", why=error.message)
        if settlement is None or record is None:
            return Collection(delivery=name, state="kept", why="it is open", bytes=self._size(layout))
        if name in wanted:
            why = f"the open Delivery {wanted[name]} starts from it"
            return Collection(delivery=name, state="kept", why=why, bytes=self._size(layout))
        return _settled(name, settlement, record.at, self._size(layout))

    def _guarded(self, one: Settled, why: str) -> Collection:
        layout = self._layout(one.delivery)
        try:
            return self._collected(layout, one, why)
        except RunnerError as error:
            return Collection(delivery=one.delivery, state="kept", why=error.message, bytes=one.bytes)
        except OSError as error:
            return Collection(delivery=one.delivery, state="kept", why=str(error), bytes=one.bytes)

    def _collected(self, layout: DeliveryLayout, one: Settled, why: str) -> Collection:
        held = fence.acquire(layout, self.clock)
        if isinstance(held, Busy):
            told = f"driven by pid {held.pid} on {held.host}"
            return Collection(delivery=one.delivery, state="kept", why=told, bytes=one.bytes)
        try:
            with unread(layout) as alone:
                if not alone:
                    return Collection(delivery=one.delivery, state="kept", why="somebody reads it", bytes=one.bytes)
                stone = tombstone.read(layout) or self._bury(layout)
                notes = self._clear(layout, stone)
        finally:
            held.release()
        return Collection(delivery=one.delivery, state="collected", why=why, bytes=one.bytes, notes=notes)

    def _bury(self, layout: DeliveryLayout) -> Tombstone:
        with open_reader(layout) as reader:
            records = tuple(reader.read())
            begun, settlement = accepted_in(reader), settled_in(reader)
            activation = accepted_in_full(reader, layout)
            chain = reader.digest_at(len(records))
        if begun is None or settlement is None:
            raise EnvironmentFault(Code.FENCE_LOST, f"{layout.root.name} is not settled any more")
        results = [r.event for r in records if isinstance(r.event, ResultPreserved)]
        taken = any(isinstance(r.event, SavepointTaken) for r in records)
        self.before_effect("write tombstone")
        return tombstone.write(
            layout,
            settlement=settlement,
            accepted_at=begun[1].at,
            settled_at=records[-1].at,
            collected_at=timestamp(self.clock.now()),
            isolation=begun[0].meaning_text["isolation"] if isinstance(begun[0].meaning_text, Mapping) else "",
            records=len(records),
            chain=chain,
            leftovers=Leftovers(
                repository=self.outside.repository_of(layout) if taken else "",
                ref=results[-1].ref if results else "",
                commit=results[-1].commit if results else "",
                worktree=self._made_worktree(activation),
            ),
        )

    def _clear(self, layout: DeliveryLayout, stone: Tombstone) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        aside = layout.root / ASIDE
        if layout.store.exists():
            notes = self._clear_outside(layout, stone)
            self.before_effect("set store aside")
            with written_at(layout.store):
                if aside.exists():
                    shutil.rmtree(aside)
                layout.store.rename(aside)
        for path in _rest(layout):
            self.before_effect(f"delete {path.name}")
            with written_at(path):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        sync_directory(layout.root)
        return notes

    def _clear_outside(self, layout: DeliveryLayout, stone: Tombstone) -> tuple[str, ...]:
        """Before the store goes, which says what the worktree was."""
        place, kept = stone.leftovers.worktree, ""
        name = delivery_id(layout.root.name)
        try:
            if place and Path(place).is_dir():
                kept = self._why_kept(layout, name, Path(place))
            notes = self.outside.remove(stone.leftovers, worktree=not kept, before_effect=self.before_effect)
        finally:
            lease.release(self.state_root, name)
        return (f"the worktree {place} was left: {kept}", *notes) if kept else notes

    def _why_kept(self, layout: DeliveryLayout, name: DeliveryId, worktree: Path) -> str:
        # Past the tombstone the ledger counts as gone for everybody else.
        with SqliteReader(layout.ledger) as reader:
            activation = accepted_in_full(reader, layout)
            taken = [r.event for r in reader.read(kinds=frozenset({SavepointTaken.KIND}))]
        last = [e.savepoint for e in taken if isinstance(e, SavepointTaken) and e.role in ("baseline", "step")]
        try:
            lease.take(self.state_root, name, worktree)
        except EnvironmentFault as error:
            return error.message
        return self.outside.changed_since(activation, layout, last[-1])

    def _referred(self, known: Sequence[DeliveryId]) -> dict[str, str]:
        """Deliveries that an open one starts from, or one that was admitted and has not begun."""
        found: dict[str, str] = {}
        for name in known:
            layout = self._layout(name)
            with suppress(RunnerError):  # one that cannot be read refers to nothing that is known
                if has_ledger(layout):
                    with open_reader(layout) as reader:
                        is_open = settled_in(reader) is None and accepted_in(reader) is not None
                        origin = accepted_in_full(reader, layout).origin if is_open else None
                    if origin is not None:
                        found[origin.delivery] = name
        for file in (self.state_root / "activations").glob("*.json"):
            if file.stem not in known:
                found |= _origin_in(file)
        return found

    def _half(self, name: str) -> bool:
        layout = self._layout(name)
        return layout.tombstone.exists() and any(_rest(layout))

    def _size(self, layout: DeliveryLayout) -> int:
        return size_of(layout.root) + size_of(made_worktree(self.state_root, layout.root.name))

    def _made_worktree(self, activation: Activation) -> str:
        """The worktree, if it is the one that was made for the Delivery."""
        path = made_worktree(self.state_root, activation.delivery).resolve()
        return str(path) if activation.workspace.worktree == str(path) else ""

    def _layout(self, name: str) -> DeliveryLayout:
        return delivery_layout(self.state_root, DeliveryId(name))


def _settled(name: str, settlement: Settlement, at: str, size: int) -> Settled:
    good = settlement.outcome is Outcome.COMPLETED and settlement.publication.disposition != "conflict"
    return Settled(delivery=name, settled_at=dt.datetime.fromisoformat(at), good=good, bytes=size)


def _rest(layout: DeliveryLayout) -> list[Path]:
    """What goes from the Delivery's directory, the ledger last."""
    stays = {layout.tombstone, layout.fence, layout.readers, layout.owner}
    found = [path for path in layout.root.iterdir() if path not in stays]
    return sorted(found, key=lambda path: (path.name.startswith(layout.ledger.name), path == layout.ledger, path.name))


def _origin_in(file: Path) -> dict[str, str]:
    try:
        value = parse(read_small(file, limits.ACTIVATION_BYTES_MAX))
    except (OSError, ValueError):
        return {}
    origin = value.get("origin") if isinstance(value, Mapping) else None
    name = origin.get("delivery") if isinstance(origin, Mapping) else None
    return {name: file.stem} if isinstance(name, str) else {}


def size_of(directory: Path) -> int:
    """Bytes on disk, links not followed; 0 when it is not there."""
    total = 0
    for top, _, files in os.walk(directory):
        for name in (".", *files):
            with suppress(OSError):  # it went while it was counted
                total += Path(top, name).lstat().st_blocks * 512
    return total
