"""A settled Delivery held still: for whoever looks at its stores, and for whoever changes what is left of it.

Readers share a lock on ``read.lock``; only who collects the Delivery takes it alone, and never waits for it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.contract.activation import Activation
from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code
from runner.contract.ids import delivery_id
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Busy
from runner.contract.ports import Clock
from runner.coordinator import fence, lease
from runner.coordinator.journal import accepted_in, settled_in
from runner.ledger import FileArtifacts, SqliteReader, open_reader


@contextmanager
def reading(layout: DeliveryLayout) -> Iterator[None]:
    """Keeps the Delivery from being collected meanwhile; many may read. ``CallerError`` (``delivery-collected``) for one that
    is being collected. Where nothing can be written nothing can be collected either."""
    try:
        handle = os.open(layout.readers, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CallerError(
                Code.DELIVERY_COLLECTED, f"{layout.root.name} is being collected", remedy="see 'runner inspect'"
            ) from None
        yield
    finally:
        os.close(handle)


@contextmanager
def unread(layout: DeliveryLayout) -> Iterator[bool]:
    """Whether nobody reads the Delivery; then nobody can begin to, until the end of the block."""
    handle = os.open(layout.readers, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(handle)


def accepted(layout: DeliveryLayout) -> Activation:
    """What the Delivery was accepted with. ``CallerError`` (``delivery-unknown``)."""
    with open_reader(layout) as reader:
        return accepted_in_full(reader, layout)


def accepted_in_full(reader: SqliteReader, layout: DeliveryLayout) -> Activation:
    """The same, from its opened ledger."""
    found = accepted_in(reader)
    if found is None:
        raise CallerError(
            Code.DELIVERY_UNKNOWN,
            f"{layout.root.name}: it was never accepted here",
            remedy="execute its activation file",
        )
    return Activation.model_validate_json(canonical(FileArtifacts(layout.artifacts).get(found[0].document)))


@contextmanager
def alone_in_worktree(state_root: Path, layout: DeliveryLayout, clock: Clock) -> Iterator[Activation]:
    """A settled Delivery and its worktree, which nobody else drives or has leased until the end of the block. ``CallerError``
    (``delivery-open``), ``EnvironmentFault`` (``worktree-missing``, ``worktree-leased``)."""
    activation = accepted(layout)
    with open_reader(layout) as reader:
        settled = settled_in(reader) is not None
    name = delivery_id(layout.root.name)
    held = fence.acquire(layout, clock) if settled else None
    if held is None or isinstance(held, Busy):
        by = f"driven by pid {held.pid} on {held.host}" if held else "open"
        raise CallerError(
            Code.DELIVERY_OPEN,
            f"{name} is {by}: its worktree belongs to its next step",
            remedy=f"start a new Delivery there with 'runner fork {name}', or look at it with 'runner restore --to DIR'",
        )
    try:
        worktree = Path(activation.workspace.worktree)
        lease.take(state_root, name, worktree)
        try:
            yield activation
        finally:
            lease.release(state_root, name)
    finally:
        held.release()
