"""The events of one running turn, from an adapter that stands before foreign libraries: whatever comes instead is a failure."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import RunnerError
from runner.contract.provider import (
    CallIntent,
    CallResult,
    Completion,
    Failure,
    ToolRequest,
    TurnEvent,
)
from runner.contract.redaction import Redactor
from runner.invocation.classify import STREAM_BROKEN, failure_of

NESTING_RESERVE: Final = 8
"""Nesting kept free around a model's JSON, so that it still fits when it stands inside records."""


async def next_event(events: AsyncIterator[TurnEvent]) -> TurnEvent:
    """The next event; what went wrong instead of one is a ``Failure``. Errors with a code of ours pass unchanged."""
    try:
        return _frozen(await anext(events))
    except StopAsyncIteration:
        return Failure(exception="", error_code=STREAM_BROKEN, message="the turn broke off before its end")
    except RunnerError:
        raise
    except Exception as error:  # an adapter stands before foreign libraries: whatever escapes it is a failed call
        return failure_of(error)


async def close_events(events: AsyncIterator[TurnEvent]) -> None:
    """Ends a turn early."""
    aclose = getattr(events, "aclose", None)
    if aclose is not None:
        await aclose()


def invalid(problem: str) -> Failure:
    """What an adapter did that no turn may do; a second try would not mend it."""
    return Failure(exception="", error_code="invalid-stream", message=problem)


def redacted(event: TurnEvent, redactor: Redactor) -> TurnEvent:
    """``event`` without secrets in what is kept of it."""
    match event:
        case CallResult():
            return replace(
                event,
                response=redactor.json(event.response),
                provider=redactor.text(event.provider),
                model=redactor.text(event.model),
            )
        case ToolRequest():
            return replace(event, name=redactor.text(event.name), arguments=redactor.json(event.arguments))
        case Completion(value=value):
            return Completion(value=redactor.json(value))
        case _:
            return event


def _frozen(event: TurnEvent) -> TurnEvent:
    """``event`` with its JSON frozen; a ``Failure`` for what is not JSON."""
    try:
        match event:
            case CallIntent(request=request):
                return CallIntent(request=freeze(request))
            case CallResult(response=response):
                return replace(event, response=_kept(response))
            case ToolRequest(arguments=arguments):
                return replace(event, arguments=_kept(arguments))
            case Completion(value=value):
                return Completion(value=_kept(value))
            case _:
                return event
    except ValueError as error:
        return invalid(f"the adapter gave what is not JSON: {error}")


def _kept(value: FrozenJson) -> FrozenJson:
    return freeze(value, depth=NESTING_RESERVE)
