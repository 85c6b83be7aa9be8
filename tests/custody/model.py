"""What a worktree is, the naive way: a full copy of everything in it, and its index entries as git lists them.

Written without custody's code, so that it can be wrong only in other ways. Its rules are the documented ones: ignored files
that nobody tracks do not count, nested repositories and submodules are not looked into.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.custody.fakes import Repo

IGNORED = "*.log\nbuild/\n"
RESERVED = frozenset({b".git.", b"git~1", b".GIT"})
Entries = dict[tuple[bytes, int], tuple[str, str, str]]
"""Tag, mode and id by path and stage."""


@dataclass(frozen=True)
class Thing:
    kind: str
    """file, link, dir, fifo, other."""
    mode: int = 0
    data: bytes = b""


@dataclass(frozen=True)
class Copy:
    """What counts, and what was met and does not."""

    things: dict[bytes, Thing]
    entries: Entries
    uncaptured: dict[bytes, str] = field(default_factory=dict)

    @property
    def files(self) -> dict[bytes, Thing]:
        return {path: thing for path, thing in self.things.items() if thing.kind in ("file", "link")}

    @property
    def hollow(self) -> set[bytes]:
        """Directories that nothing of what counts is in."""
        return {path for path, thing in self.things.items() if thing.kind == "dir" and thing.data == b"empty"}


def everything(repo: Repo) -> dict[bytes, Thing]:
    """All that is there, counted or not, repositories included."""
    root = os.fsencode(repo.path)

    def below(prefix: bytes) -> Iterator[tuple[bytes, Thing]]:
        for name in sorted(os.listdir(root + b"/" + prefix)):  # noqa: PTH208 - bytes
            path = prefix + name
            if path == b".git":
                continue
            thing = thing_at(root + b"/" + path)
            yield path, thing
            if thing.kind == "dir":
                yield from below(path + b"/")

    return dict(below(b""))


def thing_at(place: bytes) -> Thing:
    status = os.lstat(place)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Thing("link", 0, os.readlink(place))  # noqa: PTH115 - bytes
    if stat.S_ISDIR(status.st_mode):
        return Thing("dir", mode, b"" if os.listdir(place) else b"empty")  # noqa: PTH208 - bytes
    if stat.S_ISREG(status.st_mode):
        with open(place, "rb") as file:  # noqa: PTH123 - bytes
            return Thing("file", mode, file.read())
    return Thing("fifo" if stat.S_ISFIFO(status.st_mode) else "other")


def entries_of(repo: Repo) -> Entries:
    found: Entries = {}
    for line in repo.git("ls-files", "-s", "-v", "-z").split("\0"):
        meta, _, name = line.partition("\t")
        if name:
            tag, mode, oid, stage = meta.split(" ")
            found[os.fsencode(name), int(stage)] = ("H" if tag == "M" else tag, mode, oid)
    return found


def ignored(path: bytes, *, directory: bool) -> bool:
    """Whether ``IGNORED`` ignores it."""
    *above, name = path.split(b"/")
    return (
        name.endswith(b".log")
        or any(d == b"build" or d.endswith(b".log") for d in above)
        or (directory and name == b"build")
    )


def copy_of(repo: Repo, reference: Copy | None, entries: Entries | None = None) -> Copy:
    """What counts now, for somebody who knows ``reference``; ``entries`` in place of the present index's."""
    entries = entries_of(repo) if entries is None else entries
    before = set(reference.files) if reference else set()
    held = before | {p for p, t in reference.things.items() if t.kind != "dir" or t.data} if reference else set()
    gitlinks = {path for (path, _), entry in entries.items() if entry[1] == "160000"}
    links = {p for p in gitlinks if reference is None or reference.entries.get((p, 0), "  ")[1] == "160000"}
    was = {p for (p, _), entry in reference.entries.items() if entry[1] != "160000"} if reference else set()
    wanted = before | was | {path for path, _ in entries} - gitlinks
    things: dict[bytes, Thing] = {}
    uncaptured: dict[bytes, str] = {}
    closed: list[bytes] = []
    found = everything(repo)
    for path, thing in found.items():
        name = path.rpartition(b"/")[2]
        directory = thing.kind == "dir"
        if any(path.startswith(shut) for shut in closed):
            continue
        inside = {p for p in wanted if p.startswith(path + b"/")}
        captured = any(p.startswith(path + b"/") for p in held)
        if name == b".git":
            uncaptured[path] = "nested repository"
            closed.append(path + b"/")
        elif ignored(path, directory=directory) and not (inside if directory else path in wanted):
            closed += [path + b"/"] if directory else []
        elif name in RESERVED:
            uncaptured[path] = "reserved"
            closed.append(path + b"/")
        elif directory and not captured and (path in links or path + b"/.git" in found):
            uncaptured[path] = "submodule" if path in links else "nested repository"
            closed.append(path + b"/")
        else:
            things[path] = thing
    return Copy(things, entries, uncaptured)


def changes(before: Copy, after: Copy) -> set[tuple[str, bytes]]:
    """Kind and path of everything that differs, as a verdict names it."""
    found: set[tuple[str, bytes]] = set()
    old, new = before.files, after.files
    for path in old.keys() | new.keys():
        was, now = old.get(path), new.get(path)
        if was != now:
            found.add((_kind(was, now), path))
    dirs = [{p: t for p, t in copy.things.items() if t.kind == "dir"} for copy in (before, after)]
    found |= {("created/", p) for p in after.hollow - dirs[0].keys()}
    found |= {("deleted/", p) for p in before.hollow - dirs[1].keys() - after.uncaptured.keys()}
    found |= {("mode/", p) for p in dirs[0].keys() & dirs[1].keys() if dirs[0][p].mode != dirs[1][p].mode}
    special = [{p: t.kind for p, t in c.things.items() if t.kind in ("fifo", "other")} for c in (before, after)]
    found |= {("special", p) for p in special[0].keys() | special[1].keys() if special[0].get(p) != special[1].get(p)}
    keys = before.entries.keys() | after.entries.keys()
    found |= {("staged", key[0]) for key in keys if before.entries.get(key) != after.entries.get(key)}
    found |= {("uncaptured", p) for p, why in after.uncaptured.items() if before.uncaptured.get(p) != why}
    return found


def _kind(was: Thing | None, now: Thing | None) -> str:
    if was is None or now is None:
        return "created" if was is None else "deleted"
    if was.kind != now.kind:
        return "type"
    return "modified" if was.data != now.data else "mode"


def left(target: Copy, now: Copy) -> set[tuple[str, bytes]]:
    """What a restore has failed to put back."""
    return {c for c in changes(target, now) if c[0] != "uncaptured"}
