"""The creation plane of the ``openai`` provider. Cheap to import: the SDK comes with the realm."""

import asyncio
from typing import TYPE_CHECKING, Final

from providers.openai.settings import MODEL_CHARS_MAX, read_options, read_settings
from runner.contract.activation import Executor
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code, Finding, ProviderError
from runner.contract.provider import Credentials, ProviderDescriptor, Realm

if TYPE_CHECKING:
    from providers.openai.realm import OpenAiRealm

DESCRIPTOR: Final = ProviderDescriptor(
    key="openai", version="1", features=("agent", "generate", "structured-output", "tools")
)


class OpenAiFactory:
    """Implements ``ProviderFactory``."""

    @property
    def descriptor(self) -> ProviderDescriptor:
        return DESCRIPTOR

    def check_settings(self, settings: FrozenJson) -> tuple[Finding, ...]:
        """Every problem; ``base_url`` must be there."""
        read = read_settings(settings)
        return read if isinstance(read, tuple) else ()

    def bind(self, model: str) -> tuple[str, FrozenJson]:
        """The model as it was named: only the endpoint knows what stands behind it."""
        return model, None

    def check_executor(self, executor: Executor) -> tuple[Finding, ...]:
        """The model is what the endpoint calls it; the options are those of ``settings.Options``."""
        findings = []
        if not executor.model.strip() or len(executor.model) > MODEL_CHARS_MAX or not executor.model.isprintable():
            problem = f"must be 1 to {MODEL_CHARS_MAX} printable characters"
            findings.append(Finding(place="model", problem=problem, fix="use the endpoint's own name of the model"))
        options = read_options(executor.options)
        if isinstance(options, tuple):
            findings += [Finding(place=f"options.{f.place}", problem=f.problem, fix=f.fix) for f in options]
        return tuple(findings)

    async def open_realm(self, settings: FrozenJson, credentials: Credentials | None) -> Realm:
        """A realm with its own HTTP client; no request is made. ``CallerError(config-invalid)`` for bad settings,
        ``ProviderError(provider-start-failed)`` when the SDK is not installed whole."""
        read = read_settings(settings)
        if isinstance(read, tuple):
            raise CallerError(
                Code.CONFIG_INVALID,
                "the settings of provider 'openai' cannot be used",
                remedy="mend them",
                findings=read,
            )
        try:
            realm = await asyncio.to_thread(_realm_class)
        except ImportError as error:
            raise ProviderError(
                Code.PROVIDER_START_FAILED,
                f"the SDK of provider 'openai' cannot be imported: {error}",
                remedy="install the distribution again, with its dependencies",
            ) from error
        return realm(read, credentials)


def _realm_class() -> "type[OpenAiRealm]":
    from providers.openai.realm import OpenAiRealm  # noqa: PLC0415 - importing the SDK takes two seconds

    return OpenAiRealm
