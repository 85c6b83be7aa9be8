"""Tools beyond the worktree's own: what a tool server offers, and calls of what was admitted of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from runner.contract.activation import DeclaredTool, tool_digest
from runner.contract.canonical import FrozenJson
from runner.contract.ids import Digest
from runner.contract.provider import ToolOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as its server describes it now, made safe to show."""

    remote: str
    description: str
    parameters: FrozenJson

    @property
    def digest(self) -> Digest:
        """What ``DeclaredTool.digest`` freezes of it."""
        return tool_digest(self.remote, self.description, self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A tool in Python, offered by an installed entry point of group ``runner.tools``."""

    name: str
    description: str
    parameters: FrozenJson
    """JSON Schema of its arguments, an object."""
    run: Callable[..., Awaitable[object]]
    """A coroutine function, called ``run(arguments, key=...)``: a JSON object that fits ``parameters``, and the effect key to
    use as an idempotency key. It answers with a text or a JSON value; what it raises is the tool's failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUnknown:
    """The call was made, and nobody saw how it ended. For tools with effects outside: it is not made again."""

    why: str


class DeclaredTools(Protocol):
    """The admitted tools of tool servers. A server is started when it is first used and lives as long as the Runner."""

    async def ready(self, tool: DeclaredTool) -> None:
        """Returns when ``tool`` can be called: its server answers and describes it exactly as it was admitted. Without an
        effect of the tool. ``EnvironmentFault`` (tool-server-unreachable), ``ProviderError`` (binding-drift), ``CallerError``
        (tool-server-unknown, secret-unreadable)."""
        ...

    async def call(
        self, tool: DeclaredTool, arguments: FrozenJson, *, key: Digest, timeout_s: float
    ) -> ToolOutcome | ToolUnknown:
        """One call. ``arguments`` fit ``tool.parameters``; ``key`` is the effect key, handed on as an idempotency key. What the
        server calls an error is a failed ``ToolOutcome``. A ``read`` or ``idempotent`` call whose connection broke is made once
        more under the same key, and has failed if that does not help; an ``external`` one without an end is ``ToolUnknown``.
        The text is as the server gave it: whoever journals or shows it screens it first. Raises what ``ready`` raises, and
        then nothing was called. When cancelled, the call's end is not known."""
        ...
