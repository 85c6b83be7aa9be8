"""The user's repository as custody sees it: where it is, what its index holds, what is checked out where. Read-only.

Found by reading ``.git`` ourselves, so that every git process gets explicit directories; ownership refusals
(``safe.directory``) do not arise for those, and nothing of the repository's is run by us in any case.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from custody.git import Git, Place
from custody.state import Index, Staged
from runner.contract.errors import Code, EnvironmentFault

ABSENT: Final = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    worktree: Path
    git_dir: Path
    """Of this worktree."""
    common_dir: Path
    """Shared by all worktrees: config, refs, objects."""
    object_format: str

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    @property
    def place(self) -> Place:
        """For commands on objects and refs only."""
        return Place(git_dir=self.git_dir)

    @property
    def place_with_index(self) -> Place:
        return Place(git_dir=self.git_dir, work_tree=self.worktree, index=self.index)

    @property
    def zero(self) -> str:
        """The id that stands for no object."""
        return "0" * (64 if self.object_format == "sha256" else 40)


def discover(git: Git, worktree: Path) -> Repository:
    """The repository whose worktree has its root at ``worktree``; ``WORKTREE_MISSING`` otherwise."""
    try:
        git_dir = _named(worktree)
        common = git_dir / "commondir"
        common_dir = git_dir / os.fsdecode(common.read_bytes().strip()) if common.exists() else git_dir
        git_dir, common_dir = git_dir.resolve(strict=True), common_dir.resolve(strict=True)
    except (OSError, ValueError) as error:
        raise EnvironmentFault(
            Code.WORKTREE_MISSING,
            f"{worktree} is not the root of a git worktree: {error}",
            remedy="put the worktree back where it was admitted",
        ) from None
    form = git.run(Place(git_dir=git_dir), "rev-parse", "--show-object-format").stdout.decode().strip()
    return Repository(worktree=worktree, git_dir=git_dir, common_dir=common_dir, object_format=form)


def _named(worktree: Path) -> Path:
    """What the worktree's ``.git`` is, or names; ``OSError`` and ``ValueError`` when it is none."""
    pointer = worktree / ".git"
    if pointer.is_dir():
        return pointer
    if not pointer.is_file():
        raise ValueError("it has no .git")
    text = pointer.read_bytes()[:8192]
    if not text.startswith(b"gitdir:"):
        raise ValueError("its .git file names no directory")
    return worktree / os.fsdecode(text[7:].strip())


def leads_to(repository: Repository) -> bool:
    """Whether the worktree's ``.git`` still names the directory that it named when it was found."""
    try:
        return _named(repository.worktree).resolve() == repository.git_dir
    except (OSError, ValueError):
        return False


def read_index(git: Git, place: Place) -> Index:
    """Every entry of an index, conflict stages and flags included. The index file is not rewritten."""
    listing = git.run(place, "ls-files", "-s", "-v", "-z").stdout
    entries: dict[tuple[bytes, int], Staged] = {}
    for line in listing.split(b"\0"):
        if line:
            meta, _, path = line.partition(b"\t")
            tag, mode, oid, stage = meta.decode().split(" ")
            entries[path, int(stage)] = Staged(mode=int(mode, 8), oid=oid, tag="H" if tag == "M" else tag)
    return entries


def read_ref(git: Git, repository: Repository, ref: str) -> str:
    """The object id that ``ref`` has now, or ``absent``."""
    listing = git.run(repository.place, "for-each-ref", "--format=%(objectname) %(refname)", ref).stdout
    for line in listing.decode("utf-8", "surrogateescape").splitlines():
        oid, _, name = line.partition(" ")
        if name == ref:
            return oid
    return ABSENT


def checked_out(git: Git, repository: Repository) -> dict[str, str]:
    """Every branch that a worktree has checked out or is rebasing, and where."""
    listing = git.run(repository.place, "worktree", "list", "--porcelain", "-z").stdout
    found: dict[str, str] = {}
    where = ""
    for field in listing.split(b"\0"):
        name, _, value = os.fsdecode(field).partition(" ")
        if name == "worktree":
            where = value
        elif name == "branch":
            found[value] = where
    admin = [repository.common_dir, *(repository.common_dir / "worktrees").glob("*")]
    for git_dir in admin:
        for state in ("rebase-merge/head-name", "rebase-apply/head-name"):
            try:
                found.setdefault((git_dir / state).read_text(errors="surrogateescape").strip(), str(git_dir))
            except OSError:
                continue  # no rebase there
    return found
