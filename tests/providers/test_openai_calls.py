"""The ``openai`` provider over real HTTP against a scripted endpoint."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from providers.openai.factory import OpenAiFactory
from runner.contract.activation import Executor
from runner.contract.canonical import freeze, thaw
from runner.contract.errors import CallerError, Code
from runner.contract.events import Usage
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Correction,
    Credentials,
    Failure,
    NativeSession,
    OutputDelta,
    Prompt,
    ToolRequest,
    ToolResult,
    ToolResults,
    ToolSpec,
    TurnEnded,
)
from tests.providers.sessions import READ, SCHEMA, SECRET, Leases, dispatch, events_of, executor
from tests.servers.chunks import Call, Calls, Garbage, Raw, Result, Text
from tests.servers.scripted_openai import Dropped, Hang, Page, Redirect, Reply, Script, ScriptedOpenAi, Status, in_order

FACTORY = OpenAiFactory()
GO = Prompt(text="go")


@asynccontextmanager
async def session_with(
    *replies: Reply,
    tools: tuple[ToolSpec, ...] = (READ,),
    credentials: Credentials | None = None,
    bound: Executor | None = None,
    script: Script | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[NativeSession, ScriptedOpenAi]]:
    with ScriptedOpenAi(script or in_order(*replies)) as server:
        realm = await FACTORY.open_realm(freeze({"base_url": server.base_url, **settings}), credentials)
        session = await realm.open_session(dispatch(bound or executor(FACTORY), tools=tools))
        yield session, server
        await session.close()
        await realm.close()


async def test_a_tool_loop_keeps_everything_the_endpoint_must_see_again() -> None:
    """Reasoning, call ids and arguments go back as they came; the model that answered is the response's."""
    calls = Calls((Call("read", {"path": "é \U0001f600"}, id="call_x"),), text="Let me look.", reasoning="because")
    async with session_with(calls, Result({"answer": "yes"})) as (session, server):
        first = await events_of(session, GO)
        results = ToolResults(results=(ToolResult(id="call_x", ok=True, text="content"),))
        second = await events_of(session, results)
    assert [type(e) for e in first if not isinstance(e, OutputDelta)] == [
        CallIntent,
        CallResult,
        ToolRequest,
        TurnEnded,
    ]
    assert "".join(e.text for e in first if isinstance(e, OutputDelta)) == "Let me look."
    answer = next(e for e in first if isinstance(e, CallResult))
    assert (answer.provider, answer.model) == ("openai", "m-2026")
    assert answer.usage == Usage(input_tokens=11, output_tokens=7, cost_usd=None)
    assert second[-2:] == [Completion(value=freeze({"answer": "yes"})), TurnEnded(finish="tool_calls")]
    assert server.requests[1].body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "because",
            "tool_calls": [
                {
                    "id": "call_x",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path":"é \U0001f600"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_x", "content": "content"},
    ]


async def test_nothing_leaves_before_the_intent_is_resumed() -> None:
    """Whoever journals the intent has it durable before the endpoint can know of it; no lease is taken before either."""
    leases = Leases()
    async with session_with(Result({"answer": "x"}), credentials=leases) as (session, server):
        events = session.run(GO)
        intent = await anext(events)
        assert isinstance(intent, CallIntent) and server.requests == [] and leases.taken == 0
        rest = [event async for event in events]
    assert isinstance(rest[-1], TurnEnded) and len(server.requests) == 1
    assert (leases.taken, leases.open) == (1, 0)
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            Status(429, code="rate_limit_exceeded", retry_after="7"),
            {
                "exception": "openai.RateLimitError",
                "http_status": 429,
                "error_code": "rate_limit_exceeded",
                "retry_after_s": 7.0,
            },
        ),
        (
            Status(503, retry_after="Mon, 30 Nov 2026 12:00:09 GMT", date="Mon, 30 Nov 2026 12:00:00 GMT"),
            {"exception": "openai.InternalServerError", "http_status": 503, "retry_after_s": 9.0},
        ),
        (Status(500), {"exception": "openai.InternalServerError", "http_status": 500}),
        (Status(401, code="invalid_api_key"), {"http_status": 401, "error_code": "invalid_api_key"}),
        (Status(402, type="insufficient_balance"), {"http_status": 402, "error_code": "insufficient_balance"}),
        (Status(400, code="context_length_exceeded"), {"error_code": "context_length_exceeded"}),
        (Redirect("http://127.0.0.1:9/elsewhere"), {"http_status": 307, "error_code": "redirect"}),
        (
            Dropped(Text("a long answer"), after=2),
            {"exception": "openai.APIConnectionError", "error_code": "connection"},
        ),
        (Dropped(Text("a long answer"), after=2, how="clean"), {"error_code": "stream-ended"}),
        (Dropped(Calls((Call("read", {"path": "a"}),)), after=4, how="clean"), {"error_code": "stream-ended"}),
        (Garbage(), {"exception": "json.decoder.JSONDecodeError", "error_code": "stream-ended"}),
        (Raw(({"choices": "none"},)), {"error_code": "invalid-stream"}),
        (Raw(({"error": {"message": "busy", "code": 502}},)), {"exception": "openai.APIError", "http_status": 502}),
        (Page(), {"error_code": "stream-ended"}),
        (Text("half", finish="length"), {"error_code": "length"}),
        (Text("", finish="content_filter"), {"error_code": "refusal"}),
        (Text("", refusal="no"), {"error_code": "refusal"}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else str(value.get("error_code")),
)
async def test_every_failure_has_its_signals_and_leaves_the_session_as_it_was(
    reply: Reply, expected: dict[str, Any]
) -> None:
    """One request, one failure, and then the same turn asks the same again: nothing of the failed answer is kept."""
    async with session_with(reply, Result({"answer": "x"})) as (session, server):
        failed = await events_of(session, GO)
        again = await events_of(session, GO)
    assert isinstance(failed[-1], Failure) and not any(isinstance(e, CallResult | TurnEnded) for e in failed)
    assert {name: getattr(failed[-1], name) for name in expected} == expected
    assert len(server.requests) == 2 and server.requests[0].body == server.requests[1].body
    assert again[0] == failed[0] and isinstance(again[-1], TurnEnded)


