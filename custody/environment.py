"""What surrounds the files: HEAD and operations in progress, and digests of everything that could make git act on its own."""

import hashlib
import itertools
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from custody.paths import encode
from custody.repository import Repository
from custody.state import Surroundings

OPERATIONS: Final = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge/head-name",
    "rebase-apply/head-name",
    "sequencer/todo",
)
SHARED: Final = ("config", "info/attributes", "info/exclude")
WATCHED: Final = ("refs/heads/", "refs/tags/", "refs/stash")
REFS_MAX: Final = 20_000
REFS_SHOWN_MAX: Final = 20
DIGEST_BYTES_MAX: Final = 4 * 1024 * 1024
"""A hook beyond this is known by its size and time only."""


def surroundings(repository: Repository) -> Surroundings:
    """Read without starting a process; nothing that is not a regular file is opened."""
    head = _digest_or_text(repository.git_dir / "HEAD", text=True) or ""
    operations = {name: found for name in OPERATIONS if (found := _digest_or_text(repository.git_dir / name))}
    return Surroundings(head=head, operations=operations, environment=dict(_environment(repository)))


def _environment(repository: Repository) -> Iterator[tuple[str, str]]:
    places = [(name, repository.common_dir / name) for name in SHARED]
    places.append(("config.worktree", repository.git_dir / "config.worktree"))
    pointer = repository.worktree / ".git"
    if not pointer.is_dir() or pointer.is_symlink():
        places.append((".git", pointer))
    hooks = repository.common_dir / "hooks"
    try:
        places += [
            (f"hooks/{encode(os.fsencode(name))}", hooks / name)
            for name in sorted(path.name for path in hooks.iterdir())
        ]
    except (FileNotFoundError, NotADirectoryError):
        places.append(("hooks", hooks))
    for name, path in places:
        found = _digest_or_text(path)
        if found is not None:
            yield name, found


def _digest_or_text(path: Path, *, text: bool = False) -> str | None:
    """Kind, mode and content of ``path`` as a digest (or, for HEAD, the content itself); None when nothing is there."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = f"{found.st_mode:o}"
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(path.readlink())
        behind = "".join(_digest_or_text(path.resolve()) or "") if path.exists() and not text else ""
        return encode(target) if text else _hash(kind.encode(), target, behind.encode())
    if not stat.S_ISREG(found.st_mode) or found.st_size > DIGEST_BYTES_MAX:
        return _hash(kind.encode(), f"{found.st_size} {found.st_mtime_ns}".encode())
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        data = file.read(DIGEST_BYTES_MAX + 1)
    return encode(data.strip()) if text else _hash(kind.encode(), data)


def _hash(*parts: bytes) -> str:
    return "sha256:" + hashlib.sha256(b"\0".join(parts)).hexdigest()


def branches(repository: Repository) -> dict[str, str]:
    """Branches, tags and the stash, by name and value, as files of the repository hold them. Nothing for a repository that
    keeps its refs in tables; at most ``REFS_MAX``."""
    found: dict[str, str] = {}
    try:
        packed = (repository.common_dir / "packed-refs").read_text("utf-8", "surrogateescape")
    except OSError:
        packed = ""  # none, or no file: then there are no packed refs
    for line in packed.splitlines()[:REFS_MAX]:
        value, _, name = line.partition(" ")
        if name.startswith(WATCHED):
            found[name] = value
    for place in WATCHED:
        top = repository.common_dir / place
        names = top.rglob("*") if place.endswith("/") else [top]
        for path in itertools.islice(names, REFS_MAX):
            if path.is_file() and path.suffix != ".lock":
                found[str(path.relative_to(repository.common_dir))] = _digest_or_text(path, text=True) or ""
    return found


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Which refs are not what they were, for people."""
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    texts = [f"{encode(os.fsencode(n))}: was {before.get(n, 'absent')}, is {after.get(n, 'absent')}" for n in names]
    return (
        *texts[:REFS_SHOWN_MAX],
        *([f"... and {len(names) - REFS_SHOWN_MAX} more refs"] if len(names) > REFS_SHOWN_MAX else []),
    )
