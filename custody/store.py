"""The private bare store: one per Delivery, 0700, complete in itself, so that nothing done to the user's objects loses a
savepoint.

Layout: the git store itself, and in ``custody/`` what was frozen at the baseline (``frozen.json``, ``ignore``), an ``empty``
directory, scratch space, and the journal of a restore. A savepoint is a commit on ``refs/custody/savepoints`` whose parent
is whatever was kept before it, so one ref keeps all of them; its tree is ``work``, ``index/<stage>``, ``manifest``, and for a
mid-step savepoint ``overlay``: what its manifest, which is the opening savepoint's, does not say (``midstep``).
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from custody.durable import TEMP_SUFFIX, write_synced
from custody.git import Git, Place
from custody.midstep import overlaid, read_overlay
from custody.objects import empty_tree, missing_objects, read_blobs
from custody.repository import Repository
from custody.state import GITLINK, Kept, Staged, from_manifest
from custody.writing import TIP, Base, Writer
from runner.contract.canonical import canonical, parse, thaw
from runner.contract.errors import Code, IntegrityError

COPY_TIMEOUT_S: Final = 3600.0
PACKS_MAX: Final = 48
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
        self._copy(repository.place, (tree,))

    def copy_from(self, other: "Store", wanted: Iterable[str]) -> None:
        """Every object that ``wanted`` (commits and trees of ``other``) stand on."""
        self._copy(other.place, wanted)

    def keep_tip(self, commits: Iterable[str]) -> None:
        """One ref, synced, keeps ``commits`` alive, which are all on one chain."""
        asked = b"".join(commit.encode() + b"\n" for commit in commits)
        newest = self._git.run(self.place, "rev-list", "--topo-order", "--max-count=1", "--stdin", stdin=asked).stdout
        self._git.run(self.place, "update-ref", TIP, newest.decode().strip())

    def _copy(self, place: Place, wanted: Iterable[str]) -> None:
        command = ("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset")
        asked = b"".join(oid.encode() + b"\n" for oid in wanted)
        with self._git.talk(place, *command, stdin=asked, timeout_s=COPY_TIMEOUT_S) as source:
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
            "objects/pack/.tmp-*",
            "objects/pack/*.keep",
            "objects/??/tmp_obj_*",
            "fast_import_crash_*",
            f"custody/*{TEMP_SUFFIX}",
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

    def base(self, tree: str) -> Base:
        """The admitted tree."""
        return Base(tree=tree, files=self.tree_files(tree))

    def tip(self) -> str | None:
        """The newest kept commit."""
        answer = self._git.run(self.place, "rev-parse", "-q", "--verify", TIP, ok=(0, 1))
        return answer.stdout.decode().strip() or None

    def chain(self) -> frozenset[str]:
        """Every savepoint that the store keeps, recorded or not."""
        answer = self._git.run(self.place, "rev-list", TIP, "--", ok=(0, 128))
        return frozenset(answer.stdout.decode().split())

    def load(self, commit: str) -> Kept:
        """The savepoint ``commit``; ``SAVEPOINT_MISSING`` when it, or its manifest, cannot be read back."""
        answer = self._git.run(self.place, "ls-tree", "-r", "-t", "-z", "--full-tree", commit, ok=(0, 128))
        if answer.status != 0:
            raise self._missing(commit, answer.stderr)
        files: dict[bytes, tuple[int, str]] = {}
        index: dict[tuple[bytes, int], Staged] = {}
        tree, described = empty_tree(self._format(commit)), {"manifest": "", "overlay": ""}
        for mode, oid, path in _entries(answer.stdout):
            top, _, rest = path.partition(b"/")
            if path == b"work":
                tree = oid
            elif path in (b"manifest", b"overlay"):
                described[path.decode()] = oid
            elif mode == 0o040000:
                continue
            elif top == b"work":
                files[rest] = (mode, oid)
            elif top == b"index":
                stage, _, name = rest.partition(b"/")
                index[name, int(stage)] = Staged(mode, oid)
        root = self._git.run(self.place, "rev-parse", f"{commit}^{{tree}}").stdout.decode().strip()
        try:
            texts = list(self.blobs([oid for name, oid in described.items() if oid or name == "manifest"]))
            touched = read_overlay(texts[1], files) if described["overlay"] else {}
            state = overlaid(from_manifest(texts[0], files, index), touched)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise self._missing(commit, str(error)) from None
        self._known.update(oid for _, oid in files.values())
        self._known.update(entry.oid for entry in index.values() if entry.mode != GITLINK)
        return Kept(commit=commit, tree=tree, root=root, state=state, touched=touched)

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

    def writer(self) -> Writer:
        return Writer(self._git, self.place, self._known)

    def crowded(self) -> bool:
        """Whether there are so many packs, one per savepoint, that the next savepoint would feel it."""
        with os.scandir(self.path / "objects" / "pack") as entries:
            return sum(entry.name.endswith(".pack") for entry in entries) > PACKS_MAX

    def gather(self) -> None:
        """Small packs become one, so that each object is copied a few times in the life of a Delivery and not at every
        savepoint. Nothing is left out, and killed in the middle something is there twice."""
        self._git.run(self.place, "repack", "-d", "-n", "-q", "--geometric=2", timeout_s=COPY_TIMEOUT_S)


def _entries(listing: bytes) -> Iterator[tuple[int, str, bytes]]:
    for line in listing.split(b"\0"):
        if line:
            meta, _, path = line.partition(b"\t")
            mode, _, oid = meta.decode().split(" ")
            yield int(mode, 8), oid, path
