"""Putting a worktree back to a savepoint: planned purely, journaled, then only what differs is touched.

Safety, in this order. The present was kept first, so whatever is deleted or overwritten is in the store. Every blob to be
written is known to be there. The preflight has found nothing uncaptured in the way. Then the journal is durable; only now is
the worktree touched. Killed anywhere after that, the journal makes the next start scan, keep and plan again: the plan to the
same savepoint from wherever it was. The end is proved by a scan that equals the savepoint.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from custody.durable import remove_synced, write_synced
from custody.git import Git
from custody.paths import Root, parents, permission, show, split
from custody.repository import Repository
from custody.scope import Change, difference, named
from custody.staging import IndexPlan, put_back_index
from custody.state import FIFO, SYMLINK, File, Kept, State
from custody.store import Store
from runner.contract.canonical import canonical, parse
from runner.contract.errors import Code, EnvironmentFault, IntegrityError

TEMP_PREFIX: Final = b".runner-restore-"
_OWNER: Final = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """From one state to another. Order of doing: delete, rmdir, mkdir, write, modes, index."""

    delete: tuple[bytes, ...]
    rmdir: tuple[bytes, ...]
    """Deepest first; one that holds something uncaptured stays."""
    mkdir: tuple[bytes, ...]
    """Outermost first."""
    write: tuple[tuple[bytes, File], ...]
    fifos: tuple[bytes, ...]
    chmod: tuple[tuple[bytes, int], ...]
    chmod_dirs: tuple[tuple[bytes, int], ...]
    """Deepest first."""
    index: IndexPlan
    overwritten: frozenset[bytes]
    """Those of ``write`` whose present content is kept."""

    @property
    def empty(self) -> bool:
        return not any(getattr(self, name) for name in Plan.__slots__)


def plan_between(present: State, target: State, ignored: frozenset[bytes] = frozenset()) -> Plan:
    """What makes ``target`` of ``present``. ``ignored`` files, captured only because the index named them, stay."""
    gone = [p for p in present.files if p not in target.files and p not in ignored] + list(present.specials)
    delete = [p for p in gone if present.specials.get(p) != target.specials.get(p) or p in present.files]
    write, chmod = [], []
    for path, file in target.files.items():
        now = present.files.get(path)
        if now is None or (now.oid, now.mode == SYMLINK) != (file.oid, file.mode == SYMLINK):
            write.append((path, file))
        elif now.perm != file.perm:
            chmod.append((path, file.perm))
    rmdir = [d for d in present.dirs if d not in target.dirs]
    mkdir = [d for d in target.dirs if d not in present.dirs]
    chmod_dirs = [(d, perm) for d, perm in target.dirs.items() if present.dirs.get(d) != perm]
    index = {k: target.index.get(k) for k in present.index.keys() | target.index.keys()}
    return Plan(
        delete=tuple(sorted(delete)),
        rmdir=tuple(sorted(rmdir, key=_depth, reverse=True)),
        mkdir=tuple(sorted(mkdir, key=_depth)),
        write=tuple(sorted(write)),
        fifos=tuple(sorted(p for p, k in target.specials.items() if k == FIFO and present.specials.get(p) != FIFO)),
        chmod=tuple(sorted(chmod)),
        chmod_dirs=tuple(sorted(chmod_dirs, key=lambda d: _depth(d[0]), reverse=True)),
        index=tuple(sorted((k, e) for k, e in index.items() if present.index.get(k) != e)),
        overwritten=frozenset(p for p, _ in write if p in present.files),
    )


def _depth(path: bytes) -> tuple[int, bytes]:
    return path.count(b"/"), path


def unequal(target: State, found: State) -> tuple[Change, ...]:
    """What a finished restore must not leave: every difference but what no savepoint holds the bytes of."""
    return tuple(
        change
        for change in difference(target, found)
        if change.kind != "uncaptured"
        and not (change.kind == "special" and target.specials.get(change.path, FIFO) != FIFO)
    )


def write_journal(store: Store, target: Kept) -> str:
    """Durable: a restore to ``target`` has begun. Returns the name its temporary files have."""
    temp = os.fsdecode(TEMP_PREFIX) + secrets.token_hex(8)
    write_synced(store.journal, canonical({"target": target.commit, "temp": temp}))
    return temp


def read_journal(store: Store) -> tuple[str, str] | None:
    """The savepoint of an unfinished restore and its temporary name."""
    try:
        value: Any = parse(store.journal.read_bytes())
        return str(value["target"]), str(value["temp"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            Code.SAVEPOINT_MISSING,
            f"the journal of a restore, {store.journal}, cannot be read: {error}",
            remedy="bring the Delivery's directory back from where it was copied to",
        ) from None


def close_journal(store: Store) -> None:
    remove_synced(store.journal)


@dataclass(slots=True)
class Restorer:
    """Carries out plans on one worktree. ``before_effect`` is called in front of every change of the worktree, by name."""

    git: Git
    repository: Repository
    store: Store
    root: Root
    before_effect: Callable[[str], None]
    is_still: Callable[[bytes, os.stat_result], bool]
    """Whether what is at a path now is what was kept of it."""
    _opened: dict[bytes, int] = field(default_factory=dict)
    """Directories that had to be made writable, and the bits they get back."""

    def check(self, plan: Plan) -> None:
        """Before anything is touched: all content is in the store, and nothing uncaptured is in the way."""
        lost = self.store.missing(sorted({file.oid for _, file in plan.write}))
        if lost:
            names = [show(path) for path, file in plan.write if file.oid in set(lost)]
            raise IntegrityError(
                Code.SAVEPOINT_MISSING,
                f"the content of {', '.join(names[:10])} is missing from the savepoint store {self.store.path}",
                remedy="bring the Delivery's directory back from where it was copied to; nothing in the worktree was touched",
            )
        going = frozenset((*plan.delete, *plan.rmdir))
        directories = frozenset(plan.mkdir)
        for path in (*(p for p, _ in plan.write), *plan.fifos, *plan.mkdir):
            self._check_way(path, plan, going, to_be_directory=path in directories)

    def _check_way(self, path: bytes, plan: Plan, going: frozenset[bytes], *, to_be_directory: bool) -> None:
        for above in parents(path):
            found = self.root.lstat(above)
            if found is not None and not stat.S_ISDIR(found.st_mode) and above not in going:
                raise _blocked(above, path)
        found = self.root.lstat(path)
        if found is None or (to_be_directory and stat.S_ISDIR(found.st_mode)):
            return
        if stat.S_ISDIR(found.st_mode):
            left = next(self._left_behind(path, going), None)
            if left is not None:
                raise _blocked(left, path)
        elif path not in going and path not in plan.overwritten:
            raise _blocked(path, path)

    def _left_behind(self, directory: bytes, going: frozenset[bytes]) -> Iterator[bytes]:
        """Everything below ``directory`` that the plan does not delete."""
        with self.root.directory(directory) as fd:
            names = sorted(os.fsencode(name) for name in os.listdir(fd))  # noqa: PTH208 - by handle
            kinds = [(n, os.stat(n, dir_fd=fd, follow_symlinks=False).st_mode) for n in names]
        for name, mode in kinds:
            path = directory + b"/" + name
            if path not in going:
                yield path
            elif stat.S_ISDIR(mode):
                yield from self._left_behind(path, going)

    # --- doing -------------------------------------------------------------------------------------------------------

    def carry_out(self, plan: Plan, target: State, temp: str) -> None:
        """Every change of ``plan``. Idempotent from wherever an earlier one stopped, after a new scan and plan."""
        name = os.fsencode(temp)
        for path in plan.delete:
            self._unlink(path)
        for path in plan.rmdir:
            self._rmdir(path)
        for path in plan.mkdir:
            self._mkdir(path)
        contents = self.store.blobs(file.oid for _, file in plan.write)
        for (path, file), data in zip(plan.write, contents, strict=True):
            self._write(path, file, data, name)
        for path in plan.fifos:
            self._fifo(path)
        for path, perm in plan.chmod:
            self._chmod(path, perm)
        opened = {d: target.dirs.get(d, perm) for d, perm in self._opened.items()}
        for path, perm in sorted({**opened, **dict(plan.chmod_dirs)}.items(), key=lambda d: _depth(d[0]), reverse=True):
            self._chmod_directory(path, perm)
        self._opened.clear()
        self.before_effect("restore index")
        put_back_index(self.git, self.repository, self.store, plan.index, target.index)

    def sweep(self, directories: Iterable[bytes], temp: str) -> None:
        """Removes the one temporary file that a killed restore may have left, in any directory it may have been."""
        for path in {b"", *directories}:
            try:
                with self.root.directory(path) as fd:
                    os.unlink(temp, dir_fd=fd)
            except OSError:
                continue  # not there, which is what is wanted

    @contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """A handle of the directory that holds ``path``, writable, and the name in it."""
        directory, name = split(path)
        for above in reversed(list(parents(path))):
            self._make_writable(above)
        if not directory:
            self._make_writable(b"")
        with self.root.directory(directory) as fd:
            yield fd, name

    def _make_writable(self, directory: bytes) -> None:
        try:
            with self.root.directory(directory) as fd:
                perm = permission(os.fstat(fd))
                if perm & _OWNER != _OWNER:
                    os.fchmod(fd, perm | _OWNER)
                    self._opened.setdefault(directory, perm)
        except FileNotFoundError:
            return

    def _unlink(self, path: bytes) -> None:
        self.before_effect(f"delete {show(path)}")
        try:
            with self._parent(path) as (fd, name):
                self._check_kept(fd, name, path)
                os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            return

    def _check_kept(self, fd: int, name: bytes, path: bytes) -> None:
        """A file that was written to since it was kept is not overwritten or deleted: what it holds now is in no store."""
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and not self.is_still(path, status):
            raise EnvironmentFault(
                Code.CAPTURE_FAILED,
                f"{show(path)} was written to while the worktree was being put back; it was left as it is",
                remedy="end what still writes into the worktree, then run the same command again",
            )

    def _rmdir(self, path: bytes) -> None:
        self.before_effect(f"rmdir {show(path)}")
        try:
            with self._parent(path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def _mkdir(self, path: bytes) -> None:
        self.before_effect(f"mkdir {show(path)}")
        with self._parent(path) as (fd, name):
            try:
                os.mkdir(name, _OWNER, dir_fd=fd)
            except FileExistsError:
                return

    def _write(self, path: bytes, file: File, data: bytes, temp: bytes) -> None:
        with self._parent(path) as (fd, name):
            self.before_effect(f"write {show(path)}")
            with suppress(FileNotFoundError):
                os.unlink(temp, dir_fd=fd)
            if file.mode == SYMLINK:
                os.symlink(data, temp, dir_fd=fd)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                handle = os.open(temp, flags, 0o600, dir_fd=fd)
                with os.fdopen(handle, "wb") as out:
                    out.write(data)
                    os.fchmod(out.fileno(), file.perm)
            self.before_effect(f"rename {show(path)}")
            with suppress(FileNotFoundError):
                self._check_kept(fd, name, path)
            _make_way(fd, name)
            os.rename(temp, name, src_dir_fd=fd, dst_dir_fd=fd)

    def _fifo(self, path: bytes) -> None:
        self.before_effect(f"fifo {show(path)}")
        with self._parent(path) as (fd, name):
            _make_way(fd, name)
            try:
                os.mkfifo(name, dir_fd=fd)
            except FileExistsError:
                return

    def _chmod(self, path: bytes, perm: int) -> None:
        """By handle: a symlink that was put there meanwhile is not followed."""
        self.before_effect(f"chmod {show(path)}")
        with self._parent(path) as (fd, name):
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    os.chmod(f"/proc/self/fd/{handle}", perm)  # noqa: PTH101 - fchmod refuses a handle opened with O_PATH
            finally:
                os.close(handle)

    def _chmod_directory(self, path: bytes, perm: int) -> None:
        self.before_effect(f"chmod {show(path)}/")
        try:
            with self.root.directory(path) as fd:
                os.fchmod(fd, perm)
        except FileNotFoundError:
            return


def _make_way(fd: int, name: bytes) -> None:
    """An ignored directory with nothing in it gives way."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.rmdir(name, dir_fd=fd)


def _blocked(what: bytes, wanted: bytes) -> EnvironmentFault:
    return EnvironmentFault(
        Code.RESTORE_BLOCKED,
        f"{show(wanted)} cannot be put back: {show(what)} is in its way and is in no savepoint (ignored or not captured)",
        remedy=f"move {show(what)} somewhere else, then run the same command again; nothing was touched",
    )


def not_equal(left: tuple[Change, ...], target: Kept) -> EnvironmentFault:
    """A restore whose proof failed: somebody wrote meanwhile."""
    return EnvironmentFault(
        Code.CAPTURE_FAILED,
        f"the worktree was put back to {target.commit} but is not equal to it: {', '.join(named(left)[:10])}",
        remedy="end what still writes into the worktree, then run the same command again",
    )
