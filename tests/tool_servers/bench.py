"""Tool servers over real processes, and the tools that were admitted of them."""

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from providers.tool_servers import ToolServers
from runner.contract.activation import DeclaredTool
from runner.contract.canonical import freeze
from runner.contract.config import CredentialSource, ToolServerConfig
from runner.contract.ids import Digest
from runner.contract.ports import ToolUnknown
from runner.contract.provider import Credentials, ToolOutcome

SCRIPT = Path(__file__).with_name("scripted_server.py")
SECRET = "sk-tools-secret-987654"
KEY = Digest("sha256:" + "5" * 64)


class Fixed:
    """Credentials that hold one secret."""

    def lease(self) -> AbstractContextManager[str]:
        return nullcontext(SECRET)


def scripted(home: Path, *more: str, key: str = "tracker", **fields: Any) -> ToolServerConfig:
    return ToolServerConfig(key=key, command=(sys.executable, str(SCRIPT), str(home), *more), **fields)


@dataclass
class Bench:
    """One ``ToolServers`` and what is asked of it."""

    servers: ToolServers
    home: Path
    admitted: dict[str, DeclaredTool] = field(default_factory=dict)

    async def admit(self, name: str, effect: Any = "read", server: str = "tracker") -> DeclaredTool:
        """The tool as the server describes it now."""
        offer = next(o for o in await self.servers.offers(server) if o.remote == name)
        return DeclaredTool(
            name=name,
            server=server,
            remote=name,
            description=offer.description,
            parameters=offer.parameters,
            effect=effect,
            digest=offer.digest,
        )

    async def call(
        self, tool: DeclaredTool, text: str | None = None, timeout_s: float = 20.0
    ) -> ToolOutcome | ToolUnknown:
        arguments = {} if text is None else {"text": text}
        return await self.servers.call(tool, freeze(arguments), key=KEY, timeout_s=timeout_s)

    def left(self, name: str) -> list[str]:
        """The lines that a server left outside."""
        file = self.home / name
        return file.read_text().splitlines() if file.exists() else []


@asynccontextmanager
async def bench(home: Path, *servers: ToolServerConfig, secret: bool = False) -> AsyncIterator[Bench]:
    credentials: dict[str, Credentials] = {s.key: Fixed() for s in servers if secret}
    opened = ToolServers(servers, credentials, lambda text: text.replace(SECRET, "[redacted]"))
    try:
        yield Bench(servers=opened, home=home)
    finally:
        await opened.aclose()


def from_env() -> CredentialSource:
    return CredentialSource(env="TOOLS_SECRET")
