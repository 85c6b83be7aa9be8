"""What a contained process can see and change, as a list of places. Pure but for looking at what exists.

The root is empty memory, made read-only; every place is laid over it at the path that it has outside, parents before what is
below them, so that a place always wins over the one around it. What is not a place does not exist inside.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from hosts.operations import supervisor
from runner.contract.config import Boundary

OWN: Final = "/run/runner"
HOME: Final = f"{OWN}/home"
TEMPORARY: Final = "/tmp"  # noqa: S108 - the contained process's own
SUPERVISOR: Final = f"{OWN}/supervisor.py"
GIT: Final = ".git"
LINK_BYTES_MAX: Final = 8_192

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS: Final = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
"""What programs need of /etc; the rest is made for them."""
INTERPRETER: Final = ("bin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg")
"""What belongs to a Python below its prefix, which may be somebody's home directory."""

Kind = Literal["readable", "writable", "hidden", "memory", "processes", "devices"]


class Unbounded(Exception):
    """No boundary can be drawn around this worktree; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """A boundary as ``bwrap`` is told of it."""

    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Small files that exist only inside."""
    boundary: Boundary

    def command(self, python: Sequence[str], info: int, made: Mapping[str, int]) -> list[str]:
        """The argv that starts the supervisor inside with ``python``. It tells the descriptor ``info`` who that is, and
        reads ``files`` from ``made``."""
        files = [part for path, fd in made.items() for part in ("--ro-bind-data", str(fd), path)]
        limits = (b := self.boundary).memory_bytes, b.cpu_s, b.processes, b.file_bytes
        ready = ("--remount-ro", "/dev", "--remount-ro", "/", "--info-fd", str(info), "--")
        return [*self.arguments, *files, *ready, *python, SUPERVISOR, *map(str, limits)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment:
    """How this Runner contains: with which ``bwrap``, within which bounds. Nothing of ``hidden`` can ever be seen inside,
    whatever is around it."""

    bwrap: str
    boundary: Boundary
    hidden: tuple[str, ...] = ()


def enclosure(containment: Containment, worktree: str, *, writable: bool) -> Enclosure:
    """The boundary of one process over ``worktree``. ``Unbounded`` when it cannot be drawn."""
    boundary = containment.boundary
    places: dict[str, Kind] = dict.fromkeys((*boundary.readable, *_interpreter()), "readable")
    places[worktree] = "writable" if writable else "readable"
    places |= dict.fromkeys(git_places(Path(worktree)), "readable")
    places |= dict.fromkeys((HOME, TEMPORARY, "/dev/shm"), "memory")  # noqa: S108 - the contained process's own
    places |= {"/proc": "processes", "/dev": "devices"}
    _hide(containment.hidden, places)
    fixed = ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1")
    arguments = [containment.bwrap, *fixed, "--cap-drop", "ALL", "--clearenv", "--chdir", "/", *_system()]
    for path in sorted(places, key=lambda p: (len(Path(p).parts), p)):
        arguments += _mount(path, places[path], boundary)
    # Only now: the worktree may lie below what is hidden.
    for path in (path for path, kind in places.items() if kind == "hidden" and Path(path).is_dir()):
        arguments += ["--remount-ro", path]
    arguments += ["--ro-bind", str(Path(supervisor.__file__).resolve()), SUPERVISOR]
    files = {} if places.get("/etc") == "readable" else _etc()
    return Enclosure(arguments=tuple(arguments), files=files, boundary=boundary)


def git_places(worktree: Path) -> tuple[str, ...]:
    """Where the repository of ``worktree`` is: readable, so that git can say what changed, and never writable. A link to
    somewhere that is no repository with a worktree here leads nowhere: whoever wrote it wanted something else shown."""
    link = worktree / GIT
    try:
        mode = link.lstat().st_mode
    except FileNotFoundError:
        return ()
    if stat.S_ISDIR(mode):
        return (str(link),)
    if not stat.S_ISREG(mode):
        raise Unbounded(f"{GIT} of the worktree is neither a directory nor a file")
    return (str(link), *_linked(link))


def _linked(link: Path) -> Iterator[str]:
    own = _pointed(link, "gitdir:")
    if own is None or not own.is_dir():
        return
    shared = _pointed(own / "commondir") or own
    back = _pointed(own / "gitdir")
    if (back is None or back == link.resolve()) and all(
        (shared / part).exists() for part in ("HEAD", "objects", "refs")
    ):
        yield str(shared.resolve())
        if not own.resolve().is_relative_to(shared.resolve()):
            yield str(own.resolve())


def _pointed(file: Path, prefix: str = "") -> Path | None:
    """The path that ``file`` holds."""
    try:
        with file.open("rb") as opened:
            text = os.fsdecode(opened.read(LINK_BYTES_MAX)).strip()
    except OSError:
        return None
    named = text.removeprefix(prefix).strip()
    return (file.parent / named).resolve() if text.startswith(prefix) and named and "\0" not in named else None


def _interpreter() -> Iterator[str]:
    """The Python that runs us and its virtual environment, which workflows use too."""
    real = Path(sys.executable).resolve().parent.parent
    for prefix in {sys.prefix, sys.base_prefix, str(Path(sys.base_prefix).resolve()), str(real)}:
        for part in INTERPRETER:
            path = Path(prefix) / part
            if path.exists() and not any(path.is_relative_to(system) for system in SYSTEM):
                yield str(path)


def _hide(hidden: Iterable[str], places: dict[str, Kind]) -> None:
    """Adds those of ``hidden`` that would be seen otherwise."""
    shown = {**dict.fromkeys(SYSTEM, "readable"), **places}
    for real in sorted((Path(path).resolve() for path in hidden), key=lambda path: len(path.parts)):
        around = next((shown[str(path)] for path in (real, *real.parents) if str(path) in shown), None)
        if real.exists() and around in ("readable", "writable"):
            places[str(real)] = shown[str(real)] = "hidden"


def _system() -> Iterator[str]:
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for setting in SETTINGS:
        yield from ("--ro-bind-try", setting, setting)


def _mount(path: str, kind: Kind, boundary: Boundary) -> tuple[str, ...]:
    match kind:
        case "readable":
            return ("--ro-bind", path, path)
        case "writable":
            return ("--bind", path, path)
        case "hidden" if not Path(path).is_dir():
            return ("--ro-bind", os.devnull, path)
        case "hidden":
            return ("--perms", "0755", "--tmpfs", path)
        case "memory":
            # Three of them, so half of what the processes themselves may use at most comes on top.
            return ("--perms", "1777", "--size", str(boundary.memory_bytes // 6), "--tmpfs", path)
        case "processes":
            # Where we are root, its files are ours: without a capability root could still write /proc/sys.
            return ("--proc", path, "--remount-ro", path)
        case "devices":
            return ("--dev", path)


def _etc() -> dict[str, bytes]:
    """A minimal /etc: our own user, and names that need no network."""
    uid, gid = os.getuid(), os.getgid()
    users = {uid: f"runner:x:{uid}:{gid}::{HOME}:/bin/sh", 65534: "nobody:x:65534:65534::/:/bin/false"}
    groups = {gid: f"runner:x:{gid}:", 65534: "nogroup:x:65534:"}
    return {
        "/etc/passwd": "".join(f"{line}\n" for line in users.values()).encode(),
        "/etc/group": "".join(f"{line}\n" for line in groups.values()).encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "/etc/hosts": b"127.0.0.1 localhost\n::1 localhost\n",
    }
