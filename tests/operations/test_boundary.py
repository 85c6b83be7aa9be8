"""From inside the boundary: what escapes come to. Whatever is tried runs as a contained command and tells what worked."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hosts.operations import supervisor
from hosts.operations.boundary import Containment
from runner.contract.config import Boundary
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.ports import CommandResult
from runner.contract.scope import READ_ONLY
from tests.operations.conftest import Bench

TRY = """
import json, os, socket, sys
found = {}
def attempt(name, act):
    try:
        found[name] = repr(act())
    except (OSError, KeyError):
        found[name] = None
def read(path):
    with open(path, "rb") as file: return file.read()
def write(path, text="x"):
    with open(path, "w") as file: file.write(text)
    return True
"""


class Inside:
    """A bench whose commands are contained, over a worktree below the Runner's state."""

    def __init__(self, root: Path, bwrap: str, **bounds: Any) -> None:
        self.root = root
        self.state = root / "state"
        self.worktree = self.state / "worktrees" / "w"
        self.worktree.mkdir(parents=True)
        (self.worktree / ".git" / "hooks").mkdir(parents=True)
        (self.worktree / ".git" / "config").write_text("[core]\n")
        self.secret = self.state / "secret"
        self.secret.write_text("sk-secret")
        self.outside = root / "outside"
        self.outside.write_text("untouched")
        self.bench = Bench(self.worktree)
        self.bench.containment = Containment(
            bwrap=bwrap, boundary=Boundary(**bounds), hidden=(str(self.state), str(self.secret))
        )

    async def python(self, program: str, **fields: Any) -> CommandResult:
        fields.setdefault("output_bytes_max", 65_536)
        request = self.bench.request(sys.executable, "-c", TRY + program, cwd=str(self.worktree), **fields)
        return await self.bench.runner(grace_s=0.2).command(request)

    async def tried(self, attempts: str, **fields: Any) -> dict[str, str | None]:
        """What each attempt gave; None for one that failed."""
        result = await self.python(attempts + "\nprint(json.dumps(found))", **fields)
        assert result.end == "exit" and result.status == 0, result
        found: dict[str, str | None] = json.loads(result.stdout)
        assert found
        return found


@pytest.fixture
def inside(tmp_path: Path, bwrap: str) -> Inside:
    return Inside(tmp_path, bwrap)


def _failed(found: dict[str, str | None]) -> bool:
    return not [name for name, what in found.items() if what is not None]


# --- reading ---------------------------------------------------------------------------------------------------------


async def test_the_parents_environment_and_memory(inside: Inside) -> None:
    """No process outside is there to be read; process 1, which supervises, shows neither its memory nor its files, and has an
    empty environment."""
    os.environ["RUNNER_TEST_SECRET"] = "sk-in-the-environment"
    try:
        found = await inside.tried(
            f"""
attempt("own", lambda: os.environ["RUNNER_TEST_SECRET"])
attempt("driver", lambda: read("/proc/{os.getpid()}/environ"))
attempt("parent", lambda: read(f"/proc/{{os.getppid()}}/environ"))
attempt("memory", lambda: read("/proc/1/mem"))
attempt("socket", lambda: os.readlink("/proc/1/fd/0"))
attempt("root", lambda: os.listdir("/proc/1/root"))
attempt("processes", lambda: [n for n in os.listdir("/proc") if n.isdigit()])
"""
        )
    finally:
        del os.environ["RUNNER_TEST_SECRET"]
    assert len(json.loads((found.pop("processes") or "").replace("'", '"'))) == 2
    assert found.pop("parent") in (None, "b''")
    assert _failed(found), found


async def test_secrets_and_state(inside: Inside) -> None:
    """Neither the secret's file nor anything of the state root can be read, though the worktree lies below it, nor the system's passwords."""
    (inside.worktree / "link").symlink_to(inside.secret)
    found = await inside.tried(
        f"""
attempt("secret", lambda: read({str(inside.secret)!r}))
attempt("link", lambda: read("link"))
attempt("above", lambda: read("../../secret"))
attempt("through /proc", lambda: read("/proc/self/cwd/../../secret"))
attempt("shadow", lambda: read("/etc/shadow"))
"""
    )
    assert _failed(found), found
    beside = await inside.tried(f'attempt("state", lambda: os.listdir({str(inside.state)!r}))')
    assert beside == {"state": "['worktrees']"}


