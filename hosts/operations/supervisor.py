"""The small processes between the driver and one command: nothing the command started survives them.

Run as a script (``python -I -S supervisor.py``) with only the standard library, in a session of its own. It forks at once:

    driver --- guard --- supervisor --- the command, leader of its own session and group --- whatever it starts

Why processes of their own: as *child subreapers* they become the parent of every descendant whose parent died, so daemons
(``setsid``, double fork) stay within reach; and as those are their own unreaped children, no process id that is signalled
can have been given to somebody else. The supervisor ends everything when the command ends, when told to, when its socket
closes (a driver killed by SIGKILL closes it too), and when the guard is gone. The guard only waits: if the supervisor is
killed, by its own command (``kill $PPID``) or for lack of memory, the orphans come to the guard, which ends them; if it is
stopped, the guard continues it. So whatever is killed among the driver and these two, one that is left cleans up. If all three
are killed, the command runs on; that is why its identity is recorded before it executes anything: the next driver ends it.

Contained (with its limits as arguments), it is process 1 of a process namespace instead, and there is no guard:

    driver --- bwrap --- supervisor --- the command --- whatever it starts

The kernel lets nothing inside signal or trace it, gives it every orphan, and ends everything inside when it ends; and bwrap ends
with the driver and takes it along. What remains to do is the rest of the above: hold the command until it is recorded, tell how
it ended, TERM before KILL; and to count what all of it uses together, which no limit of a single process bounds.

File descriptor 0 is a socket to the driver, 1 and 2 are the command's output. From the driver: the request (its length, a
newline, then NUL-separated: grace, cwd, the number of arguments, arguments, ``NAME=value``), ``g`` to let the command go,
later ``e`` to end it. To the driver, a line each: ``no-process WHY`` when the system has none to give; ``held PID TICKS GROUP``
once the process exists and waits; then ``not-started WHY``; or ``exit N ASKED LEFT...`` / ``signal N ASKED LEFT...``, where
ASKED is 1 if it still ran when its end was asked for, and LEFT are pids that even SIGKILL did not end within ``KILL_S``; or, as
``signal``, ``memory``, ``cpu`` or ``processes`` when it was killed because all of it together used more than it may. The end of
the stream without such a last line: the supervisor was killed. No JSON: importing it would take a third of the start-up time.

Where there is no subreaper (macOS) only the process group is ended.
"""

import contextlib
import ctypes
import errno
import os
import select
import signal
import sys
import time

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

LEFTOVER_GRACE_S = 0.5
"""What background processes get between TERM and KILL once the command itself has ended."""
KILL_S = 5.0
"""How long a killed process may take to disappear (uninterruptible I/O) before it is reported as left."""
POLL_S = 0.01
"""Only while processes are being ended: their ends are looked for this often."""
COUNT_S = 0.1
"""Only where there are limits: what everything uses together is counted this often."""


def become_subreaper() -> None:
    """Where the system has it. Not inherited by a fork."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def hide() -> None:
    """What runs inside with the same user cannot trace us, nor reach our socket through /proc. Undone by exec."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def say(*words: object) -> None:
    line = " ".join(map(str, words)).replace("\n", "\\n")
    # A driver that is gone is noticed by the closed socket, not here.
    with contextlib.suppress(OSError):
        os.write(0, line.encode(errors="backslashreplace") + b"\n")


def silence() -> None:
    """Gives up our copies of the command's output: while we held them, the driver would never see their end."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)


def read_request() -> list[bytes] | None:
    """The request's fields; None when the driver died before it was complete."""
    data, size = bytearray(), None
    while size is None or len(data) < size:
        chunk = os.read(0, 65536)
        if not chunk:
            return None
        data += chunk
        if size is None and b"\n" in data:
            head, _, rest = data.partition(b"\n")
            data, size = rest, int(head)
    return bytes(data).split(b"\0")


