"""A provider that is known by name and not built: typed, without features, refusing before any effect."""

from dataclasses import dataclass
from typing import NoReturn

from runner.contract.activation import Executor
from runner.contract.canonical import FrozenJson
from runner.contract.errors import Code, Finding, ProviderError
from runner.contract.provider import Credentials, ProviderDescriptor, Realm


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbuiltFactory:
    """Refuses a config that names it, a binding to it and a start, each with ``provider-not-implemented``.

    Never falls back to another provider and touches no credential, file, process or socket. ``speaks`` says what the
    provider would be, for the message.
    """

    key: str
    version: str
    speaks: str

    @property
    def descriptor(self) -> ProviderDescriptor:
        """Without features: nothing can be asked of it."""
        return ProviderDescriptor(key=self.key, version=self.version, features=())

    def check_settings(self, settings: FrozenJson) -> tuple[Finding, ...]:
        """Always ``ProviderError(provider-not-implemented)``: settings that nothing will read cannot be right."""
        self._refuse()

    def bind(self, model: str) -> tuple[str, FrozenJson]:
        """Always ``ProviderError(provider-not-implemented)``."""
        self._refuse()

    def check_executor(self, executor: Executor) -> tuple[Finding, ...]:
        """Always ``ProviderError(provider-not-implemented)``, naming the role."""
        self._refuse(f"role {executor.role!r}: ")

    async def open_realm(self, settings: FrozenJson, credentials: Credentials | None) -> Realm:
        """Always ``ProviderError(provider-not-implemented)``; the credentials stay untouched."""
        self._refuse()

    def _refuse(self, place: str = "") -> NoReturn:
        raise ProviderError(
            Code.PROVIDER_NOT_IMPLEMENTED,
            f"{place}the provider {self.key!r} ({self.speaks}) is known, but this version of the Runner cannot run it",
            remedy="bind the role to 'openai' or 'recorded', and take the provider out of the config",
        )
