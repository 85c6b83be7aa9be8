"""The small process between the driver and one command: nothing the command started survives it.

Run as a script (``python -I -S supervisor.py``) with only the standard library, in a session of its own. File descriptor 0
is a socket to the driver, 1 and 2 are the command's output.

Why a process of its own: as *child subreaper* it becomes the parent of every descendant whose parent died, so daemons
(``setsid``, double fork) stay within reach; and as they are its own unreaped children, no process id it signals can have
been given to somebody else. It ends everything when the command ends, when told to, and when the socket closes: a driver
killed by SIGKILL closes it too.

Lines of JSON on the socket. From the driver: the request ``{argv, cwd, env, grace_s}``, later ``end``. To the driver:
``{"started": pid, "start_time": ticks, "group": pgid}`` or ``{"not_started": why}``; then
``{"exit": n}`` or ``{"signal": n}`` with ``asked`` (it still ran when ``end`` came) and ``left`` (pids that even SIGKILL did
not end within ``KILL_S``). Where there is no subreaper (macOS) only the process group is ended.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

LEFTOVER_GRACE_S = 0.5
"""What background processes get between TERM and KILL once the command itself has ended."""
KILL_S = 5.0
"""How long a killed process may take to disappear (uninterruptible I/O) before it is reported as left."""
POLL_S = 0.01
"""Only while processes are being ended: their ends are looked for this often."""


def prctl(option: int, value: int) -> bool:
    """One ``prctl``; False where the system has none."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except AttributeError:
        return False


def say(**message: object) -> None:
    # A driver that is gone is noticed by the closed socket, not here.
    with contextlib.suppress(OSError):
        os.write(0, json.dumps(message).encode() + b"\n")


def read_request() -> tuple[dict[str, object], bool] | None:
    """The first line of the socket, and whether more came with it; None when the driver died before it was complete."""
    data = bytearray()
    while b"\n" not in data:
        chunk = os.read(0, 65536)
        if not chunk:
            return None
        data += chunk
    line, _, more = bytes(data).partition(b"\n")
    return json.loads(line), bool(more)


def start_time(pid: int) -> int:
    """Clock ticks since boot at which ``pid`` started; 0 where /proc does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


# --- start -----------------------------------------------------------------------------------------------------------


def start(argv: list[str], cwd: str, env: dict[str, str]) -> int | str:
    """Forks and executes; the pid once the program has replaced the child, or why it could not."""
    error_r, error_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(argv, cwd, env)
        except OSError as error:
            os.write(error_w, f"{error.errno}\n{why_not(error, argv[0], cwd)}".encode(errors="backslashreplace"))
        except ValueError as error:
            os.write(error_w, f"0\nthe command cannot be passed to the system: {error}".encode(errors="replace"))
        finally:
            os._exit(127)
    os.close(error_w)
    failure = b""
    while chunk := os.read(error_r, 65536):
        failure += chunk
    os.close(error_r)
    if failure:
        os.waitpid(pid, 0)
        return failure.partition(b"\n")[2].decode()
    return pid


def become(argv: list[str], cwd: str, env: dict[str, str]) -> None:
    """In the child: own session and group, no input, default signals, no descriptor but 0, 1, 2; then the program."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(cwd)
    except OSError as error:
        raise OSError(error.errno, "cwd") from None
    # The error pipe and everything else of ours closes on exec: Python makes descriptors non-inheritable.
    os.execvpe(argv[0], argv, env)  # noqa: S606 - an argv, no shell


def why_not(error: OSError, program: str, cwd: str) -> str:
    """What a person needs to know to mend it."""
    if error.strerror == "cwd":
        return f"the working directory {cwd!r} cannot be entered: {os.strerror(error.errno or 0)}"
    match error.errno:
        case errno.ENOENT:
            return f"{program!r} was not found (on PATH, or the interpreter that its first line names)"
        case errno.EACCES | errno.EPERM:
            return f"{program!r} is not executable (permission denied)"
        case errno.ENOEXEC:
            return f"{program!r} is neither a program nor a script whose first line names its interpreter"
        case errno.E2BIG:
            return "arguments and environment are larger than the system accepts"
        case _:
            return f"{program!r} did not start: {error.strerror}"


# --- end -------------------------------------------------------------------------------------------------------------


