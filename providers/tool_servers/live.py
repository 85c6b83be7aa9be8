"""What a started server is to the room, whichever way it is reached."""

from dataclasses import dataclass
from typing import Any, Final, Protocol

from runner.contract.canonical import FrozenJson
from runner.contract.ids import Digest
from runner.contract.ports import OfferedTool
from runner.contract.provider import ToolOutcome

START_S: Final = 30.0
"""How long a server may take to start, and to say what it offers."""
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one message of a server."""
TOOLS_MAX: Final = 1_000
PARAMETERS_BYTES_MAX: Final = 65_536
DESCRIPTION_CHARS_MAX: Final = 8_192


Streams = tuple[Any, Any]
"""What an MCP session reads from and writes to, in its library's own terms."""


class Unreachable(Exception):
    """The server cannot be started, or does not answer; ``str`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A call was made and its end was not seen. ``broken``: the session is gone, another one may help."""

    why: str
    broken: bool


class LiveServer(Protocol):
    """One started server. Everything it gives is bounded, and not screened."""

    @property
    def is_alive(self) -> bool: ...

    async def tools(self) -> tuple[OfferedTool, ...]:
        """What it offers now; asked again only where it may have changed. ``Unreachable``."""
        ...

    async def call(
        self, remote: str, arguments: FrozenJson, *, key: Digest, timeout_s: float
    ) -> ToolOutcome | Lost: ...

    async def close(self) -> None:
        """Ends it, and everything it started, within seconds. Idempotent."""
        ...