async def test_what_is_hidden_stays_hidden(tmp_path: Path, bwrap: str) -> None:
    """A readable path around state and secrets does not show them, and the worktree below is still the worktree."""
    inside = Inside(tmp_path, bwrap, readable=(str(tmp_path),))
    found = await inside.tried(
        f"""
attempt("secret", lambda: read({str(inside.secret)!r}))
attempt("outside", lambda: read({str(inside.outside)!r}))
attempt("state", lambda: os.listdir({str(inside.state)!r}))
attempt("write state", lambda: write({str(inside.state / "new")!r}))
attempt("write outside", lambda: write({str(inside.outside)!r}))
attempt("write", lambda: write("new"))
"""
    )
    assert found == {
        "secret": None,
        "outside": "b'untouched'",
        "state": "['worktrees']",
        "write state": None,
        "write outside": None,
        "write": "True",
    }


# --- writing ---------------------------------------------------------------------------------------------------------


async def test_git_is_readable_and_never_written(inside: Inside) -> None:
    """Hooks, config and the directory itself: not changed, not replaced, not moved away."""
    found = await inside.tried(
        """
attempt("hook", lambda: write(".git/hooks/post-checkout"))
attempt("config", lambda: write(".git/config", "[core]\\nfsmonitor = evil"))
attempt("moved", lambda: os.rename(".git", "git"))
attempt("through /proc", lambda: write("/proc/self/cwd/.git/hooks/x"))
attempt("hard link", lambda: os.link("/proc/self/exe", ".git/x"))
attempt("read", lambda: read(".git/config"))
"""
    )
    assert found.pop("read") == "b'[core]\\n'"
    assert _failed(found), found
    assert not list((inside.worktree / ".git" / "hooks").iterdir())


async def test_a_linked_worktrees_repository(inside: Inside, git: Callable[..., str]) -> None:
    """Git works inside a linked worktree, says what changed, and can write nothing: no commit, no ref, no index."""
    main = inside.root / "main"
    git("init", "-q", str(main))
    (main / "a.txt").write_text("a\n")
    git("-C", str(main), "add", ".")
    git("-C", str(main), "commit", "-qm", "a")
    linked = inside.state / "worktrees" / "linked"
    git("-C", str(main), "worktree", "add", "-q", "--detach", str(linked))
    (linked / "a.txt").write_text("b\n")
    inside.bench.worktree = linked
    script = (
        "git diff --stat && git status --short && ! git add a.txt && ! git update-ref refs/heads/x HEAD && echo held"
    )
    result = await inside.bench.sh(script, cwd=str(linked))
    assert (result.status, result.stdout.endswith(" M a.txt\nheld\n")) == (0, True), result


async def test_a_link_that_leads_elsewhere_shows_nothing(inside: Inside) -> None:
    """A ``.git`` file that names something that is no repository of this worktree does not bring it inside."""
    worktree = inside.state / "worktrees" / "odd"
    worktree.mkdir()
    private = inside.root / "private"
    private.mkdir()
    (private / "key").write_text("sk-secret")
    (worktree / ".git").write_text(f"gitdir: {private}\n")
    inside.bench.worktree = worktree
    result = await inside.bench.sh(f"cat {private}/key", cwd=str(worktree))
    assert result.status != 0 and "sk-secret" not in result.stdout