def children() -> list[int]:
    """Our direct children, zombies included."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:  # noqa: PTH123
            return [int(part) for part in file.read().split()]
    except OSError:
        return children_by_scan(me)


def children_by_scan(me: int) -> list[int]:
    """The same, for kernels without the ``children`` file."""
    found = []
    entries = os.listdir("/proc") if os.path.isdir("/proc") else []  # noqa: PTH112, PTH208
    for name in entries:
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                if int(file.read().rpartition(b")")[2].split()[1]) == me:
                    found.append(int(name))
    return found


def signal_all(group: int, number: int) -> None:
    """To the command's group (its leader is not reaped yet, so the number is still its own) and to all our children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in children():
        # Permission: a set-uid program. It is reported as left. Nobody gets one signal twice: a second TERM means more.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != group:
                os.kill(pid, number)


def others(main: int) -> list[int]:
    """Children but the command itself that still live; the dead ones are reaped."""
    alive = []
    for pid in children():
        if pid != main:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    alive.append(pid)
    return alive


def ended(main: int) -> dict[str, int] | None:
    """How the command ended, without reaping it: until then its process and group ids cannot be reused."""
    info = os.waitid(os.P_PID, main, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return None
    return {"exit": info.si_status} if info.si_code == os.CLD_EXITED else {"signal": info.si_status}


def quiet_within(main: int, seconds: float, hurry: "Wakeup", *, number: int | None = None) -> bool:
    """Whether everything has ended within ``seconds``; ``number`` is signalled again every round, as a killed process
    leaves its children to us. Ends early when the driver dies."""
    until = time.monotonic() + seconds
    while True:
        if number is not None:
            signal_all(main, number)
        if ended(main) is not None and not others(main):
            return True
        if time.monotonic() >= until or (number is None and hurry.orphaned):
            return False
        hurry.wait(POLL_S)


def end_all(main: int, grace_s: float, hurry: "Wakeup") -> list[int]:
    """TERM, the grace, KILL. Returns what even that did not end."""
    if not hurry.orphaned and (ended(main) is None or others(main)):
        signal_all(main, signal.SIGTERM)
        signal_all(main, signal.SIGCONT)
        quiet_within(main, grace_s, hurry)
    if quiet_within(main, KILL_S, hurry, number=signal.SIGKILL):
        return []
    return [pid for pid in children() if pid != main or ended(main) is None]


# --- watch -----------------------------------------------------------------------------------------------------------


class Wakeup:
    """Waits for the end of a child or a word from the driver."""

    def __init__(self) -> None:
        self._child_r, child_w = os.pipe()
        os.set_blocking(child_w, False)
        os.set_blocking(self._child_r, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(child_w, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._child_r, select.POLLIN)
        self._poll.register(0, select.POLLIN | select.POLLHUP)
        self.asked = False
        self.orphaned = False

    def wait(self, seconds: float | None) -> None:
        """Returns after ``seconds``, or earlier when something happened."""
        for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if fd != 0:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 65536)
            elif self._heard():
                self.asked = True
            else:
                self.orphaned = True
                self._poll.unregister(0)

    def _heard(self) -> bool:
        try:
            return bool(os.read(0, 4096))
        except OSError:
            return False


def main() -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    received = read_request()
    if received is None:
        return
    request, asked_already = received
    argv, cwd, env, grace_s = (request[k] for k in ("argv", "cwd", "env", "grace_s"))
    assert isinstance(argv, list) and isinstance(cwd, str) and isinstance(env, dict) and isinstance(grace_s, float)  # noqa: S101
    wakeup = Wakeup()
    wakeup.asked = asked_already
    pid = start(argv, cwd, env)
    # Our copies of the command's output: while we held them, the driver would never see their end.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    if isinstance(pid, str):
        say(not_started=pid)
        return
    say(started=pid, start_time=start_time(pid), group=pid)
    while ended(pid) is None and not wakeup.asked and not wakeup.orphaned:
        wakeup.wait(None)
    asked = ended(pid) is None
    left = end_all(pid, grace_s if asked else LEFTOVER_GRACE_S, wakeup)
    say(**(ended(pid) or {"signal": int(signal.SIGKILL)}), asked=asked, left=left)


if __name__ == "__main__":
    main()
    sys.exit(0)
