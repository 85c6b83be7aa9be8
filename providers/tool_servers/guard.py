"""Stands between the driver and one tool server: nothing that the server started survives the driver or the session.

Run as a script (``python -I -S guard.py FD PROGRAM ARGUMENTS...``) with only the standard library, in a session of its own. The
server inherits standard input, output and error; the guard keeps none of them. FD is a pipe that only the driver can write to:
its end means that the driver wants the server to end, or is dead. As a *child subreaper* the guard becomes the parent of
whatever loses its own, so daemons (``setsid``, double fork) stay within reach. If the guard itself is killed, the server
dies with it (``PR_SET_PDEATHSIG``).

Where there is no subreaper (macOS) only the server itself is ended.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 0.5
"""Between TERM and KILL."""
KILL_S = 2.0
"""How long killed processes may take to disappear."""
POLL_S = 0.01


def prctl(option: int, value: int) -> None:
    """Where the system has it."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def children(server: int) -> list[int]:
    """Our direct children, zombies included."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123 - pathlib doubles the start-up time
            return [int(part) for part in file.read().split()]
    except OSError:
        return [server]


def reap(server: int) -> bool:
    """Takes leave of what has ended; whether the server was among it."""
    gone = False
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            gone = gone or pid == server
    return gone


def quiet_within(server: int, seconds: float, number: int, *, again: bool) -> bool:
    """Whether nothing is left within ``seconds`` of ``number``; ``again``: signalled every round, as orphans come to us."""
    until = time.monotonic() + seconds
    signalled: set[int] = set()
    while True:
        reap(server)
        alive = children(server)
        for pid in alive:
            if again or pid not in signalled:
                signalled.add(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        if not alive or time.monotonic() >= until:
            return not alive
        time.sleep(POLL_S)


def run(argv: list[str], driver: int) -> None:
    """In the child: the program, ended by the kernel when the guard is gone."""
    guard = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.close(driver)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - an argv, no shell
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="backslashreplace"))
        os._exit(127)


def main(driver: int, argv: list[str]) -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child_ended, wakeup = os.pipe()
    for end in (child_ended, wakeup):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    server = os.fork()
    if server == 0:
        run(argv, driver)
    null = os.open(os.devnull, os.O_RDWR)
    for end in (0, 1, 2):
        os.dup2(null, end)
    poll = select.poll()
    poll.register(driver, select.POLLIN | select.POLLHUP)
    poll.register(child_ended, select.POLLIN)
    while not reap(server):
        if any(end == driver for end, _ in poll.poll()):
            break
        with contextlib.suppress(BlockingIOError):
            os.read(child_ended, 4096)
    if not quiet_within(server, GRACE_S, signal.SIGTERM, again=False):
        quiet_within(server, KILL_S, signal.SIGKILL, again=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
    os._exit(0)
