"""Every point at which a driver touches something that outlives it, numbered as it happens, without changing the driver.

An audit hook sees the operation just before it happens: files that are opened for writing, renamed, linked, removed or
changed below the Delivery's three roots, processes about to be started, connections about to be made, locks about to be
taken. SQLite's files are written in C, so in the watched process ``sqlite3.connect`` gives every connection a trace
callback, and each COMMIT is a boundary of its own. ``ask`` is the injected clock: it is read once for each append, before
its transaction.

What is not seen: single writes and fsyncs between an open and its rename (the file is then still a temporary one), and what
git does inside its own process.
"""

import os
import re
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGING: Final = {
    "os.rename": (0, 2),
    "os.remove": (0, 1),
    "os.mkdir": (0, 2),
    "os.rmdir": (0, 1),
    "os.link": (1, 3),
    "os.symlink": (1, 2),
    "os.chmod": (0, 2),
    "os.truncate": (0, None),
    "os.utime": (0, 3),
}
"""The audit event -> which of its arguments is the path that changes, and which the directory it is relative to."""

PLACES: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("ledger", r"state/deliveries/[^/]+/(\.new-)?ledger\.sqlite.*"),
        ("checkpoints", r"state/deliveries/[^/]+/checkpoints\.sqlite.*"),
        ("artifact", r"state/deliveries/[^/]+/artifacts/?.*"),
        ("store", r"state/deliveries/[^/]+/store\.git/?.*"),
        ("fence", r"state/deliveries/[^/]+/(fence\.lock|owner\.json|\.new-[^/]*)"),
        ("lease", r"state/leases/.*"),
        ("state", r"state(/.*)?"),
        ("repository", r"repository(/.*)?"),
        ("worktree", r"worktree(/.*)?"),
    )
)
"""What belongs to what, by path below the world's root. The first that fits."""

Strike = Callable[[str, bool], None]
"""Called with a boundary's kind and whether an exception raised now would reach the driver."""


class Boundaries:
    """Calls ``strike`` at every boundary of this process from ``watch`` on, each before it happens."""

    def __init__(self, root: Path, strike: Strike) -> None:
        self._root = str(root) + "/"
        self._strike = strike
        self._inside = threading.local()

    def watch(self) -> None:
        """Cannot be undone: only for a process that ends with the run."""
        sys.addaudithook(self._heard)
        connect = sqlite3.connect

        def traced(*args: Any, **named: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **named)
            self._trace(connection)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment] # the standard library's, in a process that ends with the run

    def ask(self) -> None:
        """The clock was read for an append."""
        self._reached("append", True)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if getattr(self._inside, "busy", False):
            return
        match event:
            case "open":
                if isinstance(args[2], int) and args[2] & WRITING and not args[2] & os.O_DIRECTORY:
                    self._file("open", args[0], None)
            case "subprocess.Popen":
                self._reached(f"start {program(args[1])}", True)
            case "os.fork" | "os.posix_spawn":
                self._reached(f"start {event}", True)
            case "socket.connect":
                if isinstance(args[1], tuple):
                    self._reached("connect", True)
            case "fcntl.flock":
                self._file("lock", args[0], None)
            case _ if event in CHANGING:
                path, directory = CHANGING[event]
                self._file(event.removeprefix("os."), args[path], args[directory] if directory is not None else None)

    def _file(self, verb: str, path: Any, directory: int | None) -> None:
        place = self.place(path, directory)
        if place is not None:
            self._reached(f"{verb} {place}", True)

    def place(self, path: Any, directory: int | None) -> str | None:
        """What ``path`` belongs to; None for what is not below the root. The driver's own directory is ``/``, so a
        relative path without a known directory is relative to a handle on the worktree."""
        if isinstance(path, int):
            full = str(Path(f"/proc/self/fd/{path}").readlink())
        else:
            full = os.fsdecode(path)
            if not full.startswith("/"):
                known = isinstance(directory, int) and directory >= 0
                at = str(Path(f"/proc/self/fd/{directory}").readlink()) if known else ""
                full = f"{at or self._root + 'worktree'}/{full}"
        if not full.startswith(self._root):
            return None
        below = full.removeprefix(self._root)
        return next((name for name, pattern in PLACES if pattern.fullmatch(below)), None)

    def _trace(self, connection: sqlite3.Connection) -> None:
        name = ""

        def executed(statement: str) -> None:
            nonlocal name
            if statement == "COMMIT" and name:
                self._reached(f"commit {name}", False)

        self._inside.busy = True
        try:
            files = connection.execute("PRAGMA database_list").fetchall()
        finally:
            self._inside.busy = False
        name = self.place(files[0][2], None) or "" if files and files[0][2] else ""
        connection.set_trace_callback(executed)

    def _reached(self, kind: str, catchable: bool) -> None:
        self._inside.busy = True
        try:
            self._strike(kind, catchable)
        finally:
            self._inside.busy = False


def program(argv: Any) -> str:
    """``git update-ref`` for git, ``supervisor`` for ours, else the program's name."""
    words = [os.fsdecode(word) for word in (argv if isinstance(argv, (list, tuple)) else [argv])]
    if words[0] == "git":
        rest = iter(words[1:])
        for word in rest:
            if word == "-c":
                next(rest)
            elif not word.startswith("-"):
                return f"git {word}"
    return "supervisor" if words[-1].endswith("supervisor.py") else Path(words[0]).name
