"""The door: the tool servers of one Runner, each started when it is first used."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from providers.tool_servers.live import LiveServer, Lost, Unreachable
from runner.contract.activation import DeclaredTool
from runner.contract.canonical import FrozenJson
from runner.contract.config import ToolServerConfig
from runner.contract.errors import CallerError, Code, EnvironmentFault, ProviderError
from runner.contract.ids import Digest
from runner.contract.ports import OfferedTool, ToolUnknown
from runner.contract.provider import Credentials, ToolOutcome
from runner.contract.text import excerpt

TOLD_CHARS_MAX: Final = 2_000
REPEATABLE: Final = ("read", "idempotent")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Configured:
    config: ToolServerConfig
    credentials: Credentials | None
    lock: asyncio.Lock


class ToolServers:
    """``ports.DeclaredTools``. Closed once, with the Runner; then every server and what it started has ended."""

    def __init__(
        self,
        servers: tuple[ToolServerConfig, ...],
        credentials: Mapping[str, Credentials],
        redact: Callable[[str], str],
    ) -> None:
        """``credentials`` by the keys of ``servers``; ``redact`` takes every known secret out of a text."""
        self._servers = {
            s.key: _Configured(config=s, credentials=credentials.get(s.key), lock=asyncio.Lock()) for s in servers
        }
        self._redact = redact
        self._live: dict[str, LiveServer] = {}
        self._closed = False

    async def offers(self, key: str) -> tuple[OfferedTool, ...]:
        """What the server offers now. Errors as of ``ready``."""
        try:
            return await (await self._server(key)).tools()
        except Unreachable as error:
            raise self._unreachable(key, str(error)) from None

    async def ready(self, tool: DeclaredTool) -> None:
        """See ``ports.DeclaredTools``."""
        await self._checked(tool)

    async def call(
        self, tool: DeclaredTool, arguments: FrozenJson, *, key: Digest, timeout_s: float
    ) -> ToolOutcome | ToolUnknown:
        """See ``ports.DeclaredTools``."""
        result = await (await self._checked(tool)).call(tool.remote, arguments, key=key, timeout_s=timeout_s)
        if isinstance(result, Lost) and result.broken and tool.effect in REPEATABLE:
            try:
                server = await self._checked(tool)
            except EnvironmentFault as error:
                return ToolOutcome(ok=False, text=f"{tool.name}: {error.message}")
            result = await server.call(tool.remote, arguments, key=key, timeout_s=timeout_s)
        if not isinstance(result, Lost):
            return result
        why = f"the tool server {tool.server}: {self._shown(result.why)}"
        return ToolOutcome(ok=False, text=why) if tool.effect in REPEATABLE else ToolUnknown(why=why)

    async def aclose(self) -> None:
        """Ends every server. Idempotent."""
        self._closed = True
        live = tuple(self._live.values())
        self._live.clear()
        await asyncio.gather(*(server.close() for server in live))

    async def _checked(self, tool: DeclaredTool) -> LiveServer:
        """The server, if what it offers under the tool's name is what was admitted."""
        key = tool.server
        for last in (False, True):
            server = await self._server(key)
            try:
                offer = next((o for o in await server.tools() if o.remote == tool.remote), None)
                break
            except Unreachable as error:
                # A session may have ended since its last use; a new one says whether the server is there.
                if last:
                    raise self._unreachable(key, str(error)) from None
        if offer is None or offer.digest != tool.digest:
            raise self._drifted(tool, offer)
        return server

    async def _server(self, key: str) -> LiveServer:
        configured = self._servers.get(key)
        if configured is None:
            known = ", ".join(self._servers) or "none"
            raise CallerError(
                Code.TOOL_SERVER_UNKNOWN,
                f"the tool server {key!r:.80} is not configured",
                remedy=f"add [tool_servers.{key}] to the config; configured are: {known}",
            )
        async with configured.lock:
            server = self._live.get(key)
            if server is not None and server.is_alive:
                return server
            if server is not None:
                await server.close()
                del self._live[key]
            try:
                if self._closed:
                    raise Unreachable("the Runner is closing")
                self._live[key] = await self._started(configured)
            except Unreachable as error:
                raise self._unreachable(key, str(error)) from None
            return self._live[key]

    async def _started(self, configured: _Configured) -> LiveServer:
        config, credentials = configured.config, configured.credentials
        if config.entry_point is not None:
            from providers.tool_servers.python_tools import PythonServer  # noqa: PLC0415 - imports half a second of SDK

            return PythonServer(config.entry_point, self._redact)
        from providers.tool_servers import http, session, stdio  # noqa: PLC0415 - imports half a second of SDK

        secret: str | None = None
        if credentials is not None:
            with credentials.lease() as leased:
                secret = leased
        words = stdio.LastWords()
        if config.url is not None:
            streams = http.http_streams(config.url, secret)
        else:
            declared = {config.credential_env: secret} if config.credential_env and secret else {}
            argv = config.command
            streams = stdio.stdio_streams(argv, declared, words)
        opened = session.McpSession(streams, words.__str__, self._redact, metadata.version("m02-runner"))
        try:
            await opened.start()
        except asyncio.CancelledError:
            await opened.close()
            raise
        return opened

    def _shown(self, text: str) -> str:
        return excerpt(self._redact(text), TOLD_CHARS_MAX)

    def _unreachable(self, key: str, why: str) -> EnvironmentFault:
        return EnvironmentFault(
            Code.TOOL_SERVER_UNREACHABLE,
            f"the tool server {key} cannot be used: {self._shown(why)}",
            remedy=f"see [tool_servers.{key}] in the config, and 'runner tools'",
        )

    def _drifted(self, tool: DeclaredTool, offer: OfferedTool | None) -> ProviderError:
        found = "does not offer it any more" if offer is None else f"describes it otherwise now ({offer.digest})"
        return ProviderError(
            Code.BINDING_DRIFT,
            f"tool {tool.name}: the tool server {tool.server} {found}; {tool.remote} was admitted as {tool.digest}",
            remedy="put the server back, or look at the tool with 'runner tools' and admit the workflow anew",
        )
