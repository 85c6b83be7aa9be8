"""A power cut, as far as it can be simulated without a device that forgets.

``torn``: what fsync confirmed is there, and after it the beginning of a transaction whose fsync never came. That is what a
disk that keeps its word leaves, and everything must be as after a kill. ``unsynced``: by the letter of POSIX, any name that was
made or renamed and whose directory was not fsynced since may be lost, and any contents that nobody fsynced; of the state, of
git's own files in the private store and in the user's repository (git fsyncs what it writes but no directory), of the
worktree. ``lost``: a disk that lied. The ledger's journal ends at an earlier commit or in the middle of a frame, or the newest
artifact is short or gone, while worktree and repository are as they were.

After the last two a Delivery that settles must have the same result where it says it is, or a person is asked, or an error
refuses to go on. After ``lost`` nobody can promise which effects are repeated. A journal is not cut back behind the Delivery's
first savepoint: nobody could tell that from a Delivery that begins in this worktree as it is now. The journal's shared memory
is always gone.

Not simulated: removals that come back, and the directories of SQLite's files, which SQLite itself fsyncs.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Literal

from runner.contract.errors import RunnerError
from runner.contract.events import SavepointTaken
from tests.crash.arena import Arena

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
"""Of SQLite's write-ahead log (its file format is documented and stable)."""

GIT: Final = ("store.git", ".git")
ROOTS: Final = ("state", "repository/.git", "worktree")
SQLITE: Final = ("ledger.sqlite", "checkpoints.sqlite")

Cut = Literal["torn", "lost", "unsynced"]
Part = Literal["all", "half", "git", "one"]
Synced = tuple[str, int | dict[str, int]]
"""A path below the world's root and what an fsync of it confirmed: a file's inode, or a directory's names and inodes."""


def tell_of_fsyncs(root: Path, tell: Callable[[dict[str, Any]], None]) -> None:
    """Cannot be undone: only for a process that ends with the run."""
    fsync = os.fsync

    def telling(handle: int | IO[bytes]) -> None:
        fsync(handle)
        number = handle if isinstance(handle, int) else handle.fileno()
        path = Path(f"/proc/self/fd/{number}").readlink()
        if path.is_relative_to(root):
            confirmed = names_in(path) if path.is_dir() else os.fstat(number).st_ino
            tell({"synced": [str(path.relative_to(root)), confirmed]})

    os.fsync = telling  # type: ignore[assignment] # the standard library's, in a process that ends with the run


def names_in(directory: Path) -> dict[str, int]:
    with os.scandir(directory) as found:
        return {entry.name: entry.inode() for entry in found}


def directories(root: Path) -> dict[str, dict[str, int]]:
    """What is on the disk for certain before a run: each directory below ``root``."""
    return {str(Path(at).relative_to(root)): names_in(Path(at)) for at, _, _ in os.walk(root)}


def forget(
    arena: Arena, before: Mapping[str, Mapping[str, int]], synced: Sequence[Synced], how: Part, rng: random.Random
) -> str:
    """Loses that much of what no fsync confirmed; in words, empty if there was nothing."""
    root, confirmed = arena.world.root, dict(before)
    inodes = {inode for names in before.values() for inode in names.values()}
    for place, known in synced:
        if isinstance(known, int):
            inodes.add(known)
        else:
            confirmed[place] = known
    losable: list[Path] = [*_names(root, confirmed, arena.template), *_contents(root, inodes)]
    match how:
        case "half":
            losable = [path for path in losable if rng.randrange(2)]
        case "git":
            losable = [path for path in losable if set(GIT) & set(path.relative_to(root).parts)]
        case "one":
            losable = [rng.choice(losable)] if losable else []
    for path in losable:  # outermost first
        _lose(path, arena.template / path.relative_to(root), rng)
    if not losable:
        return ""
    return f"{how}: {len(losable)} lost, first {losable[0].relative_to(root)}, last {losable[-1].relative_to(root)}"


def _names(root: Path, confirmed: Mapping[str, Mapping[str, int]], template: Path) -> Iterator[Path]:
    """Names that were made since their directory was last on the disk, outermost first."""
    for start in ROOTS:
        for at, _, _ in os.walk(root / start):
            place = str(Path(at).relative_to(root))
            known = confirmed.get(place, {})
            for name, inode in sorted(names_in(Path(at)).items()):
                replaced = name in known and not (template / place / name).exists()
                if known.get(name) != inode and not replaced and not name.startswith(SQLITE):
                    yield Path(at) / name


def _contents(root: Path, inodes: set[int]) -> Iterator[Path]:
    """Files that neither were there before nor were fsynced; git fsyncs its own."""
    for start in ("state", "worktree"):
        for at, below, files in os.walk(root / start):
            below[:] = [name for name in below if name not in GIT]
            paths = (Path(at) / name for name in sorted(files) if not name.startswith(SQLITE))
            yield from (path for path in paths if path.lstat().st_ino not in inodes and path.lstat().st_size)


def _lose(path: Path, older: Path, rng: random.Random) -> None:
    """Gone, as it was before, or short. What was in a directory that is gone already is gone too."""
    if not path.is_symlink() and not path.exists():
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        return
    if path.stat().st_size and rng.randrange(3) == 0:
        _shorten(path, rng)
        return
    path.unlink()
    if older.is_file():
        shutil.copy2(older, path)


def cut(arena: Arena, how: Literal["torn", "lost"], rng: random.Random) -> str:
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
