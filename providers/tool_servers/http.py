"""A server at a URL: streamable HTTP, ambient settings ignored, answers bounded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from providers.tool_servers.live import MESSAGE_BYTES_MAX, Streams

CONNECT_S: Final = 10.0


@asynccontextmanager
async def http_streams(url: str, token: str | None) -> AsyncIterator[Streams]:
    """Proxies and other settings of the environment are ignored, redirects to another origin are not followed."""
    headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
    async with (
        httpx2.AsyncClient(
            headers=headers,
            transport=_Bounded(httpx2.AsyncHTTPTransport()),
            trust_env=False,
            timeout=httpx2.Timeout(CONNECT_S, read=None),
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """Refuses compressed answers, whose size nobody knows, and breaks off answers that are too large."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("a compressed answer was not asked for")
        # An event stream may be endless; each of its events is bounded by whoever reads them.
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: object) -> None:
        if not isinstance(inner, httpx2.AsyncByteStream):
            raise TypeError("a response of an asynchronous transport")
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MESSAGE_BYTES_MAX:
                raise httpx2.ReadError(f"an answer of more than {MESSAGE_BYTES_MAX} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
