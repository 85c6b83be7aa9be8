"""One session with one MCP server. It lives in a task of its own, because its library ties it to the task that opened it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession, IncomingMessage
from pydantic import TypeAdapter

from providers.tool_servers.live import START_S, TOOLS_MAX, Lost, Streams, Unreachable
from providers.tool_servers.results import is_refusal, offered, outcome_of
from runner.contract.canonical import FrozenJson, thaw
from runner.contract.ids import Digest
from runner.contract.ports import OfferedTool
from runner.contract.provider import ToolOutcome

KEY: Final = "idempotencyKey"
"""Where in a call's ``_meta`` the effect key stands."""
LET_GO_S: Final = 2.0
"""What a cancelled request gets to be taken back."""
CLOSE_S: Final = 15.0
_ENDED: Final = (types.CONNECTION_CLOSED, types.INVALID_REQUEST, types.PARSE_ERROR)
"""Codes of our side of the transport for a session that cannot go on."""
_RESULT: Final[TypeAdapter[types.CallToolResult]] = TypeAdapter(types.CallToolResult)

T = TypeVar("T")


class _Gone(Exception):
    """The session broke while a request was on its way."""


class McpSession:
    """``live.LiveServer`` over one pair of streams. ``words`` tells what is known of a broken connection."""

    def __init__(
        self,
        streams: AbstractAsyncContextManager[Streams],
        words: Callable[[], str],
        redact: Callable[[str], str],
        client_version: str,
    ) -> None:
        self._streams = streams
        self._words = words
        self._redact = redact
        self._client = types.Implementation(name="runner", version=client_version)
        self._closing = asyncio.Event()
        self._session: ClientSession | None = None
        self._broken = False
        self._offered: tuple[OfferedTool, ...] | None = None
        self._tells_changes = False
        self._changes = 0
        self._why = ""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live())

    @property
    def is_alive(self) -> bool:
        return not self._broken and not self._life.done()

    async def start(self) -> None:
        """``Unreachable`` when there is no session within ``START_S``; then nothing of it is left."""
        await asyncio.wait({self._ready, self._life}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        if self._session is None:
            why = self._told() if self._life.done() else f"it did not answer within {START_S:g} s"
            await self.close()
            raise Unreachable(why)

    async def tools(self) -> tuple[OfferedTool, ...]:
        """A server that promises to tell changes is asked again once it told one; any other, every time."""
        if self._offered is not None:
            return self._offered
        changes = self._changes
        try:
            async with asyncio.timeout(START_S):
                found = await self._listed()
        except (MCPError, ValueError, _Gone, TimeoutError) as error:
            self._broken = True
            raise Unreachable(f"it does not say what it offers: {self._told(error)}") from None
        if self._tells_changes and self._changes == changes:
            self._offered = found
        return found

    async def _listed(self) -> tuple[OfferedTool, ...]:
        found: list[OfferedTool] = []
        cursor: str | None = None
        while True:
            page = await self._request(self._page(cursor))
            found += (offered(t.name, t.description or "", t.input_schema, self._redact) for t in page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found)
            if len(found) > TOOLS_MAX or not page.tools:
                raise Unreachable(f"it offers more than {TOOLS_MAX} tools, or lists them without an end")

    async def call(self, remote: str, arguments: FrozenJson, *, key: Digest, timeout_s: float) -> ToolOutcome | Lost:
        params = types.CallToolRequestParams(name=remote, arguments=thaw(arguments), _meta={KEY: key})
        request = self._live_session.send_request(types.CallToolRequest(params=params), _RESULT)
        try:
            async with asyncio.timeout(timeout_s):
                return outcome_of(await self._request(request))
        except TimeoutError:
            return Lost(why=f"it did not answer within {timeout_s:g} s", broken=False)
        except MCPError as error:
            if is_refusal(error.code):
                return ToolOutcome(ok=False, text=error.message)
            self._broken = self._broken or error.code in _ENDED
            return Lost(why=self._told(error), broken=self._broken)
        except _Gone:
            return Lost(why=self._told(), broken=True)
        except ValueError:
            self._broken = True
            return Lost(why="its answer is no tool result", broken=True)

    async def close(self) -> None:
        self._broken = True
        self._closing.set()
        _, alive = await asyncio.wait({self._life}, timeout=CLOSE_S)
        if alive:
            self._life.cancel()
            await asyncio.wait({self._life})

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            async with (
                self._streams as (incoming, outgoing),
                ClientSession(incoming, outgoing, message_handler=self._hear, client_info=self._client) as session,
            ):
                result = await session.initialize()
                tools = result.capabilities.tools
                self._tells_changes = tools is not None and tools.list_changed is True
                self._session = session
                self._ready.set_result(None)
                await self._closing.wait()
        except Exception as error:  # whatever a transport and its libraries raise, in groups: there is no session
            self._why = _innermost(error)
        finally:
            self._broken = True

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changes += 1
            self._offered = None

    @property
    def _live_session(self) -> ClientSession:
        if self._session is None:
            raise RuntimeError("not started")
        return self._session

    def _page(self, cursor: str | None) -> Awaitable[types.ListToolsResult]:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        return self._live_session.list_tools(params=params)

    async def _request(self, asking: Awaitable[T]) -> T:
        """``asking``'s answer; ``_Gone`` when the session ends first. Let go of, it is not waited for without an end."""
        task = asyncio.ensure_future(asking)
        try:
            await asyncio.wait({task, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=LET_GO_S)
            if not task.done():
                raise _Gone
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=LET_GO_S)
            if task.done() and not task.cancelled():
                task.exception()

    def _told(self, error: BaseException | None = None) -> str:
        told = self._words() or self._why
        said = f"{error.message}" if isinstance(error, MCPError) else _innermost(error) if error is not None else ""
        return "; ".join(part for part in (said, told) if part) or "the connection broke"


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error) or type(error).__qualname__
