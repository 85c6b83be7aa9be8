"""A caller that is handed a narrow protocol cannot reach more: the type checker refuses it.

All snippets stand in one file, so that the type checker runs once.
"""

import re
import subprocess
import sys

import pytest

from tests.house.source import PROJECT

HEAD = """\
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import Digest
from runner.contract.outcomes import Publication, Retirement
from runner.contract.ports import *
from runner.contract.provider import Credentials, NativeSession, ProviderFactory, Realm, Toolbox
from runner.contract.config import RunnerFactoryConfig
from runner.contract.activation import Activation

D = Digest("sha256:" + "0" * 64)
"""

REFUSED = {
    "the host publishes": "def f(x: Workspaces) -> None: x.publish(requested=True)",
    "the host preserves": "def f(x: Workspaces) -> None: x.preserve()",
    "the host retires custody": "def f(x: Workspaces) -> None: x.retire(D)",
    "the host takes the baseline": "def f(x: Workspaces) -> None: x.baseline()",
    "the host retires invocation": "async def f(x: ActionInvocation) -> None: await x.retire(D)",
    "the host concludes invocation": "async def f(x: ActionInvocation) -> None: await x.conclude()",
    "the coordinator begins an attempt": "def f(x: CustodyLifecycle) -> None: x.begin",
    "the coordinator settles an attempt": "def f(x: CustodyLifecycle) -> None: x.settle",
    "the coordinator discards an attempt": "def f(x: CustodyLifecycle) -> None: x.discard",
    "the coordinator invokes an agent": "async def f(x: InvocationControl) -> None: await x.invoke",
    "the coordinator runs a command": "def f(x: Rooms) -> None: x.host.command",
    "an observer cancels": "def f(x: Observer) -> None: x.cancel",
    "a reader appends": "def f(x: LedgerReader) -> None: x.append()",
    "a writer reads": "def f(x: LedgerWriter) -> None: x.read()",
    "a tool settles its own grant": "def f(x: Toolbox) -> None: x.settle",
    "a session opens another": "def f(x: NativeSession) -> None: x.open_session",
    "a clock is set": "def f(x: Clock) -> None: x.set",
    "a grant is altered": "def f(x: WorkspaceGrant) -> None: x.expires_at = 0.0",
    "a config is altered": "def f(x: RunnerFactoryConfig) -> None: x.state_root = '/'",
    "an activation is altered": "def f(x: Activation) -> None: x.delivery = 'other'",
    "a lifecycle is passed as workspaces": "def f(x: CustodyLifecycle) -> Workspaces: return x",
    "workspaces are passed as a lifecycle": "def f(x: Workspaces) -> CustodyLifecycle: return x",
    "control is passed as the right to act": "def f(x: InvocationControl) -> ActionInvocation: return x",
}

ADMITTED = {
    "the host asks for the newest savepoint": "def f(x: Workspaces) -> Savepoint: return x.current()",
    "the coordinator publishes": "def f(x: CustodyLifecycle) -> Publication: return x.publish(requested=True)",
    "the coordinator retires custody": "def f(x: CustodyLifecycle) -> Retirement: return x.retire(D)",
    "a ledger is read": "def f(x: Ledger) -> int: return x.head()",
}


def snippet(name: str, code: str) -> str:
    """One function of its own on one line, findable by its line."""
    return code.replace("def f(", "def " + re.sub(r"\W", "_", name) + "(", 1) + "\n"


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the snippets that the type checker refuses."""
    file = tmp_path_factory.mktemp("snippets") / "snippets.py"
    names = [*REFUSED, *ADMITTED]
    file.write_text(HEAD + "".join(snippet(n, c) for n, c in (REFUSED | ADMITTED).items()), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(file)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.findall(r"snippets\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert {code for _, code in found} <= {"attr-defined", "misc", "return-value"}, done.stdout
    lines = [int(number) for number, _ in found]
    first = HEAD.count("\n") + 1
    assert all(first <= line < first + len(names) for line in lines), done.stdout
    return {names[line - first] for line in lines}


@pytest.mark.parametrize("name", REFUSED)
def test_more_than_was_handed_over_cannot_be_reached(refused: set[str], name: str) -> None:
    """An operation that the protocol does not have, or another protocol in its place, is a type error."""
    assert name in refused


@pytest.mark.parametrize("name", ADMITTED)
def test_what_was_handed_over_can_be_used(refused: set[str], name: str) -> None:
    """The refusals above are about the operation, not about the way these snippets are written."""
    assert name not in refused
