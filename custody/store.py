"""The private bare store: one per Delivery, 0700, complete in itself, so that nothing done to the user's objects loses a
savepoint.

Layout: the git store itself, and in ``custody/`` what was frozen at the baseline (``frozen.json``, ``ignore``), an ``empty``
directory, scratch space, and the journal of a restore. A savepoint is a commit on ``refs/custody/savepoints`` whose parent
is whatever was kept before it, so one ref keeps all of them; its tree is ``work``, ``index/<stage>`` and ``manifest``.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from custody.git import Conversation, Git, Place
from custody.repository import Repository
from custody.state import GITLINK, Kept, Staged, State, from_manifest, manifest
from runner.contract.canonical import canonical, parse, thaw
from runner.contract.errors import Code, EnvironmentFault, IntegrityError

TIP: Final = "refs/custody/savepoints"
COPY_TIMEOUT_S: Final = 3600.0
_CONFIG: Final = """\
[core]
\tautocrlf = false
\tfileMode = true
\tsymlinks = true
\tignoreCase = {ignore_case}
\ttrustctime = true
\tcheckStat = default
\tfsmonitor = false
\tuntrackedCache = false
\tsparseCheckout = false
\tsplitIndex = false
\thooksPath = /dev/null
\tlogAllRefUpdates = false
\tfsync = all
[index]
\tsparse = false
[gc]
\tauto = 0
"""
_ATTRIBUTES: Final = "* -text -ident -filter !eol !working-tree-encoding\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What was decided at the baseline and holds for the whole Delivery."""

    git_dir: str
    common_dir: str
    object_format: str
    conversions: tuple[str, ...]
    """Git settings (``name=value``) of the user that decide built-in conversions."""
    modes_count: bool
    """The repository's ``core.fileMode``."""
    ignore_digest: str


