"""One Delivery's ledger, as rooms hold it: readers read, each owner has one pen, artifacts are by content."""

from collections.abc import Callable, Iterator
from typing import Protocol

from runner.contract.canonical import FrozenJson
from runner.contract.events import Owner, ValueRef
from runner.contract.ids import StepRef
from runner.contract.records import Draft, InboxItem, Record


class LedgerReader(Protocol):
    """Reading costs what is read, not what was written before it: lookups by step and kind go through an index."""

    def head(self) -> int:
        """The last sequence, 0 for an empty ledger."""
        ...

    def read(
        self, *, after: int = 0, kinds: frozenset[str] | None = None, step: StepRef | None = None
    ) -> Iterator[Record]:
        """Records in order. ``IntegrityError`` (ledger-corrupt, ledger-version) at the first that cannot be understood."""
        ...

    def last(self, kinds: frozenset[str], step: StepRef | None = None) -> Record | None:
        """The newest record of one of ``kinds`` (of that step, when given)."""
        ...

    def open_steps(self) -> tuple[StepRef, ...]:
        """Steps that were scheduled and have no end yet, in the order they were scheduled. Costs what is open."""
        ...


class LedgerWriter(Protocol):
    """One owner's pen. Only this owner's kinds are taken; only the current generation may write (``fence-lost``)."""

    def stage(self, *drafts: Draft) -> None:
        """Recorded with, and in front of, the next ``append`` of any owner; lost if the process dies before that."""
        ...

    def append(self, *drafts: Draft) -> tuple[Record, ...]:
        """One durable transaction: everything staged, then ``drafts``. Returns those of ``drafts``. When it raises,
        nothing was written and what was staged stays staged. ``LEDGER_ORDER`` for a second end of one step, or for a
        completed step that names an artifact or savepoint which cannot be read back."""
        ...


class Artifacts(Protocol):
    """Content-addressed values of one Delivery."""

    def put(self, value: FrozenJson) -> ValueRef:
        """``value`` by reference: inline when small, else written atomically (temp, fsync, rename, fsync directory)."""
        ...

    def get(self, ref: ValueRef) -> FrozenJson:
        """The value, verified against its digest; ``ARTIFACT_CORRUPT`` when it does not hold."""
        ...


class Ledger(LedgerReader, Protocol):
    """One Delivery's open ledger, as the coordinator holds it."""

    @property
    def artifacts(self) -> Artifacts: ...

    def writer(self, owner: Owner) -> LedgerWriter: ...

    def inbox(self) -> tuple[InboxItem, ...]:
        """What was left and not yet taken, in order of arrival."""
        ...

    def take(self, item: InboxItem) -> None:
        """Marks it taken with the next ``append``, in the same transaction."""
        ...

    def subscribe(self, listener: Callable[[Record], None]) -> None:
        """``listener`` is called after each durable append, on the appending thread; it must not block or raise."""
        ...

    def close(self) -> None: ...
