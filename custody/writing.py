"""How a savepoint is written: as the difference to one that is there, by one ``fast-import`` process, which rewrites only the
trees along the changed paths. Synced before it answers (``core.fsync=all``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from custody.git import Conversation, Git, Place
from custody.midstep import Mark, overlay
from custody.objects import empty_tree
from custody.paths import parents
from custody.state import At, File, Kept, State, manifest

TIP: Final = "refs/custody/savepoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The admitted tree, whose objects the store has."""

    tree: str
    files: Mapping[bytes, tuple[int, str]]


Entry = tuple[int, str]
"""Mode and blob."""


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[tuple[Any, Entry | None]]:
    """Where ``after`` has another mode or blob than ``before``; None where it has nothing."""
    for key in before.keys() - after.keys():
        yield key, None
    for key, new in after.items():
        old = before.get(key)
        if old is not new and (old is None or (old.mode, old.oid) != (new.mode, new.oid)):
            yield key, (new.mode, new.oid)


def _changes(before: State, after: State) -> dict[bytes, Entry | None]:
    """What of a savepoint's tree, besides the manifest, is other than in ``before``'s."""
    found = {b"work/" + path: entry for path, entry in _changed(before.files, after.files)}
    if before.index is not after.index:
        found |= {b"index/%d/" % stage + path: entry for (path, stage), entry in _changed(before.index, after.index)}
    return found


def _changes_to_base(base: Base, after: State) -> dict[bytes, Entry | None]:
    """The same for a tree that holds the base's files twice."""
    now = {b"work/" + path: (file.mode, file.oid) for path, file in after.files.items()}
    now |= {b"index/%d/" % stage + path: (entry.mode, entry.oid) for (path, stage), entry in after.index.items()}
    was = {top + path: entry for top in (b"work/", b"index/0/") for path, entry in base.files.items()}
    return {path: now.get(path) for path in was.keys() | now.keys() if was.get(path) != now.get(path)}


class Writer:
    """One savepoint being written: one ``fast-import`` process, started when the first new object comes. Until ``commit``
    has returned nothing refers to what was written."""

    def __init__(self, git: Git, place: Place, known: set[str]) -> None:
        self._git = git
        self._place = place
        self._known = known
        self._new: set[str] = set()
        self._talk: Conversation | None = None

    def put(self, oid: str, data: bytes) -> None:
        """Keeps a blob, unless the store has it."""
        if oid not in self._known and oid not in self._new:
            self._import().write(b"blob\ndata %d\n" % len(data) + data + b"\n")
            self._new.add(oid)

    def commit(
        self, state: State, *, reference: Kept | None, base: "Base | None", parent: str | None, message: str, date: str
    ) -> Kept:
        """``state`` as a commit, everything synced. Written as the difference to ``reference``, or to ``base``."""
        talk = self._head(parent, message, date)
        if reference is not None:
            talk.write(b'M 040000 %s ""\nD "overlay"\n' % reference.root.encode())
            changes = _changes(reference.state, state)
        else:
            assert base is not None  # noqa: S101 - the baseline is written against its base
            talk.write(b'M 040000 %s "work"\nM 040000 %s "index/0"\n' % (base.tree.encode(), base.tree.encode()))
            changes = _changes_to_base(base, state)
        # What is below a path goes before what takes its place.
        for path, entry in sorted(changes.items(), key=lambda item: (item[1] is not None, item[0])):
            line = (
                b"D %s\n" % _quoted(path)
                if entry is None
                else b"M %o %s %s\n" % (entry[0], entry[1].encode(), _quoted(path))
            )
            talk.write(line)
        data = manifest(state)
        talk.write(b'M 100644 inline "manifest"\ndata %d\n%s\n\n' % (len(data), data))
        commit, tree, root = self._finish(talk)
        return Kept(commit=commit, tree=tree, root=root, state=state)

    def mark(self, before: Mark, found: Mapping[bytes, At], *, parent: str | None, message: str, date: str) -> Mark:
        """``before`` with ``found`` as a commit, everything synced. Costs what ``found`` and the marks before it hold."""
        talk = self._head(parent, message, date)
        talk.write(b'M 040000 %s ""\n' % before.root.encode())
        for path in sorted(found, reverse=True):  # what is below a path goes before what takes its place
            if isinstance(before.at(path), File) and not isinstance(found[path], File):
                talk.write(b"D %s\n" % _quoted(b"work/" + path))
        for path, file in sorted(found.items(), key=lambda item: item[0]):
            if isinstance(file, File):
                talk.write(b"M %o %s %s\n" % (file.mode, file.oid.encode(), _quoted(b"work/" + path)))
        # A directory is known by the files in it; one that its last file has left is named.
        left = {d: before.at(d) for path in found if isinstance(before.at(path), File) for d in parents(path)}
        touched = {**before.touched, **left, **found}
        data = overlay(touched)
        talk.write(b'M 100644 inline "overlay"\ndata %d\n%s\n\n' % (len(data), data))
        commit, tree, root = self._finish(talk)
        return Mark(start=before.start, commit=commit, tree=tree, root=root, touched=touched)

    def _head(self, parent: str | None, message: str, date: str) -> Conversation:
        talk, text = self._import(), message.encode("utf-8", "replace")
        talk.write(b"commit %s\nmark :1\n" % TIP.encode())
        talk.write(b"committer Runner <runner@localhost> %s +0000\ndata %d\n%s\n" % (date.encode(), len(text), text))
        if parent is not None:
            talk.write(b"from %s\n" % parent.encode())
        return talk

    def _finish(self, talk: Conversation) -> tuple[str, str, str]:
        """Commit, tree of the work files, whole tree."""
        talk.write(b'get-mark :1\nls :1 "work"\nls :1 ""\ndone\n')
        commit = talk.read_line().decode()
        work, root = (_listed(talk.read_line()) for _ in range(2))
        status = talk.end()
        if status != 0:
            raise talk.failure(f"exit status {status}")
        talk.kill()
        self._talk = None
        self._known |= self._new
        return commit, work or empty_tree("sha256" if len(commit) == 64 else "sha1"), root

    def finish(self) -> None:
        """Ends it with what was put, but without a savepoint. Nothing to do after ``commit``."""
        if self._talk is not None:
            talk, self._talk = self._talk, None
            talk.write(b"done\n")
            status = talk.end()
            if status != 0:
                raise talk.failure(f"exit status {status}")
            talk.kill()
            self._known |= self._new

    def abandon(self) -> None:
        """Drops it whatever state it is in."""
        if self._talk is not None:
            self._talk.kill()
            self._talk = None

    def _import(self) -> Conversation:
        if self._talk is None:
            # One pack, synced once; below a hundred objects git would sync each of them.
            config = ("fastimport.unpackLimit=0",)
            self._talk = self._git.talk(
                self._place, "fast-import", "--quiet", "--date-format=raw", "--done", config=config
            )
        return self._talk


def _listed(line: bytes) -> str:
    """The id in fast-import's answer to ``ls``; empty for a path that is not there."""
    return "" if line.startswith(b"missing ") else line.split(b"\t")[0].split(b" ")[2].decode()


def _quoted(path: bytes) -> bytes:
    """A path for fast-import; every byte may stand in it."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
