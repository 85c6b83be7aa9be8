"""The only file that runs git: environment by allow-list, everything explicit, every wait and every output bounded.

A git process sees no ``GIT_*`` of ours or the user's, no system or global config, no home. What the repository's own config
could make git run (hooks, fsmonitor, filters by attribute file, signing) is overridden on the command line, where it wins
over every file. ``processes`` counts what was started, for the cost tests.
"""

import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from runner.contract.errors import Code, EnvironmentFault
from runner.contract.remotes import REMOTE_CONFIG, remote_environment

TIMEOUT_S: Final = 300.0
OUTPUT_BYTES_MAX: Final = 512 * 1024 * 1024
"""A listing of a million paths of 500 bytes; what is larger is not a repository that custody accepts."""
STDERR_BYTES_MAX: Final = 4_096
_CHUNK: Final = 1 << 16
OLDEST: Final = (2, 36)
"""The first git that syncs what it writes (core.fsync)."""

OVERRIDES: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.logAllRefUpdates=false",
    "core.fsync=all",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.safecrlf=false",
    "core.filesRefLockTimeout=500",
    "core.packedRefsTimeout=500",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
    "advice.detachedHead=false",
    "submodule.recurse=false",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a git process acts. A missing ``index`` or ``work_tree`` is one the command does not need."""

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None
    objects: Path | None = None
    """Where new objects go, if not into ``git_dir``; its own objects are still read."""
    borrowed: Path | None = None

    def environment(self) -> dict[str, str]:
        places = {
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": self.work_tree,
            "GIT_INDEX_FILE": self.index,
            "GIT_OBJECT_DIRECTORY": self.objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": self.borrowed,
        }
        return {name: str(path) for name, path in places.items() if path is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    stdout: bytes
    stderr: str
    """The tail, control characters escaped."""


def base_environment() -> dict[str, str]:
    """What every git process gets before its place."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {
        "PATH": os.defpath,
        **kept,
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """One process to start. ``text`` is how it is named in messages: without our own overrides."""

    argv: tuple[str, ...]
    text: str
    env: Mapping[str, str]
    cwd: Path


