"""What kind of failure a model call met, and what is done about it. Pure tables over structured signals, never over prose.

Looked up in this order, the most specific first: the endpoint's error code, the HTTP status, the exception's name.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from runner.contract.provider import Failure


class FailureClass(StrEnum):
    RATE_LIMIT = "rate-limit"
    OVERLOAD = "overload"
    TRANSIENT = "transient"
    AUTH = "auth"
    QUOTA = "quota"
    INVALID_OUTPUT = "invalid-output"
    REFUSAL = "refusal"
    LIMIT = "limit"
    PROTOCOL = "protocol"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """``retry``: the same call again, after a back-off; once its tries are spent the step suspends. ``suspend``: at once.
    ``fail``: at once. The endpoint's troubles suspend, since the step has no part in them; what the request or the answer
    caused fails."""

    action: Literal["retry", "suspend", "fail"]
    retriable: bool
    """Whether the step, once failed, may be tried again with hope."""
    suspend_s: float | None = None
    """When a suspended step is worth another try."""
    shared: bool = False
    """Whether the back-off is kept by everything that uses the realm, in other processes too."""


REACTIONS: Final[dict[FailureClass, Reaction]] = {
    FailureClass.RATE_LIMIT: Reaction(action="retry", retriable=True, suspend_s=60.0, shared=True),
    FailureClass.OVERLOAD: Reaction(action="retry", retriable=True, suspend_s=60.0, shared=True),
    FailureClass.TRANSIENT: Reaction(action="retry", retriable=True, suspend_s=60.0),
    FailureClass.AUTH: Reaction(action="suspend", retriable=False, suspend_s=300.0),
    FailureClass.QUOTA: Reaction(action="suspend", retriable=False, suspend_s=900.0),
    FailureClass.INVALID_OUTPUT: Reaction(action="fail", retriable=True),
    FailureClass.REFUSAL: Reaction(action="fail", retriable=False),
    FailureClass.LIMIT: Reaction(action="fail", retriable=False),
    FailureClass.PROTOCOL: Reaction(action="fail", retriable=False),
    FailureClass.CANCELLED: Reaction(action="fail", retriable=True),
    FailureClass.UNKNOWN: Reaction(action="fail", retriable=False),
}

STREAM_BROKEN: Final = "stream-ended"
"""The error code for a stream of events that stopped before the turn had ended."""

ERROR_CODES: Final[dict[str, FailureClass]] = {
    # of our adapters
    STREAM_BROKEN: FailureClass.TRANSIENT,
    "cancelled": FailureClass.CANCELLED,
    "connection": FailureClass.TRANSIENT,
    "invalid-stream": FailureClass.PROTOCOL,
    "length": FailureClass.LIMIT,
    "max_tokens": FailureClass.LIMIT,
    "recording-miss": FailureClass.PROTOCOL,
    "redirect": FailureClass.PROTOCOL,
    "refusal": FailureClass.REFUSAL,
    "timeout": FailureClass.TRANSIENT,
    "unexpected-finish": FailureClass.PROTOCOL,
    # of OpenAI-compatible endpoints
    "insufficient_quota": FailureClass.QUOTA,
    "billing_hard_limit_reached": FailureClass.QUOTA,
    "billing_not_active": FailureClass.QUOTA,
    "insufficient_balance": FailureClass.QUOTA,
    "rate_limit_exceeded": FailureClass.RATE_LIMIT,
    "rate_limit_error": FailureClass.RATE_LIMIT,
    "overloaded_error": FailureClass.OVERLOAD,
    "server_overloaded": FailureClass.OVERLOAD,
    "engine_overloaded": FailureClass.OVERLOAD,
    "invalid_api_key": FailureClass.AUTH,
    "authentication_error": FailureClass.AUTH,
    "permission_denied": FailureClass.AUTH,
    "context_length_exceeded": FailureClass.LIMIT,
    "string_above_max_length": FailureClass.LIMIT,
    "content_filter": FailureClass.REFUSAL,
    "content_policy_violation": FailureClass.REFUSAL,
    "model_not_found": FailureClass.PROTOCOL,
    "server_error": FailureClass.TRANSIENT,
    "internal_server_error": FailureClass.TRANSIENT,
}
"""Only codes that mean one thing. ``invalid_request_error`` is not here: endpoints send it with 401, 402 and 429 too."""

STATUSES: Final[dict[int, FailureClass]] = {
    401: FailureClass.AUTH,
    402: FailureClass.QUOTA,
    403: FailureClass.AUTH,
    407: FailureClass.PROTOCOL,
    408: FailureClass.TRANSIENT,
    409: FailureClass.TRANSIENT,
    413: FailureClass.LIMIT,
    425: FailureClass.TRANSIENT,
    429: FailureClass.RATE_LIMIT,
    499: FailureClass.CANCELLED,
    501: FailureClass.PROTOCOL,
    503: FailureClass.OVERLOAD,
    505: FailureClass.PROTOCOL,
    529: FailureClass.OVERLOAD,
}
"""Exact statuses; any other 5xx is transient, any other 3xx or 4xx a protocol error."""

EXCEPTIONS: Final[dict[str, FailureClass]] = {
    "asyncio.exceptions.CancelledError": FailureClass.CANCELLED,
    "builtins.BrokenPipeError": FailureClass.TRANSIENT,
    "builtins.ConnectionAbortedError": FailureClass.TRANSIENT,
    "builtins.ConnectionError": FailureClass.TRANSIENT,
    "builtins.ConnectionRefusedError": FailureClass.TRANSIENT,
    "builtins.ConnectionResetError": FailureClass.TRANSIENT,
    "builtins.TimeoutError": FailureClass.TRANSIENT,
    "socket.gaierror": FailureClass.TRANSIENT,
    "ssl.SSLCertVerificationError": FailureClass.PROTOCOL,
    "json.decoder.JSONDecodeError": FailureClass.PROTOCOL,
    "httpx.CloseError": FailureClass.TRANSIENT,
    "httpx.ConnectError": FailureClass.TRANSIENT,
    "httpx.ConnectTimeout": FailureClass.TRANSIENT,
    "httpx.DecodingError": FailureClass.PROTOCOL,
    "httpx.LocalProtocolError": FailureClass.PROTOCOL,
    "httpx.PoolTimeout": FailureClass.TRANSIENT,
    "httpx.ReadError": FailureClass.TRANSIENT,
    "httpx.ReadTimeout": FailureClass.TRANSIENT,
    "httpx.RemoteProtocolError": FailureClass.TRANSIENT,
    "httpx.TooManyRedirects": FailureClass.PROTOCOL,
    "httpx.UnsupportedProtocol": FailureClass.PROTOCOL,
    "httpx.WriteError": FailureClass.TRANSIENT,
    "httpx.WriteTimeout": FailureClass.TRANSIENT,
    "openai.APIConnectionError": FailureClass.TRANSIENT,
    "openai.APIResponseValidationError": FailureClass.PROTOCOL,
    "openai.APITimeoutError": FailureClass.TRANSIENT,
    "openai.AuthenticationError": FailureClass.AUTH,
    "openai.BadRequestError": FailureClass.PROTOCOL,
    "openai.ConflictError": FailureClass.TRANSIENT,
    "openai.ContentFilterFinishReasonError": FailureClass.REFUSAL,
    "openai.InternalServerError": FailureClass.TRANSIENT,
    "openai.LengthFinishReasonError": FailureClass.LIMIT,
    "openai.NotFoundError": FailureClass.PROTOCOL,
    "openai.PermissionDeniedError": FailureClass.AUTH,
    "openai.RateLimitError": FailureClass.RATE_LIMIT,
    "openai.UnprocessableEntityError": FailureClass.PROTOCOL,
}
"""By ``module.qualname`` of the type, as the adapter reports it."""

CUT_OFF: Final = frozenset({"length", "max_tokens", "content_filter", "refusal"})
"""Endings of a turn that are failures, by their names as error codes: an answer that was cut off or withheld is never a
short answer."""


def classify(failure: Failure) -> FailureClass:
    """The class of ``failure``; ``UNKNOWN`` when no signal is in the tables."""
    if failure.error_code in ERROR_CODES:
        return ERROR_CODES[failure.error_code]
    status = failure.http_status
    if status in STATUSES:
        return STATUSES[status]
    if status is not None and 500 <= status < 600:
        return FailureClass.TRANSIENT
    if status is not None and 300 <= status < 500:
        return FailureClass.PROTOCOL
    return EXCEPTIONS.get(failure.exception, FailureClass.UNKNOWN)


def is_retried(failure: Failure) -> bool:
    """Whether the call is made again after ``failure``, as far as its tries allow it."""
    return REACTIONS[classify(failure)].action == "retry"


def failure_of(error: BaseException) -> Failure:
    """The signals of an exception that escaped an adapter. Its text is not kept: nobody has vouched for it."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return Failure(exception=name, message=f"the provider's adapter raised {name}")