async def test_outside_of_the_worktree(inside: Inside) -> None:
    """Directly, through a symbolic link, a hard link or /proc: nothing outside changes, and the system cannot be written."""
    (inside.worktree / "link").symlink_to(inside.outside)
    (inside.worktree / "up").symlink_to("../..")
    found = await inside.tried(
        f"""
attempt("usr", lambda: write("/usr/x"))
attempt("etc", lambda: write("/etc/passwd"))
attempt("root", lambda: write("/x"))
attempt("device", lambda: write("/dev/x"))
attempt("hard link", lambda: os.link({str(inside.outside)!r}, "hard"))
attempt("kernel", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
attempt("trigger", lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY))
attempt("mount", lambda: os.mkdir("/proc/1/root/x"))
attempt("interpreter", lambda: write(os.path.join(sys.prefix, "bin", "x")))
write("link"); write("up/left")  # what they lead to is memory of its own
"""
    )
    assert _failed(found), found
    assert inside.outside.read_text() == "untouched"
    assert sorted(path.name for path in inside.state.iterdir()) == ["secret", "worktrees"]


async def test_scopes(inside: Inside) -> None:
    """A step that may write nothing has a read-only worktree; its home and its temporary directory are its own, and gone
    afterwards."""
    tries = """
attempt("worktree", lambda: write("new"))
attempt("home", lambda: write(os.environ["HOME"] + "/x"))
attempt("temporary", lambda: write(os.environ["TMPDIR"] + "/runner-was-here"))
"""
    assert await inside.tried(tries, scope=READ_ONLY) == {"worktree": None, "home": "True", "temporary": "True"}
    assert not (inside.worktree / "new").exists()
    assert await inside.tried(tries) == {"worktree": "True", "home": "True", "temporary": "True"}
    assert (inside.worktree / "new").exists()
    assert not Path("/tmp/runner-was-here").exists()


async def test_the_environment_is_clean(inside: Inside) -> None:
    """PATH, a home and a temporary directory of its own, the locale, and what the step declared."""
    result = await inside.bench.sh("env", cwd=str(inside.worktree), env={"DECLARED": "yes"})
    names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert {"PATH", "HOME", "TMPDIR", "DECLARED"} <= names
    assert {n for n in names if not n.startswith("LC_")} <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "DECLARED",
        "PWD",
        "SHLVL",
        "_",
    }


async def test_no_rights(inside: Inside) -> None:
    """No capability, none to be had through a set-uid program, and no namespace of its own in which there would be some."""
    result = await inside.bench.sh(
        "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; unshare -Ur true || echo refused",
        cwd=str(inside.worktree),
    )
    assert result.stdout.split() == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "refused"]


# --- the network -----------------------------------------------------------------------------------------------------


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Everything of this machine that could be reached: it would accept at once."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        abstract.bind(f"\0runner-{os.getpid()}")
        abstract.listen()
        yield {
            "tcp": tcp.getsockname()[1],
            "udp": udp,
            "unix": str(tmp_path / "s"),
            "abstract": f"\0runner-{os.getpid()}",
        }


async def test_no_network(inside: Inside, listening: dict[str, Any]) -> None:
    """TCP, UDP, DNS, unix and abstract sockets: what listens outside is not reached."""
    port = listening["udp"].getsockname()[1]
    found = await inside.tried(
        f"""
def unix(address):
    with socket.socket(socket.AF_UNIX) as s: return s.connect(address)
def udp(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: return s.sendto(b"out", address)
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", {listening["tcp"]}), timeout=5))
attempt("outside", lambda: socket.create_connection(("192.0.2.1", 80), timeout=5))
attempt("udp outside", lambda: udp(("192.0.2.1", 53)))
attempt("dns", lambda: socket.getaddrinfo("example.org", 80))
attempt("unix", lambda: unix({listening["unix"]!r}))
attempt("abstract", lambda: unix({listening["abstract"]!r}))
attempt("udp inside", lambda: udp(("127.0.0.1", {port})))
"""
    )
    found.pop("udp inside")
    with pytest.raises(BlockingIOError):
        listening["udp"].recv(10)
    assert _failed(found), found


async def test_the_loopback_inside_works(inside: Inside) -> None:
    """A test suite that serves itself over ``localhost`` can run."""
    found = await inside.tried(
        """
server = socket.create_server(("localhost", 0))
attempt("own", lambda: socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close())
"""
    )
    assert found == {"own": "None"}


