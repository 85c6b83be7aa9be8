"""A power cut, as far as it can be simulated without a device that forgets.

``torn``: what fsync confirmed is there, and after it the beginning of a transaction whose fsync never came. That is what a
disk that keeps its word leaves, and everything must be as after a kill. ``lost``: a disk that lied. The ledger's journal ends
at an earlier commit or in the middle of a frame, or the newest artifact is short or gone, while worktree and repository are
as they were. Then a Delivery that settles must have the same result, or a person is asked, or an error refuses to go on; which
effects are repeated, nobody can promise. A journal is not cut back behind the Delivery's first savepoint: nobody could tell
that from a Delivery that begins in this worktree as it is now. Both times the journal's shared memory is gone.

Not simulated: git's own files (git is told to fsync objects and refs, and has ended before the ledger names them), and
directory entries that were renamed but not yet fsynced.
"""

import random
from pathlib import Path
from typing import Final, Literal

from runner.contract.errors import RunnerError
from runner.contract.events import SavepointTaken
from tests.crash.arena import Arena

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
"""Of SQLite's write-ahead log (its file format is documented and stable)."""

Cut = Literal["torn", "lost"]


def cut(arena: Arena, how: Cut, rng: random.Random) -> str:
    """Cuts, in words; empty when there was nothing to cut."""
    ledger = arena.layout.ledger
    journal = Path(f"{ledger}-wal")
    Path(f"{ledger}-shm").unlink(missing_ok=True)
    data = journal.read_bytes() if journal.exists() else b""
    if len(data) <= HEADER_BYTES:
        return ""
    if how == "torn":
        torn = data[HEADER_BYTES:][: rng.randrange(1, 3 * frame_bytes(data))]
        journal.write_bytes(data + torn)
        return f"{len(torn)} bytes of an unfinished transaction"
    artifacts = sorted(
        (p for p in arena.layout.artifacts.rglob("*") if p.is_file()), key=lambda p: p.stat().st_mtime_ns
    )
    if artifacts and rng.randrange(3) == 0:
        return _shorten(artifacts[-1], rng)
    end = rng.choice(commit_ends(data)) if rng.randrange(2) else rng.randrange(HEADER_BYTES, len(data))
    journal.write_bytes(data[:end])
    if begun(arena):
        return f"the journal ends at {end} of {len(data)}"
    journal.write_bytes(data)
    return ""


def begun(arena: Arena) -> bool:
    """Whether the ledger knows the first savepoint."""
    try:
        return SavepointTaken.KIND in arena.world.kinds()
    except RunnerError:
        return False


def _shorten(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    path.chmod(0o600)
    keep = rng.randrange(len(data))
    path.write_bytes(data[:keep])
    return f"{path.name[:8]} has {keep} of {len(data)} bytes"


def frame_bytes(journal: bytes) -> int:
    return FRAME_HEADER_BYTES + int.from_bytes(journal[8:12])


def commit_ends(journal: bytes) -> list[int]:
    """Where each transaction of the journal ends: a frame whose second word is not zero is the last of one."""
    size = frame_bytes(journal)
    starts = range(HEADER_BYTES, len(journal) - size + 1, size)
    return [start + size for start in starts if int.from_bytes(journal[start + 4 : start + 8])]