class Store:
    """One Delivery's store. Cheap to construct; touches nothing until asked."""

    def __init__(self, git: Git, path: Path) -> None:
        self._git = git
        self.path = path
        self.place = Place(git_dir=path)
        self.custody = path / "custody"
        self.rules = self.custody / "ignore"
        self.empty = self.custody / "empty"
        self.scratch = self.custody / "scratch"
        self.journal = self.custody / "restore.json"
        self._known: set[str] = set()

    @property
    def known(self) -> frozenset[str]:
        """Blobs that are surely in the store."""
        return frozenset(self._known)

    # --- made once ---------------------------------------------------------------------------------------------------

    def create(self, repository: Repository) -> None:
        """A new store in place of whatever an unfinished baseline left. Nothing recorded depends on that."""
        if self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir(mode=0o700, parents=True)
        self.path.chmod(0o700)
        form = f"--object-format={repository.object_format}"
        self._git.run(self.place, "init", "-q", "--bare", "--template=", form)
        folded = repository.worktree / ".GIT"
        ignore_case = folded.exists() and folded.samefile(repository.worktree / ".git")
        with (self.path / "config").open("a") as file:
            file.write(_CONFIG.format(ignore_case=str(ignore_case).lower()))
        (self.path / "info").mkdir(exist_ok=True)
        (self.path / "info" / "attributes").write_text(_ATTRIBUTES)
        self.empty.mkdir(parents=True)

    def freeze(self, frozen: Frozen, rules: bytes) -> None:
        """Writes down what holds from now on, synced."""
        write_synced(self.rules, rules)
        value = {name: getattr(frozen, name) for name in Frozen.__slots__}
        write_synced(self.custody / "frozen.json", canonical(value))

    def frozen(self) -> Frozen:
        try:
            value: Any = thaw(parse((self.custody / "frozen.json").read_bytes()))
            return Frozen(**{**value, "conversions": tuple(value["conversions"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise IntegrityError(
                Code.SAVEPOINT_MISSING,
                f"the savepoint store {self.path} is not what the ledger says: {error}",
                remedy="bring the Delivery's directory back from where it was copied to",
            ) from None

    def copy_objects(self, repository: Repository, tree: str) -> None:
        """Every object of ``tree`` as a pack of our own: nothing is borrowed from the user's repository."""
        command = ("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset")
        wanted = tree.encode() + b"\n"
        with self._git.talk(repository.place, *command, stdin=wanted, timeout_s=COPY_TIMEOUT_S) as source:
            self._git.run(self.place, "index-pack", "--stdin", stdin=source.output, timeout_s=COPY_TIMEOUT_S)
            status = source.end()
            if status != 0:
                raise source.failure(f"exit status {status}")

    # --- after a kill ------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Removes what a killed process of ours left in the store: locks, half packs, crash reports, scratch files. Only
        the holder of the Delivery's fence gets here, so nobody else can be using them."""
        for pattern in (
            "*.lock",
            "refs/**/*.lock",
            "objects/pack/tmp_*",
            "objects/??/tmp_obj_*",
            "fast_import_crash_*",
        ):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)
        self.clear_scratch()

    def clear_scratch(self) -> None:
        if self.scratch.exists():
            shutil.rmtree(self.scratch)

    # --- reading -----------------------------------------------------------------------------------------------------

    def tree_files(self, tree: str, prefix: bytes = b"") -> dict[bytes, tuple[int, str]]:
        """Mode and id of everything in a tree, gitlinks included."""
        listing = self._git.run(self.place, "ls-tree", "-r", "-z", "--full-tree", tree).stdout
        found = {path: (mode, oid) for mode, oid, path in _entries(listing)}
        self._known.update(oid for _, oid in found.values())
        return found

    def tip(self) -> str | None:
        """The newest kept commit."""
        answer = self._git.run(self.place, "rev-parse", "-q", "--verify", TIP, ok=(0, 1))
        return answer.stdout.decode().strip() or None

    def load(self, commit: str) -> Kept:
        """The savepoint ``commit``; ``SAVEPOINT_MISSING`` when it, or its manifest, cannot be read back."""
        answer = self._git.run(self.place, "ls-tree", "-r", "-t", "-z", "--full-tree", commit, ok=(0, 128))
        if answer.status != 0:
            raise self._missing(commit, answer.stderr)
        files: dict[bytes, tuple[int, str]] = {}
        index: dict[tuple[bytes, int], Staged] = {}
        tree, manifest_oid = empty_tree(self._format(commit)), ""
        for mode, oid, path in _entries(answer.stdout):
            top, _, rest = path.partition(b"/")
            if path == b"work":
                tree = oid
            elif path == b"manifest":
                manifest_oid = oid
            elif mode == 0o040000:
                continue
            elif top == b"work":
                files[rest] = (mode, oid)
            elif top == b"index":
                stage, _, name = rest.partition(b"/")
                index[name, int(stage)] = Staged(mode, oid)
        root = self._git.run(self.place, "rev-parse", f"{commit}^{{tree}}").stdout.decode().strip()
        try:
            state = from_manifest(b"".join(self.blobs([manifest_oid])), files, index)
        except (ValueError, KeyError, AttributeError) as error:
            raise self._missing(commit, str(error)) from None
        self._known.update(oid for _, oid in files.values())
        self._known.update(entry.oid for entry in index.values() if entry.mode != GITLINK)
        return Kept(commit=commit, tree=tree, root=root, state=state)

    def blobs(self, oids: Iterable[str]) -> Iterator[bytes]:
        """The content of each blob in turn; ``SAVEPOINT_MISSING`` at the first that is not there."""
        yield from read_blobs(self._git, self.place, oids, self._missing)

    def missing(self, oids: Iterable[str]) -> tuple[str, ...]:
        """Those of ``oids`` that the store does not have."""
        return missing_objects(self._git, self.place, oids)

    def _missing(self, what: str, why: str) -> IntegrityError:
        return IntegrityError(
            Code.SAVEPOINT_MISSING,
            f"{what} cannot be read from the savepoint store {self.path}: {why}",
            remedy="bring the Delivery's directory back from where it was copied to; nothing in the worktree was touched",
        )

    def _format(self, oid: str) -> str:
        return "sha256" if len(oid) == 64 else "sha1"

    # --- writing -----------------------------------------------------------------------------------------------------

    def writer(self) -> "Writer":
        return Writer(self._git, self.place, self._known)


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
        talk = self._import()
        text = message.encode("utf-8", "replace")
        talk.write(b"commit %s\nmark :1\n" % TIP.encode())
        talk.write(b"committer Runner <runner@localhost> %s +0000\ndata %d\n%s\n" % (date.encode(), len(text), text))
        if parent is not None:
            talk.write(b"from %s\n" % parent.encode())
        if reference is not None:
            talk.write(b'M 040000 %s ""\n' % reference.root.encode())
            before: Mapping[bytes, tuple[int, str]] = paths_in_tree(reference.state)
        else:
            assert base is not None  # noqa: S101 - the baseline is written against its base
            talk.write(b'M 040000 %s "work"\nM 040000 %s "index/0"\n' % (base.tree.encode(), base.tree.encode()))
            before = {top + path: entry for top in (b"work/", b"index/0/") for path, entry in base.files.items()}
        after = paths_in_tree(state)
        for path in sorted(before.keys() - after.keys()):
            talk.write(b"D %s\n" % _quoted(path))
        for path, (mode, oid) in sorted(after.items()):
            if before.get(path) != (mode, oid):
                talk.write(b"M %o %s %s\n" % (mode, oid.encode(), _quoted(path)))
        data = manifest(state)
        talk.write(b'M 100644 inline "manifest"\ndata %d\n%s\n\n' % (len(data), data))
        return self._finish(talk, state)

    def _finish(self, talk: Conversation, state: State) -> Kept:
        talk.write(b'get-mark :1\nls :1 "work"\nls :1 ""\ndone\n')
        commit = talk.read_line().decode()
        work, root = (_listed(talk.read_line()) for _ in range(2))
        status = talk.end()
        if status != 0:
            raise talk.failure(f"exit status {status}")
        talk.kill()
        self._talk = None
        self._known |= self._new
        tree = work or empty_tree("sha256" if len(commit) == 64 else "sha1")
        return Kept(commit=commit, tree=tree, root=root, state=state)

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
            self._talk = self._git.talk(self._place, "fast-import", "--quiet", "--date-format=raw", "--done")
        return self._talk


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The admitted tree, whose objects the store has."""

    tree: str
    files: Mapping[bytes, tuple[int, str]]


def paths_in_tree(state: State) -> dict[bytes, tuple[int, str]]:
    """What a savepoint's tree holds besides the manifest."""
    found = {b"work/" + path: (file.mode, file.oid) for path, file in state.files.items()}
    for (path, stage), entry in state.index.items():
        found[b"index/%d/" % stage + path] = (entry.mode, entry.oid)
    return found


def read_blobs(
    git: Git, place: Place, oids: Iterable[str], missing: Callable[[str, str], Exception]
) -> Iterator[bytes]:
    """The content of each blob in turn, from any repository."""
    talk: Conversation | None = None
    try:
        for oid in oids:
            talk = talk or git.talk(place, "cat-file", "--batch")
            talk.write(oid.encode() + b"\n")
            header = talk.read_line().split(b" ")
            if len(header) != 3:
                raise missing(oid, header[-1].decode("utf-8", "replace"))
            yield talk.read(int(header[2]) + 1)[:-1]
    finally:
        if talk is not None:
            talk.kill()


def missing_objects(git: Git, place: Place, oids: Iterable[str]) -> tuple[str, ...]:
    """Those of ``oids`` that a repository does not have."""
    asked = b"".join(oid.encode() + b"\n" for oid in oids)
    if not asked:
        return ()
    listing = git.run(place, "cat-file", "--batch-check", stdin=asked).stdout.decode()
    return tuple(line.split(" ")[0] for line in listing.splitlines() if line.endswith(" missing"))


def empty_tree(object_format: str) -> str:
    """The id of a tree without entries."""
    return {
        "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }[object_format]


def write_synced(path: Path, data: bytes) -> None:
    """``data`` at ``path``, atomically and durably: temp, fsync, rename, fsync directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(path.name + ".new")
    try:
        with temp.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"{path} cannot be written: {error.strerror}",
            remedy="free space or mend its permissions",
        ) from None
    sync_directory(path.parent)


def remove_synced(path: Path) -> None:
    """``path`` is gone, durably."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _entries(listing: bytes) -> Iterator[tuple[int, str, bytes]]:
    for line in listing.split(b"\0"):
        if line:
            meta, _, path = line.partition(b"\t")
            mode, _, oid = meta.decode().split(" ")
            yield int(mode, 8), oid, path


def _listed(line: bytes) -> str:
    """The id in fast-import's answer to ``ls``; empty for a path that is not there."""
    return "" if line.startswith(b"missing ") else line.split(b"\t")[0].split(b" ")[2].decode()


def _quoted(path: bytes) -> bytes:
    """A path for fast-import; every byte may stand in it."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
