"""Tools in Python: an installed entry point of group ``runner.tools``, named by the config, never discovered.

They run inside the driver, as the embedding parent's own code; a tool that blocks, blocks the Runner.
"""

import asyncio
from collections.abc import Callable
from importlib import metadata
from typing import Any, Final

from providers.tool_servers.live import TOOLS_MAX, Lost, Unreachable
from providers.tool_servers.results import offered
from runner.contract.canonical import FrozenJson, canonical, freeze, thaw
from runner.contract.ids import Digest
from runner.contract.ports import OfferedTool, PythonTool
from runner.contract.provider import ToolOutcome
from runner.contract.text import excerpt

GROUP: Final = "runner.tools"
LET_GO_S: Final = 2.0


class PythonServer:
    """``live.LiveServer`` over the tools that one entry point gives. They are what they were when it was loaded."""

    def __init__(self, name: str, redact: Callable[[str], str]) -> None:
        """``Unreachable`` when there is no such entry point, it cannot be loaded, or gives no tools."""
        self._tools = {tool.name: tool for tool in _load(name)}
        self._offered = tuple(offered(t.name, t.description, t.parameters, redact) for t in self._tools.values())

    @property
    def is_alive(self) -> bool:
        return True

    async def tools(self) -> tuple[OfferedTool, ...]:
        return self._offered

    async def call(self, remote: str, arguments: FrozenJson, *, key: Digest, timeout_s: float) -> ToolOutcome | Lost:
        task = asyncio.create_task(_run(self._tools[remote], thaw(arguments), key))
        try:
            await asyncio.wait({task}, timeout=timeout_s)
            if not task.done():
                return Lost(why=f"it did not end within {timeout_s:g} s", broken=False)
            return _outcome(task)
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=LET_GO_S)

    async def close(self) -> None:
        """There is nothing to end."""


def _load(name: str) -> tuple[PythonTool, ...]:
    found = metadata.entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(sorted(metadata.entry_points(group=GROUP).names)) or "none"
        raise Unreachable(f"no entry point {name!r} of group {GROUP} is installed; installed are: {known}")
    try:
        tools = tuple(next(iter(found)).load()())
    except Exception as error:  # foreign code, at its start
        raise Unreachable(f"the entry point {name!r} broke with {type(error).__qualname__}: {error}") from error
    if not all(isinstance(tool, PythonTool) for tool in tools) or len(tools) > TOOLS_MAX:
        raise Unreachable(f"the entry point {name!r} does not give PythonTool values")
    return tools


async def _run(tool: PythonTool, arguments: Any, key: Digest) -> object:
    return await tool.run(arguments, key=key)


def _outcome(task: "asyncio.Task[object]") -> ToolOutcome:
    if task.cancelled():
        return ToolOutcome(ok=False, text="it was cancelled")
    error = task.exception()
    if error is not None:
        return ToolOutcome(ok=False, text=f"{type(error).__qualname__}: {excerpt(str(error), 4_000)}")
    value = task.result()
    try:
        return ToolOutcome(ok=True, text=value if isinstance(value, str) else canonical(freeze(value)).decode())
    except ValueError as problem:
        return ToolOutcome(ok=False, text=f"it ended, but what it gave is no JSON value: {problem}")
