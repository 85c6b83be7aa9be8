"""What is kept of a Delivery, as people see it: what two savepoints differ in, what a restore does, what was collected."""

from typing import Annotated, Final, Literal

from pydantic import Field

from runner.contract.activation import DigestText, ObjectIdText
from runner.contract.model import Frozen
from runner.contract.outcomes import Settlement


class FileDifference(Frozen):
    """One path. ``added`` and ``deleted`` count lines; None for a binary file."""

    path: str
    """UTF-8, other bytes as ``%XX``."""
    status: Literal["added", "deleted", "modified", "mode", "type"]
    added: int | None
    deleted: int | None


class Difference(Frozen):
    """From one savepoint to another."""

    delivery: str
    before: ObjectIdText
    after: ObjectIdText
    before_tree: ObjectIdText
    """Of the work files, in the private store."""
    after_tree: ObjectIdText
    files: tuple[FileDifference, ...]


class Restoration(Frozen):
    """What a restore changes, or changed: ``created``, ``modified`` and so on with a path each."""

    savepoint: ObjectIdText
    changes: tuple[str, ...]
    present: ObjectIdText | None = None
    """The savepoint that keeps what was there before: restored in its turn, it undoes the restore."""
    missing: tuple[str, ...] = ()
    """What the savepoint does not hold, and why."""


TOMBSTONE_FORMAT: Final = "runner.tombstone/1"


class Leftovers(Frozen):
    """What of a Delivery is outside its directory and goes with it."""

    repository: str
    """The git directory that all its worktrees share; empty when there never was a baseline."""
    ref: str
    """What keeps the result there; empty for none."""
    commit: str
    worktree: str
    """The one that was made for it; empty for none."""


class Tombstone(Frozen):
    """What stays of a collected Delivery: its end, so that the same activation is still answered with it."""

    format: Literal["runner.tombstone/1"] = TOMBSTONE_FORMAT
    settlement: Settlement
    accepted_at: str
    settled_at: str
    collected_at: str
    isolation: str
    records: Annotated[int, Field(ge=1)]
    chain: DigestText
    """The chain digest of the last record."""
    leftovers: Leftovers
    digest: DigestText
    """Over all the other fields."""


KEEP_DAYS: Final = 30
KEEP_COUNT: Final = 10


class Retention(Frozen):
    """Which settled Deliveries go. The ``keep_count`` newest always stay; of the others go those that settled more than
    ``keep_days`` ago, and then the oldest as long as all of them together take more than ``max_bytes``. Those that did not
    complete, or could not publish, only with ``failed``."""

    keep_days: Annotated[float, Field(ge=0)] = KEEP_DAYS
    keep_count: Annotated[int, Field(ge=0)] = KEEP_COUNT
    max_bytes: Annotated[int, Field(ge=0)] | None = None
    failed: bool = False


class Collection(Frozen):
    """What became, or would become, of one Delivery."""

    delivery: str
    state: Literal["collected", "kept"]
    why: str
    bytes: int = 0
    """On disk: its directory, and its worktree where that goes too."""
    notes: tuple[str, ...] = ()
