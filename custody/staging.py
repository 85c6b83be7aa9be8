"""Putting index entries back: on a copy, entry by entry, then in place of the worktree's index under git's own lock.

The lock is taken by linking a file whose name is ours to ``index.lock``. So a lock that a kill left is known to be ours by
its inode and is removed; any other lock is somebody's, is reported and never removed.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from custody.durable import sync_directory
from custody.git import Git, Place
from custody.objects import missing_objects, read_blobs
from custody.repository import Repository
from custody.state import GITLINK, Index, Staged
from custody.store import Store
from runner.contract.errors import Code, EnvironmentFault

IndexPlan = tuple[tuple[tuple[bytes, int], Staged | None], ...]
"""Entries by path and stage as they must become; None: no such entry."""

CANDIDATE: Final = "index.runner-lock"
# Entries come without flags from --index-info, so a plain one needs nothing more.
_TAGS: Final = {
    "h": ("--assume-unchanged",),
    "S": ("--skip-worktree",),
    "s": ("--assume-unchanged", "--skip-worktree"),
}


def put_back_index(git: Git, repository: Repository, store: Store, plan: IndexPlan, target: Index) -> None:
    """The worktree's index with the entries of ``plan`` changed and all others as they are. Objects that the entries name
    and the repository has lost meanwhile are given back to it."""
    if not plan:
        return
    _give_back_objects(git, repository, store, [entry.oid for _, entry in plan if entry and entry.mode != GITLINK])
    with _locked(repository) as lock:
        copy = store.scratch / "index"
        store.scratch.mkdir(exist_ok=True)
        if repository.index.exists():
            shutil.copy2(repository.index, copy)  # with its mtime: git judges racy entries by it
        place = Place(git_dir=repository.git_dir, work_tree=repository.worktree, index=copy)
        git.run(place, "update-index", "-z", "--index-info", stdin=_index_info(repository, plan, target))
        for tag, flags in _TAGS.items():
            paths = b"".join(path + b"\0" for (path, stage), entry in plan if entry and stage == 0 and entry.tag == tag)
            for flag in flags if paths else ():
                git.run(place, "update-index", flag, "-z", "--stdin", stdin=paths)
        with copy.open("rb") as source, lock.open("r+b") as out:
            out.truncate()
            shutil.copyfileobj(source, out)
            out.flush()
            os.fsync(out.fileno())
        if repository.index.exists():
            shutil.copymode(repository.index, lock)
        lock.replace(repository.index)
        sync_directory(repository.git_dir)
        store.clear_scratch()


def _index_info(repository: Repository, plan: IndexPlan, target: Index) -> bytes:
    """Every path of ``plan`` is taken out whole, then all its stages are put in: a conflict cannot be mended by halves."""
    paths = sorted({path for (path, _), _ in plan})
    out = [b"0 %s\t%s\0" % (repository.zero.encode(), path) for path in paths]
    for path in paths:
        for stage in range(4):
            entry = target.get((path, stage))
            if entry is not None:
                out.append(b"%o %s %d\t%s\0" % (entry.mode, entry.oid.encode(), stage, path))
    return b"".join(out)


def _give_back_objects(git: Git, repository: Repository, store: Store, oids: list[str]) -> None:
    lost = missing_objects(git, repository.place, sorted(set(oids)))

    def missing(oid: str, why: str) -> Exception:
        return EnvironmentFault(
            Code.GIT_FAILED,
            f"the staged object {oid} is {why} in the repository and in {store.path}",
            remedy="bring the Delivery's directory back from where it was copied to",
        )

    for data in read_blobs(git, store.place, lost, missing):
        git.run(repository.place, "hash-object", "-w", "--stdin", "-t", "blob", "--no-filters", stdin=data)


@contextmanager
def _locked(repository: Repository) -> Iterator[Path]:
    candidate, lock = repository.git_dir / CANDIDATE, repository.git_dir / "index.lock"
    free_index_lock(repository)
    try:
        candidate.touch()
        try:
            os.link(candidate, lock)
        except FileExistsError:
            raise EnvironmentFault(
                Code.GIT_FAILED,
                f"{lock} exists: another git process works on this index, or one was killed",
                remedy="wait for it; if none is running, remove that file; then run the same command again",
            ) from None
        yield lock
    finally:
        free_index_lock(repository)


def free_index_lock(repository: Repository) -> None:
    """Removes a lock of ours, whoever left it; nobody else's."""
    candidate, lock = repository.git_dir / CANDIDATE, repository.git_dir / "index.lock"
    try:
        if candidate.samefile(lock):
            lock.unlink()
    except FileNotFoundError:
        pass  # one of the two is not there: no lock of ours
    candidate.unlink(missing_ok=True)
