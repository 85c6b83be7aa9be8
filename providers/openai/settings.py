"""The settings of the ``openai`` provider, and what a binding to it may choose. Pure."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from runner.contract.canonical import FrozenJson, Json
from runner.contract.errors import Finding
from runner.contract.model import Frozen, read_model

MODEL_CHARS_MAX: Final = 200
_Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
_Temperature = Annotated[float, Field(ge=0, le=2)]
_Seed = Annotated[int, Field(ge=0, le=2**53 - 1)]
_Price = Annotated[float, Field(ge=0, le=1_000_000)]

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_SECRET_NAMES: Final = re.compile(r"auth|cookie|token|secret|password|api-?key|signature", re.IGNORECASE)
_TRANSPORT: Final = frozenset(
    {"host", "content-type", "content-length", "transfer-encoding", "connection", "te", "upgrade"}
)
_OWN_FIELDS: Final = frozenset(
    {"model", "messages", "tools", "response_format", "stream", "stream_options", "n", "functions", "extra_body"}
)
"""Fields of the request body that follow from the conversation; ``body`` may not set them."""


class Prices(Frozen):
    """US dollars for a million tokens."""

    input_per_mtok: _Price
    output_per_mtok: _Price


class Settings(Frozen):
    """One endpoint. Nothing here has a default taken from the environment."""

    base_url: str
    """``http`` or ``https``, without user, query or fragment; such as ``https://api.example.com/v1``."""
    structured_output: Literal["json_schema", "text"] = "json_schema"
    """Whether the endpoint can constrain an answer to a JSON Schema (``response_format``)."""
    request_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """For one whole call, the streamed answer included."""
    max_output_tokens: _Tokens | None = None
    """Sent as ``max_completion_tokens``; an endpoint that only knows the older ``max_tokens`` gets it through ``body``."""
    temperature: _Temperature | None = None
    seed: _Seed | None = None
    prices: Prices | None = None
    """Without it the cost of a call is unknown."""
    headers: Json = Field(default_factory=dict)
    """Sent with every request. No secrets: those belong to ``credential``."""
    body: Json = Field(default_factory=dict)
    """Further fields of the request body that this endpoint understands, such as ``{"cache_prompt": false}``."""

    @field_validator("base_url")
    @classmethod
    def _explicit(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"is not a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ValueError("must be an absolute http or https URL with a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a user or password; name the secret under 'credential'")
        if "?" in value or "#" in value or any(ord(c) <= 0x20 or ord(c) == 0x7F for c in value):
            raise ValueError("must have no query, fragment, space or control character")
        return value.rstrip("/")

    @field_validator("headers")
    @classmethod
    def _declared(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("must be a table of texts")
        for name, text in value.items():
            _check_header(name, text)
        return value

    @field_validator("body")
    @classmethod
    def _foreign_fields(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("must be a table")
        own = sorted(_OWN_FIELDS & set(value))
        if own:
            raise ValueError(f"must not set {', '.join(own)}: that follows from the conversation")
        return value


class Options(Frozen):
    """What one binding chooses for itself; it wins over the settings."""

    max_output_tokens: _Tokens | None = None
    temperature: _Temperature | None = None
    seed: _Seed | None = None


def _check_header(name: str, text: object) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a header name")
    if name.lower() in _TRANSPORT:
        raise ValueError(f"{name!r} follows from the request")
    if _SECRET_NAMES.search(name):
        raise ValueError(f"{name!r} would carry a secret; name it under 'credential'")
    if not isinstance(text, str) or len(text) > 1000 or not text.isascii() or not text.isprintable():
        raise ValueError(f"{name!r} must be one line of printable ASCII")


def read_settings(value: FrozenJson) -> Settings | tuple[Finding, ...]:
    """The settings, or every problem in them."""
    return read_model(Settings, value)


def read_options(value: FrozenJson) -> Options | tuple[Finding, ...]:
    """The options of a binding, or every problem in them. None is none."""
    return read_model(Options, {} if value is None else value)


def sampling(settings: Settings, options: Options) -> dict[str, Any]:
    """The sampling parameters that langchain-openai is given; those nobody chose are left to the endpoint."""
    chosen = {
        "max_tokens": options.max_output_tokens or settings.max_output_tokens,
        "temperature": settings.temperature if options.temperature is None else options.temperature,
        "seed": settings.seed if options.seed is None else options.seed,
    }
    return {name: value for name, value in chosen.items() if value is not None}
