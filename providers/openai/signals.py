"""An exception of a call -> the structured signals of a ``Failure``. Pure; never reads prose.

Error codes of this provider, beside those that endpoints send (``rate_limit_exceeded``, ``insufficient_quota``, ...):
``timeout`` (the whole call took too long), ``connection``, ``redirect``, ``stream-ended`` (before the answer did, or broken:
bytes that are no JSON), ``invalid-stream`` (JSON, but not what Chat Completions knows), ``length``, ``refusal``,
``unexpected-finish``.
"""

import datetime as dt
import json
import math
import re
import ssl
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import openai

from providers.openai.answer import INVALID_STREAM, STREAM_ENDED
from runner.contract.provider import Failure

CERTIFICATE: Final = "ssl.SSLCertVerificationError"
CAUSES_MAX: Final = 10
_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


def failure_of(error: Exception, now: dt.datetime) -> Failure:
    """The signals in ``error``. The message is the raw text: to be redacted first, then cut."""
    status = error.status_code if isinstance(error, openai.APIStatusError) else None
    code, coded_status = _code(error, status)
    return Failure(
        exception=CERTIFICATE if _untrusted(error) else _name(error),
        http_status=status if status is not None else coded_status,
        error_code=code,
        retry_after_s=_retry_after(error, now),
        message=_message(error),
    )


def retry_after_s(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """The wait that ``Retry-After`` asks for, in seconds: a number, or a date seen from the response's own ``Date`` (else
    ``now``). None when there is none that can be understood; never negative."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        until, since = _date(value), _date(headers.get("date", "")) or now
        seconds = (until - since).total_seconds() if until else math.nan
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """``error`` and what it was raised from, outermost first."""
    cause: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _untrusted(error: Exception) -> bool:
    """Whether the endpoint's certificate was refused, which no second try mends."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))


def _message(error: Exception) -> str:
    """For people. The SDK's own text of a failed connection hides the reason, which stands in what it was raised from."""
    if not isinstance(error, openai.APIConnectionError):
        return str(error)
    texts = dict.fromkeys(text for cause in _causes(error) if (text := str(cause)))
    return " ".join(texts)


def _name(error: Exception) -> str:
    """The SDK's own class, so that the name does not change with the layer in between."""
    for cls in type(error).__mro__:
        if cls.__module__.partition(".")[0] == "openai":
            return f"openai.{cls.__name__}"
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _code(error: Exception, status: int | None) -> tuple[str | None, int | None]:
    """The error code, and the HTTP status that an error inside a stream carries as its code."""
    if status is not None and 300 <= status < 400:
        return "redirect", None
    if _untrusted(error):
        return None, None
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return "timeout", None
    if isinstance(error, openai.APIConnectionError):
        return "connection", None
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return STREAM_ENDED, None
    if not isinstance(error, openai.APIError):
        return INVALID_STREAM, None  # a BadChunk, or what the libraries raise over one
    codes = [value for value in (_field(error, "code"), _field(error, "type")) if value is not None]
    numbers = [value for value in codes if isinstance(value, int) and 400 <= value < 600]
    texts = [value for value in codes if isinstance(value, str) and _CODE.fullmatch(value)]
    return (texts[0] if texts else None), (numbers[0] if numbers else None)


def _field(error: openai.APIError, name: str) -> Any:
    """From the body, which endpoints nest or not."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body.get(name) if isinstance(body, dict) else None


def _retry_after(error: Exception, now: dt.datetime) -> float | None:
    return retry_after_s(error.response.headers, now) if isinstance(error, openai.APIStatusError) else None


def _date(text: str) -> dt.datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=dt.UTC)
