"""The preserved result: a normal commit on the admitted base, in the user's repository, under ``refs/runner``.

Its bytes follow from the activation, the baseline and the last savepoint alone: fixed author, the date of admission, no
parent but the base. A path whose raw bytes are the baseline's keeps the base's entry untouched; only the others are
converted, by git's built-in rules (line ends, ident, encoding). A path with an external filter is refused by name, because
its program is not ours to run.
"""

import datetime as dt
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from custody.durable import sync_names
from custody.git import Git, Place
from custody.paths import show
from custody.repository import ABSENT, Repository, read_index, read_ref
from custody.state import GITLINK, REGULAR, SYMLINK, File, Kept
from custody.store import Store
from custody.writing import Base
from runner.contract.activation import Activation
from runner.contract.errors import Code, EnvironmentFault

AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "Runner",
    "GIT_AUTHOR_EMAIL": "runner@localhost",
    "GIT_COMMITTER_NAME": "Runner",
    "GIT_COMMITTER_EMAIL": "runner@localhost",
}
SUBJECT_CHARS_MAX: Final = 200


def result_ref(delivery: str) -> str:
    """Where a Delivery's result is kept in the user's repository."""
    return f"refs/runner/{delivery}/result"


def changed_paths(base: Base, baseline: Kept, last: Kept, *, include_dirty: bool) -> dict[bytes, File | None]:
    """The paths of the result that are not the base's: as they are at the end, or None for deleted ones. Pure.

    Usually what differs between baseline and end. With ``include_dirty`` also what was already edited at the baseline:
    what differs from the base's entry, converted or not; the conversion finds out.
    """
    end, start = last.state.files, baseline.state.files
    found: dict[bytes, File | None] = {
        path: end.get(path) for path in end.keys() | start.keys() if _entry(end.get(path)) != _entry(start.get(path))
    }
    if include_dirty:
        hidden = {path for (path, _), entry in baseline.state.index.items() if entry.tag in "Ss"}
        uncaptured = last.state.not_captured
        for path in base.files.keys() | end.keys():
            file, entry = end.get(path), base.files.get(path)
            if _entry(file) == entry or (entry and entry[0] == GITLINK):
                continue
            if file is None and (path in hidden or path in uncaptured):
                continue  # not on disk by choice (sparse), or there but too large
            found[path] = file
    return found