async def test_a_call_that_hangs_ends_at_its_deadline() -> None:
    """The whole call has one deadline; a dripping or silent endpoint cannot hold a step for ever."""
    async with session_with(Hang(), Hang(silent=True), request_timeout_s=0.2) as (session, _):
        for _ in range(2):
            failed = (await events_of(session, GO))[-1]
            assert isinstance(failed, Failure) and failed.error_code == "timeout"


async def test_a_cancelled_call_travels_on_and_leaves_the_session_as_it_was() -> None:
    """The lease ends, and the same turn can be run again."""
    leases, loop, arrived = Leases(), asyncio.get_running_loop(), asyncio.Event()
    replies: list[Reply] = [Hang(), Result({"answer": "x"})]

    def script(body: Any) -> Reply:
        loop.call_soon_threadsafe(arrived.set)
        return replies.pop(0)

    async with session_with(script=script, credentials=leases) as (session, _):
        call = asyncio.create_task(events_of(session, GO))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert leases.open == 0
        assert isinstance((await events_of(session, GO))[-1], TurnEnded)


async def test_a_turn_that_nobody_reads_to_its_end_is_given_up() -> None:
    """Closing the iterator in the middle of a stream ends the lease and keeps nothing."""
    leases = Leases()
    async with session_with(Text("a long enough answer"), Result({"answer": "x"}), credentials=leases) as (
        session,
        server,
    ):
        events = session.run(GO)
        while not isinstance(await anext(events), OutputDelta):
            pass
        await events.aclose()  # type: ignore[attr-defined]
        assert leases.open == 0
        await events_of(session, GO)
    assert server.requests[0].body == server.requests[1].body


async def test_no_endpoint_is_a_failure_that_says_so() -> None:
    """A connection that cannot be made is a failed call, with the reason for people."""
    realm = await FACTORY.open_realm(freeze({"base_url": "http://127.0.0.1:9/v1"}), None)
    session = await realm.open_session(dispatch(executor(FACTORY)))
    failed = (await events_of(session, GO))[-1]
    await realm.close()
    assert isinstance(failed, Failure)
    assert (failed.exception, failed.error_code) == ("openai.APIConnectionError", "connection")
    assert "attempts failed" in failed.message or "refused" in failed.message


async def test_an_echoed_secret_stands_in_no_event_and_no_later_request() -> None:
    """Endpoints repeat keys in error messages; a hostile one repeats it anywhere, also cut in two or escaped."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in SECRET)
    replies = (
        Status(401, code="invalid_api_key", message="x" * 480 + f"Incorrect API key provided: {SECRET}"),
        Calls((Call("read", f'{{"path": "{escaped}"}}'),), text=f"key {SECRET}!", reasoning=SECRET, model=SECRET),
        Text("", refusal=SECRET),
        Result({"answer": "x"}),
    )
    async with session_with(*replies, credentials=Leases()) as (session, server):
        seen = [*await events_of(session, GO), *await events_of(session, GO)]
        results = ToolResults(results=(ToolResult(id="call_1", ok=True, text="content"),))
        seen += [*await events_of(session, results), *await events_of(session, results)]
    text = "".join(e.text for e in seen if isinstance(e, OutputDelta))
    assert text == "key [redacted]!"
    assert SECRET[:10] not in repr(seen)
    assert SECRET not in str(server.requests[3].body)
    assert {r.headers["authorization"] for r in server.requests} == {f"Bearer {SECRET}"}


async def test_a_secret_that_cannot_be_read_is_the_callers_error_and_no_call() -> None:
    """The lease's own error travels on; the endpoint is not asked."""

    class Unreadable:
        def lease(self) -> Any:
            raise CallerError(Code.SECRET_UNREADABLE, "it is gone")

    async with session_with(Result({"answer": "x"}), credentials=Unreadable()) as (session, server):
        with pytest.raises(CallerError, match="it is gone"):
            await events_of(session, GO)
    assert server.requests == []


