"""The creation plane of the ``recorded`` provider."""

from typing import Final

from providers.recorded.fixture import absolute, read_fixture
from providers.recorded.realm import RecordedRealm
from providers.recorded.settings import Options, Settings, frozen_digest
from runner.contract.activation import Executor
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import CallerError, Code, Finding, ProviderError
from runner.contract.model import read_model
from runner.contract.provider import Credentials, ProviderDescriptor, Realm

DESCRIPTOR: Final = ProviderDescriptor(
    key="recorded", version="1", features=("agent", "generate", "structured-output", "tools")
)


class RecordedFactory:
    """Implements ``ProviderFactory``."""

    @property
    def descriptor(self) -> ProviderDescriptor:
        return DESCRIPTOR

    def check_settings(self, settings: FrozenJson) -> tuple[Finding, ...]:
        """There are none to give."""
        read = read_model(Settings, settings)
        return read if isinstance(read, tuple) else ()

    def bind(self, model: str) -> tuple[str, FrozenJson]:
        """The absolute directory and its content's digest: the activation may be executed from anywhere, and replays these
        recordings or none. ``ProviderError(recording-invalid)`` unless they all hold."""
        fixture = read_fixture(model)
        return absolute(model), freeze({"digest": fixture.digest})

    def check_executor(self, executor: Executor) -> tuple[Finding, ...]:
        """The model names a directory of recordings that all hold; ``options.digest``, when given, is its digest, else
        ``ProviderError(binding-drift)``."""
        options = read_model(Options, {} if executor.options is None else executor.options)
        findings: list[Finding] = []
        if isinstance(options, tuple):
            findings += [Finding(place=f"options.{f.place}", problem=f.problem, fix=f.fix) for f in options]
        try:
            read_fixture(executor.model, frozen_digest(executor.options))
        except ProviderError as error:
            if error.code is Code.BINDING_DRIFT:
                raise
            findings.append(Finding(place="model", problem=error.message, fix=error.remedy))
        return tuple(findings)

    async def open_realm(self, settings: FrozenJson, credentials: Credentials | None) -> Realm:
        """Reads nothing yet, and never the credentials. ``CallerError(config-invalid)`` for settings."""
        findings = self.check_settings(settings)
        if findings:
            raise CallerError(
                Code.CONFIG_INVALID, "provider 'recorded' has no settings", remedy="remove them", findings=findings
            )
        return RecordedRealm()