def _entry(file: File | None) -> tuple[int, str] | None:
    return None if file is None else (file.mode, file.oid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Makes index entries of raw files by git's built-in conversions, in scratch space, with the admitted settings."""

    git: Git
    repository: Repository
    store: Store
    conversions: tuple[str, ...]
    """Git settings that decide built-in conversions."""
    modes_count: bool
    """Whether an executable bit found in the worktree means anything (``core.fileMode``)."""

    def write(
        self, base: Base, changes: Mapping[bytes, File | None], attributes: Mapping[bytes, File], place: Place
    ) -> Place:
        """``place`` with an index that is ``base`` with ``changes``. ``attributes`` are the ``.gitattributes`` that decide.
        New objects go where ``place`` says."""
        self.store.clear_scratch()
        tree = self.store.scratch / "tree"
        tree.mkdir(parents=True)
        files = {path: self._settled(base, path, file) for path, file in changes.items() if file is not None}
        self._materialise(tree, {**attributes, **files})
        here = Place(
            git_dir=place.git_dir,
            work_tree=tree,
            index=self.store.scratch / "index",
            objects=place.objects,
            borrowed=place.borrowed,
        )
        self.git.run(here, "read-tree", base.tree)
        self.refuse_filters(self.filtered(here, sorted(files)))
        zero = self.repository.zero.encode()
        gone = b"".join(b"0 %s\t%s\0" % (zero, path) for path, file in sorted(changes.items()) if file is None)
        self.git.run(here, "update-index", "-z", "--index-info", stdin=gone)
        self.git.run(
            here,
            *("update-index", "--add", "--replace", "-z", "--stdin"),
            stdin=b"".join(path + b"\0" for path in sorted(files)),
            config=self.conversions,
        )
        return here

    def filtered(self, here: Place, paths: Sequence[bytes]) -> dict[bytes, str]:
        """Those of ``paths`` that an attribute hands to an external filter, and its name. Asks only about attributes."""
        if not paths:
            return {}
        listing = self.git.run(here, "check-attr", "-z", "--stdin", "filter", stdin=b"".join(p + b"\0" for p in paths))
        fields = listing.stdout.split(b"\0")
        triples = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
        return {path: show(value) for path, _, value in triples if value not in (b"unspecified", b"unset")}

    def refuse_filters(self, filtered: Mapping[bytes, str]) -> None:
        if filtered:
            names = ", ".join(f"{show(path)} (filter {name})" for path, name in sorted(filtered.items())[:10])
            raise EnvironmentFault(
                Code.GIT_FAILED,
                f"the result changes files that an external filter converts: {names}",
                remedy="external filters are not run; keep such files out of the workflow's scope",
            )

    def _settled(self, base: Base, path: bytes, file: File) -> File:
        """Without a file system's executable bit (``core.fileMode`` false) the base's mode stands for a regular file."""
        entry = base.files.get(path)
        if entry is None or SYMLINK in (file.mode, entry[0]) or entry[0] == GITLINK or self.modes_count:
            return file
        return File(entry[0], file.oid, file.perm)

    def _materialise(self, tree: os.PathLike[str], files: Mapping[bytes, File]) -> None:
        """Ours alone: the directory is new, and no path has a symlink above it, since these are paths of one tree."""
        root = os.fsencode(tree)
        contents = self.store.blobs(file.oid for file in files.values())
        for (path, file), data in zip(files.items(), contents, strict=True):
            place = root + b"/" + path
            os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - paths are bytes
            if file.mode == SYMLINK:
                os.symlink(data, place)  # noqa: PTH211 - bytes
                continue
            with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as out:
                out.write(data)
            os.chmod(place, 0o644 if file.mode == REGULAR else 0o755)  # noqa: PTH101 - git's two modes


def attributes_of(kept: Kept) -> dict[bytes, File]:
    """The ``.gitattributes`` files of a savepoint."""
    return {
        p: f for p, f in kept.state.files.items() if p.rpartition(b"/")[2] == b".gitattributes" and f.mode != SYMLINK
    }


def unclean(converter: Converter, base: Base, baseline: Kept) -> tuple[str, ...]:
    """Tracked paths of a new baseline that are not the base's, staged or in the worktree. Writes into the store only.

    A file behind an external filter cannot be judged without running it and passes.
    """
    state = baseline.state
    hidden = {path for (path, _), entry in state.index.items() if entry.tag in "Ss"}
    staged = {path for path, stage in state.index if stage} | {
        path
        for path in base.files.keys() | {path for path, _ in state.index}
        if (entry := state.index.get((path, 0))) is None or base.files.get(path) != (entry.mode, entry.oid)
    }
    differs: dict[bytes, File | None] = {}
    for path, (mode, oid) in base.files.items():
        file = state.files.get(path)
        if mode != GITLINK and path not in hidden and path not in state.not_captured and _entry(file) != (mode, oid):
            differs[path] = file
    deleted = {path for path, file in differs.items() if file is None}
    found = staged | deleted | _converted_differently(converter, base, baseline, differs)
    return tuple(show(path) for path in sorted(found))


def _converted_differently(
    converter: Converter, base: Base, baseline: Kept, differs: Mapping[bytes, File | None]
) -> set[bytes]:
    present = {path: file for path, file in differs.items() if file is not None}
    if not present:
        return set()
    repository, store = converter.repository, converter.store
    place = Place(
        git_dir=repository.git_dir, objects=store.path / "objects", borrowed=repository.common_dir / "objects"
    )
    attributes = attributes_of(baseline)
    here = converter.write(base, {}, attributes, place)
    behind_filter = converter.filtered(here, sorted(present))
    judged: dict[bytes, File | None] = {p: f for p, f in present.items() if p not in behind_filter}
    here = converter.write(base, judged, attributes, place)
    index = read_index(converter.git, here)
    store.clear_scratch()
    return {p for p in judged if (e := index.get((p, 0))) is None or base.files[p] != (e.mode, e.oid)}


def commit_result(
    converter: Converter, activation: Activation, base: Base, changes: Mapping[bytes, File | None], last: Kept
) -> tuple[str, str]:
    """(tree, commit) of the result, in the converter's repository; the base itself when nothing changed. Same input, same
    ids, wherever it is made."""
    commit = activation.workspace.base_commit
    if not changes:
        return base.tree, commit
    here = converter.write(base, changes, attributes_of(last), Place(git_dir=converter.repository.git_dir))
    tree = converter.git.run(here, "write-tree").stdout.decode().strip()
    if tree != base.tree:
        text = _commit(activation, tree).encode()
        made = converter.git.run(here, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
        commit = made.stdout.decode().strip()
    shutil.rmtree(converter.store.scratch)
    return tree, commit


def _commit(activation: Activation, tree: str) -> str:
    """The commit, written out: git's own command would want to see the admitted commit, which may be gone."""
    moment = int(dt.datetime.fromisoformat(activation.admitted_at.replace("Z", "+00:00")).timestamp())
    who = f"{AUTHOR['GIT_AUTHOR_NAME']} <{AUTHOR['GIT_AUTHOR_EMAIL']}> {moment} +0000"
    parent = activation.workspace.base_commit
    return f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{_message(activation)}"


def _message(activation: Activation) -> str:
    name = " ".join("".join(c if c.isprintable() else " " for c in activation.workflow.name).split())
    subject = name[:SUBJECT_CHARS_MAX] or "workflow"
    return f"{subject}\n\nThe result of Delivery {activation.delivery}.\n\nRunner-Delivery: {activation.delivery}\n"


def keep_result(git: Git, repository: Repository, delivery: str, commit: str) -> str:
    """The result's ref, durable with its objects, made if it is not there; another value in it belongs to another Delivery and is left alone."""
    ref = result_ref(delivery)
    now = read_ref(git, repository, ref)
    if now == ABSENT:
        lines = f"start\ncreate {ref} {commit}\nprepare\ncommit\n"
        git.run(
            repository.place, "update-ref", "--no-deref", "--stdin", stdin=lines.encode(), ok=(0, 1, 128), env=AUTHOR
        )
        now = read_ref(git, repository, ref)
    if now != commit:
        raise EnvironmentFault(
            Code.GIT_FAILED,
            f"{ref} should hold this Delivery's result {commit} but is {now}",
            remedy=f"see what holds it; if it is not needed: git update-ref -d {ref}",
        )
    sync_names(repository.common_dir, ref)
    return ref