class Git:
    """Runs git. Stateless but for the count; safe to share between the files of this room."""

    def __init__(self, executable: str = "git") -> None:
        self._executable = executable
        self._known = False
        """Whether this git is one that custody can rely on."""
        self.processes = 0

    def run(
        self,
        place: Place,
        *args: str,
        stdin: bytes | IO[bytes] = b"",
        env: Mapping[str, str] | None = None,
        config: Sequence[str] = (),
        ok: Sequence[int] = (0,),
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """One command to its end. ``GIT_FAILED`` for a status outside ``ok``, a timeout or too much output."""
        with self.talk(place, *args, stdin=stdin, env=env, config=config, timeout_s=timeout_s) as talk:
            output = talk.read_all(OUTPUT_BYTES_MAX)
            status = talk.end()
            answer = Answer(status=status, stdout=output, stderr=talk.stderr())
        if status not in ok:
            raise failed(" ".join(("git", *args)), f"exit status {status}", answer.stderr)
        return answer

    def run_remote(
        self, place: Place, *args: str, env: Mapping[str, str] | None = None, ok: Sequence[int] = (0,), timeout_s: float
    ) -> Answer:
        """As ``run``, for a command that talks to a repository elsewhere: it gets what transport needs of the user's."""
        return self.run(
            place,
            *args,
            env={**remote_environment(os.environ), **(env or {})},
            config=[f"{name}={value}" for name, value in REMOTE_CONFIG.items()],
            ok=ok,
            timeout_s=timeout_s,
        )

    def talk(
        self,
        place: Place,
        *args: str,
        stdin: bytes | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        config: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> "Conversation":
        """A started command to talk with. ``stdin`` None opens a pipe; bytes or a file are its whole input."""
        self._look_once()
        overrides = [part for item in (*OVERRIDES, *config) for part in ("-c", item)]
        command = _Command(
            argv=(self._executable, *overrides, *args),
            text=" ".join(("git", *args)),
            env={**base_environment(), **place.environment(), **(env or {})},
            cwd=place.work_tree or place.git_dir,
        )
        self.processes += 1
        return Conversation(command, stdin, timeout_s)

    def _look_once(self) -> None:
        """``GIT_MISSING`` for a git that would not sync what it writes; asked once, and not counted."""
        if self._known:
            return
        command = _Command(
            argv=(self._executable, "--version"), text="git --version", env=base_environment(), cwd=Path("/")
        )
        with Conversation(command, b"", TIMEOUT_S) as talk:
            said = os.fsdecode(talk.read_all(_CHUNK)).strip()
            talk.end()
        numbers = re.match(r"git version (\d+)\.(\d+)", said)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
            raise EnvironmentFault(
                Code.GIT_MISSING,
                f"{said[:80]!r} is too old, or no git",
                remedy=f"install git {'.'.join(map(str, OLDEST))} or newer, then execute again",
            )
        self._known = True

    def user_setting(self, place: Place, name: str, *, as_path: bool = False) -> str | None:
        """One setting as the user's own git would see it (system, global and repository config). Runs nothing of it."""
        env = {**base_environment(), **place.environment(), "GIT_CONFIG_NOSYSTEM": "0"}
        for own in ("GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME"):
            del env[own]
        env |= {n: os.environ[n] for n in ("HOME", "XDG_CONFIG_HOME") if n in os.environ}
        argv = (self._executable, "config", *(["--type=path"] if as_path else []), "--get", name)
        self.processes += 1
        command = _Command(argv=argv, text=f"git config --get {name}", env=env, cwd=place.git_dir)
        with Conversation(command, b"", TIMEOUT_S) as talk:
            output = talk.read_all(_CHUNK)
            status = talk.end()
        return os.fsdecode(output.rstrip(b"\n")) if status == 0 else None


class Conversation:
    """One git process with bounded waits. ``end`` waits for it, ``kill`` ends it whatever it does and frees everything; a
    ``with`` block kills at its end."""

    def __init__(self, command: "_Command", stdin: bytes | IO[bytes] | None, timeout_s: float) -> None:
        self.command = command.text
        self._deadline_s = timeout_s
        self._pending = b""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed with it
        with ExitStack() as given:
            source: IO[bytes] | int = subprocess.PIPE if stdin is None else _input(stdin, given)
            try:
                self._process = subprocess.Popen(
                    command.argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=self._stderr,
                    env=dict(command.env),
                    cwd=command.cwd,
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                self._stderr.close()
                raise _not_started(command, error) from None

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def output(self) -> IO[bytes]:
        """Standard output, to be handed to another process as its input."""
        assert self._process.stdout is not None  # noqa: S101 - opened as a pipe above
        return self._process.stdout

    def write(self, data: bytes) -> None:
        """All of ``data``; ``GIT_FAILED`` when the process is gone or takes nothing for the whole timeout."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            raise self.failure("it takes no input any more")
        view, fd = memoryview(data), pipe.fileno()
        while view:
            _, ready, _ = select.select([], [fd], [], self._deadline_s)
            if not ready:
                raise self.failure(f"took no input for {self._deadline_s:.0f} s")
            try:
                view = view[os.write(fd, view[:_CHUNK]) :]
            except BrokenPipeError:
                raise self.failure("ended early") from None

    def read_line(self) -> bytes:
        """One line without its end."""
        while b"\n" not in self._pending:
            self._more()
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def read(self, count: int) -> bytes:
        parts, have = [self._pending], len(self._pending)
        while have < count:
            self._pending = b""
            self._more()
            parts.append(self._pending)
            have += len(self._pending)
        data = b"".join(parts)
        self._pending = data[count:]
        return data[:count]

    def read_fields(self, count: int) -> list[bytes]:
        """``count`` fields, each ended by a NUL."""
        while self._pending.count(b"\0") < count:
            self._more()
        *fields, self._pending = self._pending.split(b"\0", count)
        return fields

    def read_all(self, bytes_max: int) -> bytes:
        parts, have, until = [self._pending], len(self._pending), time.monotonic() + self._deadline_s
        while data := self._receive(until - time.monotonic()):
            parts.append(data)
            have += len(data)
            if have > bytes_max:
                raise self.failure(f"wrote more than {bytes_max} bytes")
        return b"".join(parts)

    def _more(self) -> None:
        data = self._receive(self._deadline_s)
        if not data:
            raise self.failure("ended early")
        self._pending += data

    def _receive(self, wait_s: float) -> bytes:
        fd = self.output.fileno()
        ready, _, _ = select.select([fd], [], [], max(wait_s, 0.0))
        if not ready:
            raise self.failure(f"did not answer within {self._deadline_s:.0f} s")
        return os.read(fd, _CHUNK)

    def end(self) -> int:
        """Closes its input and waits; the exit status."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        if not self._ends():
            raise self.failure(f"did not end within {self._deadline_s:.0f} s")
        self.output.close()
        return self._process.wait()

    def _ends(self) -> bool:
        """Whether it ends in time. ``Popen.wait`` with a timeout looks only now and then, for up to 50 ms at a time."""
        handle = os.pidfd_open(self._process.pid)
        try:
            return bool(select.select([handle], [], [], self._deadline_s)[0])
        finally:
            os.close(handle)

    def kill(self) -> None:
        """Ends it, and what it started, whatever they do."""
        self._end_all()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._stderr.close()

    def _end_all(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stderr(self) -> str:
        """The tail of what it complained about; closes it."""
        if self._stderr.closed:
            return ""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - STDERR_BYTES_MAX))
        text = self._stderr.read().decode("utf-8", "replace").strip()
        self._stderr.close()
        return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)

    def failure(self, why: str) -> EnvironmentFault:
        """Kills it; what to raise about it."""
        self._end_all()
        text = self.stderr()
        self.kill()
        return failed(self.command, why, text)


def failed(command: str, why: str, stderr: str) -> EnvironmentFault:
    """``DISK_FULL`` when git said so, else ``GIT_FAILED``."""
    code = Code.DISK_FULL if "No space left on device" in stderr else Code.GIT_FAILED
    return EnvironmentFault(
        code,
        f"{command}: {why}" + (f": {stderr}" if stderr else ""),
        remedy="mend what git complains about, then run the same command again",
    )


def _input(stdin: bytes | IO[bytes], given: ExitStack) -> IO[bytes]:
    """A file that the child reads from; bytes go into a temporary one, so that no wait can be mutual."""
    if not isinstance(stdin, bytes):
        return stdin
    file: IO[bytes] = given.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - entered
    file.write(stdin)
    file.seek(0)
    return file


def _not_started(command: _Command, error: FileNotFoundError) -> EnvironmentFault:
    if command.cwd.is_dir():
        message = f"git cannot be started: {command.argv[0]} is not on PATH"
        return EnvironmentFault(Code.GIT_MISSING, message, remedy="install git and put it on PATH")
    return EnvironmentFault(
        Code.WORKTREE_MISSING,
        f"{command.text}: the directory {error.filename} does not exist",
        remedy="put the repository and its worktree back where they were admitted",
    )