async def test_a_correction_answers_the_call_and_a_second_result_is_taken() -> None:
    """Arguments that are no JSON are no completion; the model hears why and tries again."""
    replies = Calls((Call("complete", '{"answer": "x'),)), Result({"answer": "x"})
    async with session_with(*replies) as (session, server):
        first = await events_of(session, GO)
        second = await events_of(session, Correction(findings=("no structured result was given",)))
    assert not any(isinstance(e, Completion | ToolRequest | Failure) for e in first)
    assert Completion(value=freeze({"answer": "x"})) in second
    said = server.requests[1].body["messages"][-1]
    assert said["role"] == "tool" and "not one JSON object" in said["content"]


@pytest.mark.parametrize("structured", ["json_schema", "text"])
async def test_a_session_without_tools_offers_its_result_as_the_settings_say(structured: str) -> None:
    """Native structured output where the endpoint has it, a final fenced block where not."""
    async with session_with(Result({"answer": "x"}), tools=(), structured_output=structured) as (session, server):
        events = await events_of(session, GO)
    assert Completion(value=freeze({"answer": "x"})) in events
    body = server.requests[0].body
    assert "tools" not in body
    if structured == "json_schema":
        assert body["response_format"]["json_schema"] == {"name": "result", "schema": thaw(SCHEMA), "strict": False}
    else:
        assert "response_format" not in body and "```json" in body["messages"][0]["content"]


async def test_settings_and_options_reach_the_endpoint_and_prices_make_a_cost() -> None:
    """The binding's choice wins; the body's extra fields stand beside the conversation's own."""
    bound = executor(FACTORY, model="big", options={"temperature": 0.0, "max_output_tokens": 50})
    async with session_with(
        Result({"answer": "x"}),
        bound=bound,
        temperature=1.0,
        seed=7,
        body={"cache_prompt": False, "provider": {"order": ["a", {"b": 1}]}},
        headers={"X-Team": "blue"},
        prices={"input_per_mtok": 2.0, "output_per_mtok": 10.0},
    ) as (session, server):
        events = await events_of(session, GO)
    body = server.requests[0].body
    assert body["provider"] == {"order": ["a", {"b": 1}]}
    chosen = {
        k: body.get(k) for k in ("model", "temperature", "seed", "max_completion_tokens", "cache_prompt", "stream")
    }
    assert chosen == {
        "model": "big",
        "temperature": 0.0,
        "seed": 7,
        "max_completion_tokens": 50,
        "cache_prompt": False,
        "stream": True,
    }
    assert server.requests[0].headers["x-team"] == "blue"
    usage = next(e.usage for e in events if isinstance(e, CallResult))
    assert usage.cost_usd == pytest.approx(11 * 2e-6 + 7 * 1e-5)


async def test_tokens_that_the_endpoint_does_not_report_have_no_cost() -> None:
    """Unknown, never zero, also with prices."""
    prices = {"input_per_mtok": 2.0, "output_per_mtok": 10.0}
    async with session_with(Text("x", usage=None), prices=prices) as (session, _):
        events = await events_of(session, GO)
    assert next(e.usage for e in events if isinstance(e, CallResult)) == Usage()


async def test_concurrent_sessions_of_one_realm_do_not_mix() -> None:
    """Each has its own conversation over the shared connections."""

    def echo(body: Any) -> Reply:
        return Result({"answer": body["messages"][-1]["content"]})

    with ScriptedOpenAi(echo) as server:
        realm = await FACTORY.open_realm(freeze({"base_url": server.base_url}), None)
        sessions = [await realm.open_session(dispatch(executor(FACTORY), step=f"s{n}@1")) for n in range(8)]
        turns = [events_of(s, Prompt(text=f"number {n}")) for n, s in enumerate(sessions)]
        answers = await asyncio.gather(*turns)
        await realm.close()
    values = [next(e.value for e in events if isinstance(e, Completion)) for events in answers]
    assert values == [freeze({"answer": f"number {n}"}) for n in range(8)]
    assert len({s.native_id for s in sessions}) == 8
