"""Who may do what: a caller gets only the operations that it may use, and the world is touched in few named places.

Four tables, read by one walk over the syntax of the four packages. They are the reviewable list of who holds which
capability; to give a room a new one, change the table and say why in the same commit.

- ``MADE_BY``: the doors of the rooms, and the one place that builds each.
- ``HELD_BY``: the protocols by which rooms meet, and the operations on them.
- ``DONE_IN``: processes, time, chance, the environment, the network, code from data.

Types do the rest: mypy refuses an operation that a protocol does not have (tests/house/test_protocols.py). Not seen here: a
name that is built at run time and handed to ``getattr``.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.house.source import Breach, Module, modules


@dataclass(frozen=True, kw_only=True)
class Capability:
    """What only ``holders`` may name (``protocols``), use in any way (``operations``), and call with something or pass on
    to be called (``calls``: words that other things are called by, too)."""

    name: str
    protocols: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    holders: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Deed:
    """Something done to the world outside, by qualified name, and where it may be done."""

    name: str
    uses: tuple[str, ...]
    places: Mapping[str, str]
    """File or folder (``name/``) -> why there."""
    instead: str


FACTORY: Final = "runner/factory.py"

MADE_BY: Final[dict[str, tuple[str, ...]]] = {
    "Coordinator": (FACTORY,),
    "Custodian": (FACTORY,),
    "Invocation": (FACTORY,),
    "Registry": (FACTORY,),
    "CommandRunner": (FACTORY,),
    "WorkspaceToolbox": (FACTORY,),
    "ToolServers": (FACTORY,),
    "open_host": (FACTORY,),
    "SystemClock": (FACTORY,),
    "GrantKey": (FACTORY,),
    "Runner": (FACTORY,),
    "WorkspaceGrant": ("custody/",),
    "OpenAiFactory": ("providers/catalogue.py",),
    "RecordedFactory": ("providers/catalogue.py",),
}

# ``Workspaces.discard`` is missing on purpose: sets have it too. A room without ``Workspaces`` has none to call it on.
HELD_BY: Final = (
    Capability(
        name="the workspace, per attempt",
        protocols=("Workspaces",),
        operations=("begin",),
        calls=("settle",),
        holders=("hosts/langgraph/", "custody/"),
    ),
    Capability(
        name="the lifecycle of custody",
        protocols=("CustodyLifecycle",),
        operations=("baseline", "settle_interrupted", "preserve", "publish"),
        holders=("runner/coordinator/", "custody/"),
    ),
    Capability(
        name="running actions",
        protocols=("ActionInvocation",),
        operations=("invoke",),
        holders=("hosts/langgraph/", "runner/invocation/"),
    ),
    Capability(
        name="control over invocation",
        protocols=("InvocationControl",),
        operations=("conclude",),
        holders=("runner/coordinator/", "runner/invocation/"),
    ),
    Capability(
        name="deterministic operations",
        protocols=("Operations",),
        calls=("command",),
        holders=("hosts/langgraph/", "hosts/operations/", "runner/invocation/command_tool.py", "runner/cli/"),
        # the command line: typer's decorator
    ),
    Capability(
        name="driving the host",
        protocols=("WorkflowHost",),
        operations=("drive",),
        holders=("runner/coordinator/", "hosts/langgraph/"),
    ),
    Capability(name="retiring an owner", operations=("retire",), holders=("runner/coordinator/",)),
    Capability(
        name="assembling rooms",
        protocols=("Assembly", "Rooms"),
        operations=("rooms",),
        holders=(FACTORY, "runner/coordinator/"),
    ),
    Capability(name="an owner's pen", calls=("writer",), holders=(FACTORY, "runner/coordinator/")),
    Capability(
        name="the ledger",
        protocols=("Ledger", "LedgerReader", "LedgerWriter", "Artifacts"),
        operations=("artifacts",),
        holders=("runner/ledger/", "runner/coordinator/", "runner/invocation/", "hosts/", "custody/"),
    ),
    Capability(
        name="the tools under a grant",
        protocols=("Toolbox",),
        holders=("runner/invocation/", "providers/workspace_tools/", "providers/workspace_tools.py"),
    ),
    Capability(
        name="the tools of servers",
        protocols=("DeclaredTools",),
        holders=("runner/invocation/", "hosts/", "providers/tool_servers/"),
    ),
    Capability(
        name="secrets", protocols=("Credentials",), operations=("lease",), holders=("runner/invocation/", "providers/")
    ),
)

CONTRACT: Final = "runner/contract/"

DONE_IN: Final = (
    Deed(
        name="starting a process",
        uses=(
            *("subprocess", "multiprocessing", "pty", "os.fork", "os.forkpty", "os.system", "os.popen"),
            *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "os.posix_spawn", "os.posix_spawnp"),
            *(
                f"os.{verb}{form}"
                for verb in ("exec", "spawn")
                for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
            ),
        ),
        places={
            "custody/git.py": "git",
            "runner/admission/worktree.py": "git, for the parent's worktree",
            "runner/admission/setup.py": "the package's setup, before there is a Delivery",
            "hosts/operations/": "supervised commands",
            "providers/tool_servers/": "tool servers, each behind a guard of its own",
        },
        instead="ask for it through Operations.command, or through the one file of the room that runs git",
    ),
    Deed(
        name="signalling a process",
        uses=("os.kill", "os.killpg", "signal.pidfd_send_signal", "ctypes"),
        places={
            "hosts/operations/": "ends what it started",
            "providers/tool_servers/": "ends what it started",
            "custody/git.py": "ends a git that does not end, with its transport helpers",
            "runner/coordinator/fence.py": "signal 0: whether a holder lives",
            "runner/coordinator/processes.py": "ends what a dead or overtaken driver left, if it is the very same",
            "runner/admission/setup.py": "ends what it started",
        },
        instead="let the supervisor end what it started",
    ),
    Deed(
        name="reading the machine's time",
        uses=(
            *("time", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "asyncio.sleep"),
            "datetime.date.today",
        ),
        places={
            "runner/clock.py": "the clock itself",
            "runner/cli/": "shows a person how long something has taken",
            "runner/coordinator/observation.py": "how long a real thread may take to hear the rest",
            "runner/coordinator/processes.py": "how long a real process may take to end",
            "hosts/operations/supervisor.py": "a process of its own, outside any injected clock",
            "providers/tool_servers/guard.py": "a process of its own, outside any injected clock",
            "custody/": "compared with the stamps of files; how long a real git process may take",
            "providers/openai/session.py": "a Retry-After that is a date",
        },
        instead="use the Clock that the factory hands over: tests must never wait, and a replay must see the same time",
    ),
    Deed(
        name="drawing a random value",
        uses=("random", "uuid", "secrets", "os.urandom"),
        places={
            FACTORY: "the grant key",
            "custody/": "nonces of grants, names of temporary files",
            "providers/workspace_tools/": "names of temporary files",
            "runner/coordinator/fence.py": "tells two holders apart, for messages",
        },
        instead="derive the value from ids that are already there, or have the factory hand it over",
    ),
    Deed(
        name="reading the environment",
        uses=("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv"),
        places={
            "runner/cli/": "RUNNER_CONFIG, the terminal",
            "runner/invocation/credentials.py": "secrets from the variable that the config names",
            "runner/invocation/registry.py": "hands the environment to the credentials",
            "runner/admission/worktree.py": "git's own needs, by allow-list",
            "runner/admission/setup.py": "the package's setup, by allow-list",
            "custody/git.py": "git's own needs, by allow-list",
            "custody/ignore.py": "where git looks for the user's ignore rules",
            "hosts/operations/": "the clean environment of a command, by allow-list",
            "providers/tool_servers/": "the clean environment of a tool server, by allow-list",
        },
        instead="take the value from the config: what a Delivery means must not depend on a shell",
    ),
    Deed(
        name="opening a connection",
        uses=(
            *(
                "socket.socket",
                "socket.socketpair",
                "socket.create_connection",
                "socket.create_server",
                "ssl.SSLContext",
            ),
            *("ssl.create_default_context", "asyncio.open_connection", "asyncio.start_server", "urllib.request"),
            *("http.client", "http.server", "ftplib", "smtplib"),
        ),
        places={"hosts/operations/": "a socket pair with its own supervisor"},
        instead="only providers talk to the outside, through their SDK",
    ),
    Deed(
        name="running code that came as data",
        uses=(
            *("eval", "exec", "compile", "__import__", "pickle", "marshal", "shelve", "runpy"),
            "importlib.metadata.entry_points",
        ),
        places={"providers/tool_servers/python_tools.py": "the entry point that the config names"},
        instead="parse it: nothing pre-built, discovered or stored may enter as code",
    ),
)

BUILTINS: Final = ("eval", "exec", "compile", "__import__")


def breaches(tree: Path) -> Iterator[Breach]:
    """Every place in the four packages that uses what it may not."""
    for module in modules(tree):
        yield from {(breach.place, breach.fix): breach for breach in _Walk(module).found()}.values()


class _Walk:
    """One file. Local names are followed to what they were imported as."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._names = dict(_imported(module.tree))

    def found(self) -> Iterator[Breach]:
        for node in ast.walk(self._module.tree):
            match node:
                case ast.Import():
                    for alias in node.names:
                        yield from self._deeds(node, alias.name)
                case ast.ImportFrom(module=str(source), level=0):
                    for alias in node.names:
                        yield from self._deeds(node, f"{source}.{alias.name}")
                        yield from self._protocols(node, alias.name)
                case ast.Attribute(attr=name):
                    yield from self._deeds(node, self._qualified(node))
                    yield from self._protocols(node, name)
                    # A function of an imported module, or of one's own self, is no operation on what was handed over.
                    if not self._qualified(node) and not _is_self(node.value):
                        yield from self._operations(node, name)
                case ast.Call(func=function):
                    yield from self._makers(node, function)
                    yield from self._calls(node, function)
                    yield from self._by_name(node)
                case ast.Name(id=name) if name in BUILTINS and name not in self._names:
                    yield from self._deeds(node, name)

    def _qualified(self, node: ast.expr) -> str:
        """``dt.datetime.now`` -> ``datetime.datetime.now``; empty where the chain does not start at an import."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name, "")
            case ast.Attribute(value=value, attr=attr):
                start = self._qualified(value)
                return f"{start}.{attr}" if start else ""
            case _:
                return ""

    def _by_name(self, node: ast.Call) -> Iterator[Breach]:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield from self._operations(node, name)

    def _calls(self, node: ast.Call, function: ast.expr) -> Iterator[Breach]:
        """``x.settle(grant)`` and ``to_thread(x.settle, grant)``."""
        called = [function, *node.args] if node.args or node.keywords else []
        for part in called:
            if isinstance(part, ast.Attribute) and not _is_self(part.value) and not self._qualified(part):
                yield from self._held(node, part.attr, "calls")

    def _makers(self, node: ast.Call, function: ast.expr) -> Iterator[Breach]:
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in MADE_BY and not self._module.under(*MADE_BY[name]):
            yield self._breach(
                node, f"{name} is built only by {_list(MADE_BY[name])}", "take the protocol that the factory hands over"
            )

    def _protocols(self, node: ast.AST, name: str) -> Iterator[Breach]:
        yield from self._held(node, name, "protocols")

    def _operations(self, node: ast.AST, name: str) -> Iterator[Breach]:
        yield from self._held(node, name, "operations")

    def _held(self, node: ast.AST, name: str, part: str) -> Iterator[Breach]:
        for capability in HELD_BY:
            if name in getattr(capability, part) and not self._module.under(*capability.holders, FACTORY, CONTRACT):
                yield self._breach(
                    node,
                    f"{name} belongs to {capability.name}, held by {_list(capability.holders)}",
                    "leave the deed to its holder, or argue for the capability in tests/house/capabilities.py",
                )

    def _deeds(self, node: ast.AST, used: str) -> Iterator[Breach]:
        for deed in DONE_IN:
            done = any(used == use or used.startswith(f"{use}.") for use in deed.uses)
            if done and not self._module.under(*deed.places):
                where = _list(deed.places) or "no place at all"
                yield self._breach(node, f"{used}: {deed.name} is done only in {where}", deed.instead)

    def _breach(self, node: ast.AST, rule: str, fix: str) -> Breach:
        return Breach(place=f"{self._module.path}:{getattr(node, 'lineno', 1)}", rule=rule, fix=fix)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local name -> qualified name, for every import anywhere in the file."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            case ast.ImportFrom(module=str(source), names=names, level=0):
                for alias in names:
                    yield alias.asname or alias.name, f"{source}.{alias.name}"


def _list(places: Iterable[str]) -> str:
    return ", ".join(places)
