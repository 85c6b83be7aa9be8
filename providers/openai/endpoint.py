"""langchain-openai against one explicit endpoint, with everything ambient shut out."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI

from providers.openai.settings import Settings

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S: Final = 30.0
USER_AGENT: Final = "m02-runner"
_SENT: Final = frozenset({"host", "content-type", "content-length", "accept", "accept-encoding", "connection"})
"""The headers of the HTTP client that reach the endpoint. Everything else on the wire is the config's or ours."""


class Endpoint(ChatOpenAI):
    """``ChatOpenAI`` that sends the messages it is given, and hands over the chunks as they came.

    Used through ``chunks`` only, which asks for no callback and therefore traces nowhere, whatever the environment says.
    """

    async def chunks(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], body: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """One streamed call. ``body`` has further fields of the request. Raises what the SDK raises."""
        more: dict[str, Any] = {"wire_messages": messages}
        if tools:
            more["tools"] = tools
        if body:
            more["extra_body"] = body
        stream = BaseChatOpenAI._astream(self, [], stream_usage=True, **more)
        async with aclosing(stream) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield (chunk.generation_info or {})["raw"]

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        messages = kwargs.pop("wire_messages")
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        return {**payload, "messages": messages}

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=AIMessageChunk(content=""), generation_info={"raw": chunk})


def endpoint(
    settings: Settings, client: "httpx2.AsyncClient", *, model: str, sampling: dict[str, Any], secret: str | None
) -> Endpoint:
    """For one call with one leased secret; cheap, and dropped after the call. Everything the libraries would otherwise
    take from the environment is set."""

    async def key() -> str:
        return secret or "none"

    return Endpoint(
        model=model,
        base_url=settings.base_url,
        api_key=key,
        # A header of our own, because one in OPENAI_CUSTOM_HEADERS would win over the key.
        default_headers={"Authorization": f"Bearer {secret or 'none'}"},
        organization="none",
        openai_proxy=None,
        max_retries=0,
        timeout=settings.request_timeout_s,
        http_async_client=client,
        http_socket_options=(),
        stream_chunk_timeout=None,
        stream_usage=True,
        use_responses_api=False,
        output_version="v0",
        cache=False,
        verbose=False,
        **sampling,
    )


def http_client(settings: Settings, *, authorized: bool) -> "httpx2.AsyncClient":
    """The realm's HTTP client: no proxy, certificate or ``.netrc`` of the environment, no redirect, and on the wire only
    the headers that the config knows (``OPENAI_CUSTOM_HEADERS`` and the like would add theirs)."""
    timeout = openai.Timeout(settings.request_timeout_s, connect=min(CONNECT_TIMEOUT_S, settings.request_timeout_s))
    return openai.DefaultAsyncHttpxClient(
        trust_env=False,
        follow_redirects=False,
        timeout=timeout,
        event_hooks={"request": [_only_declared(settings, authorized=authorized)]},
    )


def _only_declared(settings: Settings, *, authorized: bool) -> Callable[["httpx2.Request"], Awaitable[None]]:
    kept = _SENT | {"authorization"} if authorized else _SENT

    async def declare(request: "httpx2.Request") -> None:
        for name in set(request.headers) - kept:
            del request.headers[name]
        request.headers.update({"user-agent": USER_AGENT, **settings.headers})

    return declare