# --- other processes -------------------------------------------------------------------------------------------------


async def test_signalling_the_driver(inside: Inside) -> None:
    """The driver has no number inside; process 1 takes no signal, not even KILL and STOP, and cannot be traced."""
    found = await inside.tried(
        f"""
import ctypes, signal
attempt("driver", lambda: os.kill({os.getpid()}, signal.SIGKILL))
attempt("group", lambda: os.killpg({os.getpgid(0)}, signal.SIGKILL))
os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGSTOP); os.kill(1, signal.SIGTERM)
attempt("traced", lambda: ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 or read("/nothing"))
"""
    )
    assert _failed(found), found


async def test_ends_are_told_apart(inside: Inside) -> None:
    """An exit status of 137 is none of signal 9, and a program that is not there was not started."""
    cwd = str(inside.worktree)
    ends = [await inside.bench.sh(script, cwd=cwd) for script in ("exit 0", "exit 137", "kill -KILL $$")]
    assert [(end.end, end.status) for end in ends] == [("exit", 0), ("exit", 137), ("signal", 9)]
    missing = await inside.bench.runner().command(inside.bench.request("no-such-program", cwd=cwd))
    assert missing.end == "not-started" and "was not found" in missing.message


async def test_a_boundary_that_cannot_be_built(inside: Inside) -> None:
    """It is not the command's fault: nothing is recorded, the Delivery stays open, and it is said what was in the way."""
    contains = inside.bench.containment
    assert contains is not None
    nowhere = str(inside.root / "nowhere")
    for broken in (
        replace(contains, boundary=Boundary(readable=(nowhere,))),
        replace(contains, bwrap="/bin/false"),
        replace(contains, bwrap=nowhere),
    ):
        inside.bench.containment = broken
        with pytest.raises(EnvironmentFault) as caught:
            await inside.bench.sh("touch ran", cwd=str(inside.worktree))
        assert caught.value.code is Code.PROCESS_NOT_STARTED
    inside.bench.containment = replace(contains, boundary=Boundary(readable=(nowhere,)))
    with pytest.raises(EnvironmentFault, match="nowhere"):
        await inside.bench.sh("touch ran", cwd=str(inside.worktree))
    assert inside.bench.ledger.kinds == [] and not (inside.worktree / "ran").exists()


FORKLESS = """
import contextlib, ctypes, errno, os, resource, select, signal, sys, time
source = open(sys.argv.pop(1)).read()
if os.getuid() == 0:
    os.setuid(65534)  # root may always have another process
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
exec(compile(source, "supervisor", "exec"), {"__name__": "__main__"})
"""


@pytest.mark.parametrize("limits", [[], [str(1 << 30), "10", "10", str(1 << 20)]], ids=["ordinary", "contained"])
def test_a_supervisor_that_cannot_fork_says_so(limits: list[str]) -> None:
    """There was no process to be had: told apart from a command that cannot be started."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        body = b"1.0\0/\x001\0true"
        ours.sendall(b"%d\n%s" % (len(body), body))
        argv = [sys.executable, "-I", "-S", "-c", FORKLESS, supervisor.__file__, *limits]
        assert subprocess.run(argv, stdin=theirs.fileno(), capture_output=True, check=False, timeout=60).stderr == b""
        assert ours.recv(1000) == b"no-process Resource temporarily unavailable\n"


def test_the_start_costs_little(inside: Inside, capsys: pytest.CaptureFixture[str]) -> None:
    """Not asserted: what a contained start costs beside an ordinary one (``-s`` shows it)."""

    def timed(containment: Containment | None) -> float:
        inside.bench.containment = containment
        began = time.perf_counter()
        for _ in range(10):
            request = inside.bench.request("/bin/true", cwd=str(inside.worktree))
            assert asyncio.run(inside.bench.runner().command(request)).status == 0
        return (time.perf_counter() - began) * 100

    contained = inside.bench.containment
    print(f"\na start: {timed(None):.0f} ms, contained {timed(contained):.0f} ms")
