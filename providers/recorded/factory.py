"""The creation plane of the ``recorded`` provider."""

from typing import Final

from providers.recorded.fixture import Fixture, read_fixture
from providers.recorded.realm import RecordedRealm
from providers.recorded.settings import Options, Settings
from runner.contract.activation import Executor
from runner.contract.canonical import FrozenJson
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

    def check_executor(self, executor: Executor) -> tuple[Finding, ...]:
        """The model names a directory of recordings that all hold; ``options.digest``, when given, is its digest."""
        options = read_model(Options, {} if executor.options is None else executor.options)
        findings: list[Finding] = []
        if isinstance(options, tuple):
            findings += [Finding(place=f"options.{f.place}", problem=f.problem, fix=f.fix) for f in options]
        try:
            fixture = read_fixture(executor.model)
        except ProviderError as error:
            return (*findings, Finding(place="model", problem=error.message, fix=error.remedy))
        return (*findings, *(_drift(options, fixture) if isinstance(options, Options) else ()))

    async def open_realm(self, settings: FrozenJson, credentials: Credentials | None) -> Realm:
        """Reads nothing yet, and never the credentials. ``CallerError(config-invalid)`` for settings."""
        findings = self.check_settings(settings)
        if findings:
            raise CallerError(
                Code.CONFIG_INVALID, "provider 'recorded' has no settings", remedy="remove them", findings=findings
            )
        return RecordedRealm()


def _drift(options: Options, fixture: Fixture) -> tuple[Finding, ...]:
    if options.digest in (None, fixture.digest):
        return ()
    problem = f"the recordings are not the ones that were bound: they are {fixture.digest}"
    return (Finding(place="options.digest", problem=problem, fix="put the recordings back, or admit again"),)
