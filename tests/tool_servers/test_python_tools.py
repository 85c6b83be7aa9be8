"""Tools in Python, from an installed entry point that the config names."""

from pathlib import Path

import pytest

from runner.contract.config import ToolServerConfig
from runner.contract.errors import EnvironmentFault
from runner.contract.ports import ToolUnknown
from runner.contract.provider import ToolOutcome
from tests.tool_servers.bench import KEY, bench

MODULE = """
import asyncio
from runner.contract.ports import PythonTool

async def add(arguments, *, key):
    return {"sum": arguments["a"] + arguments["b"], "key": key}

async def fail(arguments, *, key):
    raise KeyError("no such thing")

async def hang(arguments, *, key):
    await asyncio.Event().wait()

async def odd(arguments, *, key):
    return {1, 2}

def tools():
    schema = {"type": "object"}
    return [PythonTool(name=f.__name__, description="", parameters=schema, run=f) for f in (add, fail, hang, odd)]

def nothing():
    return ["not a tool"]
"""
POINTS = "[runner.tools]\nmath = planted_tools:tools\nbroken = planted_tools:gone\nodd = planted_tools:nothing\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with entry points, as an installer leaves it."""
    info = tmp_path / "planted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "planted_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


async def test_tools_are_called_with_arguments_and_key(installed: Path) -> None:
    """A JSON value comes back as canonical JSON; what a tool raises, and what is no JSON, is its failure."""
    async with bench(installed, ToolServerConfig(key="python", entry_point="math")) as b:
        add, fail, odd = [await b.admit(name, "external", server="python") for name in ("add", "fail", "odd")]
        result = await b.servers.call(add, {"a": 1, "b": 2}, key=KEY, timeout_s=20.0)
        assert result == ToolOutcome(ok=True, text=f'{{"key":"{KEY}","sum":3}}')
        assert await b.call(fail) == ToolOutcome(ok=False, text="KeyError: 'no such thing'")
        broken = await b.call(odd)
        assert isinstance(broken, ToolOutcome) and not broken.ok and "no JSON value" in broken.text


async def test_a_tool_that_does_not_end(installed: Path) -> None:
    """Unknown when it has effects outside; failed when it may be called again."""
    async with bench(installed, ToolServerConfig(key="python", entry_point="math")) as b:
        assert isinstance(await b.call(await b.admit("hang", "external", server="python"), timeout_s=0.05), ToolUnknown)
        hung = await b.call(await b.admit("hang", "read", server="python"), timeout_s=0.05)
        assert isinstance(hung, ToolOutcome) and not hung.ok


@pytest.mark.parametrize(
    ("point", "why"),
    [("absent", "installed are: broken, math, odd"), ("broken", "AttributeError"), ("odd", "PythonTool values")],
)
async def test_an_entry_point_that_cannot_be_used(installed: Path, point: str, why: str) -> None:
    """The fault names the server and why."""
    async with bench(installed, ToolServerConfig(key="python", entry_point=point)) as b:
        with pytest.raises(EnvironmentFault, match=why):
            await b.servers.offers("python")