def start_time(pid: int) -> int:
    """Clock ticks since boot at which ``pid`` started; 0 where /proc does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


# --- start -----------------------------------------------------------------------------------------------------------


class Held:
    """The command's process, forked but not yet executing: it waits at a gate, and ends if the gate closes unopened."""

    def __init__(self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], limits: "Limits | None") -> None:
        gate_r, self._gate = os.pipe()
        self._report, report_w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._gate)
                os.close(self._report)
                detach()
                if limits is not None:
                    limits.impose()
                os.write(report_w, b"\n")
                if os.read(gate_r, 1):
                    execute(argv, cwd, env)
            except (OSError, ValueError) as error:
                os.write(report_w, why_not(error, argv[0], cwd).encode(errors="backslashreplace"))
            finally:
                os._exit(127)
        os.close(gate_r)
        os.close(report_w)
        # Only now it leads its session and group.
        os.read(self._report, 1)

    def give_up(self) -> None:
        """It ends without having executed anything."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def let_go(self) -> str:
        """Empty once the program has replaced the process, else why it could not (then it has ended)."""
        # It may have been killed while it waited; then it has ended by a signal like any other.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"g")
        os.close(self._gate)
        failure = b""
        while chunk := os.read(self._report, 65536):
            failure += chunk
        os.close(self._report)
        if failure:
            os.waitpid(self.pid, 0)
        return failure.decode()


def detach() -> None:
    """In the child: own session and group, no input, no socket to the driver, default signals."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def execute(argv: list[bytes], cwd: bytes, env: dict[bytes, bytes]) -> None:
    """In the child: the program, in its directory, with no descriptor but 0, 1, 2."""
    try:
        os.chdir(cwd)
    except OSError as error:
        raise OSError(error.errno, "cwd") from None
    # The pipes and everything else of ours close on exec: Python makes descriptors non-inheritable.
    os.execvpe(argv[0], argv, env)  # noqa: S606 - an argv, no shell


def why_not(error: OSError | ValueError, program: bytes, cwd: bytes) -> str:
    """What a person needs to know to mend it."""
    name = repr(os.fsdecode(program))
    if not isinstance(error, OSError):
        return f"the command cannot be passed to the system: {error}"
    if error.strerror == "cwd":
        return f"the working directory {os.fsdecode(cwd)!r} cannot be entered: {os.strerror(error.errno or 0)}"
    match error.errno:
        case errno.ENOENT:
            return f"{name} was not found (on PATH, or the interpreter that its first line names)"
        case errno.EACCES | errno.EPERM:
            return f"{name} is not executable (permission denied)"
        case errno.ENOEXEC:
            return f"{name} is neither a program nor a script whose first line names its interpreter"
        case errno.E2BIG:
            return "arguments and environment are larger than the system accepts"
        case _:
            return f"{name} did not start: {error.strerror}"


# --- limits ----------------------------------------------------------------------------------------------------------


class Limits:
    """What a contained command may use. The system bounds each process; what all of them use together is counted."""

    def __init__(self, memory_bytes: int, cpu_s: int, processes: int, file_bytes: int) -> None:
        self._memory_bytes, self._cpu_s, self._processes, self._file_bytes = memory_bytes, cpu_s, processes, file_bytes

    def impose(self) -> None:
        """In the child: for itself and what it starts. Not the address space: runtimes reserve far more than they use."""
        import resource  # noqa: PLC0415 - only here, where there are limits

        bounds = (
            (resource.RLIMIT_DATA, self._memory_bytes),
            (resource.RLIMIT_FSIZE, self._file_bytes),
            (resource.RLIMIT_CORE, 0),
        )
        for what, most in bounds:
            hard = resource.getrlimit(what)[1]
            bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(what, (bound, bound))

    def exceeded(self) -> str:
        """Which limit everything in our process namespace exceeds together; empty for none. The number of processes is not
        left to the system: it counts a user's, wherever they run, and not those of root."""
        used = [usage for name in os.listdir("/proc") if name.isdigit() and name != "1" and (usage := usage_of(name))]  # noqa: PTH208
        if len(used) > self._processes:
            return "processes"
        done = os.times()
        ticks = sum(cpu for _, cpu, _ in used) + (done.children_user + done.children_system) * TICKS
        if ticks > self._cpu_s * TICKS:
            return "cpu"
        if sum(pages for _, _, pages in used) * PAGE <= self._memory_bytes:
            return ""
        # What processes share was counted for each of them; this tells it apart, and takes longer.
        shares = (share_of(name, pages) for name, _, pages in used)
        return "memory" if sum(shares) > self._memory_bytes else ""


TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def usage_of(pid: str) -> "tuple[str, int, int] | None":
    """``pid``, its CPU time in ticks with that of the children it has waited for, its resident pages."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        return (pid, sum(map(int, fields[11:15])), int(fields[21]))
    except (OSError, ValueError, IndexError):
        return None


def share_of(pid: str, pages: int) -> int:
    """Bytes of memory that are ``pid``'s own, and its share of what it shares: all its ``pages`` for one that keeps us from
    looking, 0 for one that is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:"))
    except PermissionError:
        return pages * PAGE
    except (OSError, StopIteration):
        return 0


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
    """To the command's group (its leader is not reaped yet, so the number is still its own) and to all our children; to
    everything at once where we are process 1."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)
        return
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


def ended(main: int) -> tuple[str, int] | None:
    """How the command ended, without reaping it: until then its process and group ids cannot be reused."""
    info = os.waitid(os.P_PID, main, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return None
    return ("exit" if info.si_code == os.CLD_EXITED else "signal", info.si_status)


def quiet_within(main: int, seconds: float, wakeup: "Wakeup", *, number: int | None = None) -> bool:
    """Whether everything has ended within ``seconds``; ``number`` is signalled again every round, as a killed process
    leaves its children to us. Ends early when the driver dies."""
    until = time.monotonic() + seconds
    while True:
        if number is not None:
            signal_all(main, number)
        if ended(main) is not None and not others(main):
            return True
        if time.monotonic() >= until or (number is None and wakeup.orphaned):
            return False
        wakeup.wait(POLL_S)


def end_all(main: int, grace_s: float, wakeup: "Wakeup") -> list[int]:
    """TERM, the grace, KILL. Returns what even that did not end."""
    if not wakeup.orphaned and (ended(main) is None or others(main)):
        signal_all(main, signal.SIGTERM)
        signal_all(main, signal.SIGCONT)
        quiet_within(main, grace_s, wakeup)
    if quiet_within(main, KILL_S, wakeup, number=signal.SIGKILL):
        return []
    return [pid for pid in children() if pid != main or ended(main) is None]


# --- watch -----------------------------------------------------------------------------------------------------------


class Wakeup:
    """Waits for the end of a child, a word from the driver, or the end of the driver or the guard."""

    def __init__(self, guard: int | None) -> None:
        """``guard`` is a pipe whose other end only the guard has, where there is one."""
        self._child_r, child_w = os.pipe()
        os.set_blocking(child_w, False)
        os.set_blocking(self._child_r, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(child_w, warn_on_full_buffer=False)
        self._poll = select.poll()
        for fd in (0, guard, self._child_r):
            if fd is not None:
                self._poll.register(fd, select.POLLIN | select.POLLHUP)
        self.released = False
        self.asked = False
        self.orphaned = False

    def wait(self, seconds: float | None) -> None:
        """Returns after ``seconds``, or earlier when something happened."""
        for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            said = self._read(fd)
            if fd == self._child_r:
                continue
            self.released = self.released or b"g" in said
            self.asked = self.asked or b"e" in said
            if not said:
                self.orphaned = True
                self._poll.unregister(fd)

    def _read(self, fd: int) -> bytes:
        try:
            return os.read(fd, 4096)
        except OSError:
            return b""


def supervise(guard: int | None, limits: "Limits | None" = None) -> None:
    """One command, from its request to its end."""
    request = read_request()
    if request is None:
        return
    grace_s, cwd, count, *rest = request
    argv, env = rest[: int(count)], dict(item.split(b"=", 1) for item in rest[int(count) :])
    wakeup = Wakeup(guard)
    try:
        held = Held(argv, cwd, env, limits)
    except OSError as error:
        say("no-process", error.strerror)
        return
    silence()
    say("held", held.pid, start_time(held.pid), held.pid)
    while not wakeup.released and not wakeup.asked and not wakeup.orphaned:
        wakeup.wait(None)
    if not wakeup.released or wakeup.orphaned:
        held.give_up()
        return
    if failure := held.let_go():
        say("not-started", failure)
        return
    excess = ""
    while ended(held.pid) is None and not wakeup.asked and not wakeup.orphaned and not excess:
        wakeup.wait(COUNT_S if limits else None)
        excess = limits.exceeded() if limits else ""
    if excess:
        signal_all(held.pid, signal.SIGKILL)
    asked = ended(held.pid) is None and not excess
    left = end_all(held.pid, float(grace_s) if asked else LEFTOVER_GRACE_S, wakeup)
    if not wakeup.orphaned:
        how, number = ended(held.pid) or ("signal", int(signal.SIGKILL))
        say(excess or how, number, int(asked), *left)


def stand_guard(supervisor: int) -> None:
    """Until the supervisor has ended. If it was killed, everything below it has become ours, and ends here."""
    while os.WIFSTOPPED(status := os.waitpid(supervisor, os.WUNTRACED)[1]):
        os.kill(supervisor, signal.SIGCONT)
    until = time.monotonic() + KILL_S
    while status != 0 and (orphans := others(0)) and time.monotonic() < until:
        for pid in orphans:
            # Permission: a set-uid program.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def main() -> None:
    if len(sys.argv) > 1:
        hide()
        supervise(None, Limits(*map(int, sys.argv[1:])))
        return
    become_subreaper()
    watched, guard_end = os.pipe()
    try:
        supervisor = os.fork()
    except OSError as error:
        say("no-process", error.strerror)
        return
    if supervisor == 0:
        os.close(guard_end)
        become_subreaper()
        supervise(watched)
    else:
        os.close(watched)
        silence()
        stand_guard(supervisor)


if __name__ == "__main__":
    main()
    # The driver waits for our end, and nothing is left that an orderly shutdown of the interpreter would do.
    os._exit(0)
