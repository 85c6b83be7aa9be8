"""A call across capabilities is refused: every line of the tables is planted where it does not belong, and found there."""

from collections.abc import Collection
from pathlib import Path

import pytest

from tests.house.capabilities import DONE_IN, HELD_BY, MADE_BY, Capability, Deed, breaches
from tests.house.source import PROJECT, Breach

ROOMS = (
    "runner/cli/",
    "runner/coordinator/",
    "runner/admission/",
    "runner/interpreter/",
    "runner/ledger/",
    "runner/invocation/",
    "hosts/langgraph/",
    "hosts/operations/",
    "providers/openai/",
    "custody/",
)


def planted(tree: Path, where: str, code: str) -> list[Breach]:
    """What the check says of a tree that holds only ``code`` in the file ``where``."""
    file = tree / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code, "utf-8")
    return list(breaches(tree))


def stranger(places: Collection[str]) -> str:
    """A file in a room that is not one of ``places``."""
    return next(room for room in ROOMS if room not in places) + "planted.py"


def holder(places: Collection[str]) -> str:
    """A file that is one of ``places`` or below it."""
    first = next(iter(places))
    return first + "planted.py" if first.endswith("/") else first


def test_the_project_keeps_to_its_capabilities() -> None:
    """Nothing in the four packages uses what it may not."""
    assert not list(breaches(PROJECT))


@pytest.mark.parametrize(
    ("where", "code", "names"),
    [
        ("runner/coordinator/x.py", "def f(work): return work.begin(1)", "begin"),
        ("runner/coordinator/x.py", "async def f(work): await to_thread(work.settle, 1)", "settle"),
        ("runner/coordinator/x.py", "from runner.contract.ports import Workspaces", "Workspaces"),
        ("runner/coordinator/x.py", "async def f(x): await x.invoke(1)", "invoke"),
        ("runner/coordinator/x.py", "async def f(x): await x.command(1)", "command"),
        ("hosts/langgraph/x.py", "def f(custody): custody.preserve()", "preserve"),
        ("hosts/langgraph/x.py", "def f(custody): return getattr(custody, 'publish')()", "publish"),
        ("hosts/langgraph/x.py", "async def f(x): await x.retire('d')", "retire"),
        ("hosts/langgraph/x.py", "from runner.contract.ports import InvocationControl as C", "InvocationControl"),
        ("runner/invocation/x.py", "from runner.contract import ports\nX = ports.Workspaces", "Workspaces"),
        ("runner/invocation/x.py", "def f(case): return case.ledger.writer('custody')", "writer"),
        ("providers/openai/x.py", "from runner.contract.ports import LedgerWriter", "LedgerWriter"),
        ("providers/openai/x.py", "from runner.contract.ports import Workspaces", "Workspaces"),
        ("runner/cli/x.py", "from custody.custodian import Custodian\nCustodian()", "Custodian"),
        ("runner/cli/x.py", "import custody.custodian as c\nc.Custodian()", "Custodian"),
        ("providers/openai/x.py", "import subprocess as s\ns.run(['ls'])", "subprocess"),
        ("runner/invocation/x.py", "from asyncio import create_subprocess_exec as go", "create_subprocess_exec"),
        ("custody/x.py", "import os\nos.fork()", "os.fork"),
        ("runner/coordinator/x.py", "import datetime as dt\nX = dt.datetime.now(dt.UTC)", "datetime.datetime.now"),
        ("runner/coordinator/x.py", "from datetime import datetime\nX = datetime.now", "datetime.datetime.now"),
        ("hosts/langgraph/x.py", "import asyncio\nasync def f(): await asyncio.sleep(1)", "asyncio.sleep"),
        ("runner/interpreter/x.py", "import random", "random"),
        ("runner/interpreter/x.py", "X = eval('1')", "eval"),
        ("providers/openai/x.py", "import os\nX = os.environ['KEY']", "os.environ"),
    ],
)
def test_a_planted_call_across_capabilities_is_refused(tmp_path: Path, where: str, code: str, names: str) -> None:
    """Called, passed on, imported under another name or fetched by a literal: the room, line and rule are named."""
    found = planted(tmp_path, where, code)
    assert found
    assert all(breach.place.startswith(f"{where}:") and breach.fix for breach in found)
    assert any(names in breach.rule for breach in found)


@pytest.mark.parametrize(
    "code",
    [
        "import re\nX = re.compile('a')",
        "def f(seen): seen.discard(1)",
        "from runner.contract import effects\nX = effects.begin",
        "def publish(): ...",
        "def f(request): return request.command",
        "def f(closing): return closing.settle()",
        "def f(store): return store.writer()",
        "import datetime as dt\nX = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)",
        "class Runner: ...\nX = Runner",
    ],
)
def test_what_only_looks_alike_is_not_refused(tmp_path: Path, code: str) -> None:
    """The check is about operations on what was handed over, and about deeds."""
    assert not planted(tmp_path, "runner/interpreter/planted.py", code)


@pytest.mark.parametrize("name", MADE_BY)
def test_a_door_is_built_only_where_it_belongs(tmp_path: Path, name: str) -> None:
    """Refused for a stranger, silent at home."""
    assert planted(tmp_path / "a", stranger(MADE_BY[name]), f"X = {name}()")
    assert not planted(tmp_path / "b", holder(MADE_BY[name]), f"X = {name}()")


@pytest.mark.parametrize("capability", HELD_BY, ids=lambda c: c.name)
def test_a_capability_is_used_only_by_its_holders(tmp_path: Path, capability: Capability) -> None:
    """Every protocol and every operation of the table: refused for a stranger, silent for a holder."""
    lines = [f"from runner.contract.ports import {protocol}" for protocol in capability.protocols]
    lines += [f"X = given.{operation}" for operation in capability.operations]
    lines += [f"given.{operation}(1)" for operation in capability.calls]
    for number, line in enumerate(lines):
        assert planted(tmp_path / f"a{number}", stranger(capability.holders), line), line
        assert not planted(tmp_path / f"b{number}", holder(capability.holders), line), line


@pytest.mark.parametrize("deed", DONE_IN, ids=lambda d: d.name)
def test_a_deed_is_done_only_in_its_places(tmp_path: Path, deed: Deed) -> None:
    """Every use of the table: refused for a stranger, silent in its places."""
    for number, use in enumerate(deed.uses):
        package, _, name = use.rpartition(".")
        builtin = f"X = {use}" if use in ("eval", "exec", "compile", "__import__") else f"import {use}"
        line = f"from {package} import {name}" if package else builtin
        assert planted(tmp_path / f"a{number}", stranger(deed.places), line), line
        if deed.places:
            assert not planted(tmp_path / f"b{number}", holder(deed.places), line), line
