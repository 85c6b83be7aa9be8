"""``RunnerFactoryConfig``: a closed, frozen value. No objects, callbacks, discovery, priorities or fallbacks.

``meaning`` is the part that decides what a Delivery means (engine, providers, isolation); its digest and text are stored
with every Delivery, and an open Delivery under another meaning is refused. The rest is operational and may change.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from runner.contract.canonical import FrozenJson, Json, freeze
from runner.contract.model import Frozen

FORMAT: Final = 1


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


class Concurrency(Frozen):
    """Operational bounds."""

    steps: Annotated[int, Field(ge=1, le=64)] = 4


class RunnerFactoryConfig(Frozen):
    format: Literal[1] = FORMAT
    engine: Literal["langgraph"] = "langgraph"
    isolation: Literal["none"] = "none"
    """``none``: commands run as ordinary processes with the user's rights. Containment is not built yet."""
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
        keys = [p.key for p in self.providers]
        twice = sorted({k for k in keys if keys.count(k) > 1})
        if twice:
            raise ValueError(f"provider {', '.join(twice)} stands twice")
        return self

    def provider(self, key: str) -> ProviderConfig | None:
        """The provider configured under exactly ``key``."""
        return next((p for p in self.providers if p.key == key), None)

    @property
    def meaning(self) -> FrozenJson:
        """Engine, isolation, provider keys, versions and settings, in a fixed order."""
        return freeze(
            {
                "engine": self.engine,
                "isolation": self.isolation,
                "providers": {p.key: {"version": p.version, "settings": p.settings} for p in self.providers},
            }
        )
