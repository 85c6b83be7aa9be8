"""``RunnerFactoryConfig``: a closed, frozen value. No objects, callbacks, discovery, priorities or fallbacks.

``meaning`` is the part that decides what a Delivery means (engine, providers, isolation); its digest and text are stored
with every Delivery, and an open Delivery under another meaning is refused. The rest is operational and may change.
"""

import os
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from runner.contract.canonical import FrozenJson, Json, freeze
from runner.contract.model import Frozen

FORMAT: Final = 1

Isolation = Literal["bubblewrap", "none"]
"""``bubblewrap``: what a model starts or steers runs inside a boundary. ``none``: as ordinary processes with the user's
rights. Never one in place of the other."""


class CredentialSource(Frozen):
    """Where a secret is: an environment variable or a file only its owner may read (mode 0600). Never the secret."""

    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _one(self) -> "CredentialSource":
        if (self.env is None) == (self.file is None):
            raise ValueError("name exactly one of 'env' and 'file'")
        return self


class ProviderConfig(Frozen):
    """One configured provider. ``settings`` belong to its factory, which validates them."""

    key: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    version: str | None = None
    """The adapter version this config expects; another one is refused. None: whatever this Runner ships."""
    credential: CredentialSource | None = None
    settings: Json = Field(default_factory=dict)


class ToolServerConfig(Frozen):
    """One source of tools beyond the worktree's own: a server that speaks the Model Context Protocol, or Python code of the
    embedding parent. Exactly one of ``command``, ``url`` and ``entry_point``."""

    key: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    command: tuple[str, ...] = ()
    """MCP over standard input and output: the argv to start."""
    url: str | None = None
    """MCP over streamable HTTP."""
    entry_point: str | None = None
    """The name of an installed entry point of group ``runner.tools``."""
    credential: CredentialSource | None = None
    """For ``url``: a bearer token. For ``command``: the value of the variable ``credential_env``."""
    credential_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None

    @model_validator(mode="after")
    def _one_transport(self) -> "ToolServerConfig":
        if sum((bool(self.command), self.url is not None, self.entry_point is not None)) != 1:
            raise ValueError("name exactly one of 'command', 'url' and 'entry_point'")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("'url' begins with http:// or https://")
        if (self.credential_env is not None) != (bool(self.command) and self.credential is not None):
            raise ValueError("'credential_env' goes with 'command' and 'credential'")
        return self


class Boundary(Frozen):
    """The bounds of one contained process tree. Per start; wall time and output are the step's own."""

    memory_bytes: Annotated[int, Field(ge=16 << 20)] = 4 << 30
    cpu_s: Annotated[int, Field(ge=1)] = 3600
    processes: Annotated[int, Field(ge=4, le=65536)] = 512
    file_bytes: Annotated[int, Field(ge=1 << 20)] = 4 << 30
    """The largest file that it may write."""
    readable: tuple[str, ...] = ()
    """Absolute paths beyond the system's own that it may read, such as an interpreter outside of ``/usr``."""

    @field_validator("readable")
    @classmethod
    def _readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            if not Path(path).is_absolute() or "\0" in path or os.path.normpath(path) != path:
                raise ValueError("must be absolute paths, without '.', '..' and a '/' at the end")
            if path in ("/", "/run", "/tmp") or Path(path).parts[1] in ("proc", "dev"):  # noqa: S108 - no file of ours
                raise ValueError(f"{path} would show what lies outside of the boundary")
        return value


class Concurrency(Frozen):
    """Operational bounds."""

    steps: Annotated[int, Field(ge=1, le=64)] = 4


class RunnerFactoryConfig(Frozen):
    format: Literal[1] = FORMAT
    engine: Literal["langgraph"] = "langgraph"
    isolation: Isolation = "bubblewrap"
    boundary: Boundary = Boundary()
    tool_servers: tuple[ToolServerConfig, ...] = ()
    state_root: str
    """Absolute. Deliveries, leases and, by default, worktrees live below it."""
    providers: tuple[ProviderConfig, ...] = ()
    concurrency: Concurrency = Concurrency()
    record_dir: str | None = None
    """Operational. Absolute; where every session is recorded for replay."""

    @field_validator("state_root", "record_dir")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and (not Path(value).is_absolute() or "\0" in value):
            raise ValueError("must be an absolute path")
        return value

    @model_validator(mode="after")
    def _exact(self) -> "RunnerFactoryConfig":
        for what, keys in (
            ("provider", [p.key for p in self.providers]),
            ("tool server", [t.key for t in self.tool_servers]),
        ):
            twice = sorted({k for k in keys if keys.count(k) > 1})
            if twice:
                raise ValueError(f"{what} {', '.join(twice)} stands twice")
        return self

    def provider(self, key: str) -> ProviderConfig | None:
        """The provider configured under exactly ``key``."""
        return next((p for p in self.providers if p.key == key), None)

    @property
    def meaning(self) -> FrozenJson:
        """Engine, isolation, provider keys, versions and settings, tool servers without secrets, in a fixed order."""
        return freeze(
            {
                "engine": self.engine,
                "isolation": self.isolation,
                "tool_servers": {
                    t.key: {"command": list(t.command), "url": t.url, "entry_point": t.entry_point}
                    for t in self.tool_servers
                },
                "providers": {p.key: {"version": p.version, "settings": p.settings} for p in self.providers},
            }
        )
