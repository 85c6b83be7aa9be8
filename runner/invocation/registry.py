"""The closed registry of providers: exact keys, exact versions, nothing discovered, ranked or substituted.

Owned invariants
- Everything that can be refused is refused before any realm starts: at construction (the config against the factories)
  or in ``check`` (an activation against the config).
- One realm per used provider, started at its first use, closed in reverse order of start.
"""

import asyncio
import os
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

from runner.contract.activation import Activation, AgentAction, Executor, GenerateAction
from runner.contract.canonical import FrozenJson
from runner.contract.config import CredentialSource, ProviderConfig, RunnerFactoryConfig
from runner.contract.errors import CallerError, Code, Finding, ProviderError, RunnerError
from runner.contract.layout import backoff_file
from runner.contract.provider import ProviderDescriptor, ProviderFactory, Realm
from runner.contract.redaction import Redactor
from runner.invocation.backoff import Gate
from runner.invocation.binding import descriptor_problems
from runner.invocation.credentials import SourceCredentials
from runner.invocation.shared_backoff import SharedBackoff

T = TypeVar("T")


class Registry:
    """The providers of one Runner, and everything of them that is live."""

    def __init__(
        self,
        *,
        factories: tuple[ProviderFactory, ...],
        config: RunnerFactoryConfig,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Pure. ``CallerError``: ``provider-duplicate``, ``provider-unknown`` (naming the choices), ``config-invalid``
        with every finding of every provider under ``providers.<key>``. ``environment`` is the process's by default."""
        self.redactor = Redactor()
        self._factories = _by_key(factories)
        self._config = {p.key: p for p in config.providers}
        self._state_root = Path(config.state_root)
        self._environment = os.environ if environment is None else environment
        self._realms: dict[str, Realm] = {}
        self._gates: dict[str, Gate] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._stack = AsyncExitStack()
        self._closed = False
        _refuse_unknown(config.providers, self._factories)
        _refuse_settings(config.providers, self._factories)

    def descriptors(self) -> dict[str, ProviderDescriptor]:
        """The configured providers by key, as admission freezes them into activations."""
        return {key: self._factories[key].descriptor for key in self._config}

    def descriptor(self, key: str) -> ProviderDescriptor:
        """What stands behind exactly ``key``; ``CallerError(provider-unknown)``."""
        return self._factory(key).descriptor

    def bind(self, key: str, model: str) -> tuple[str, FrozenJson]:
        """See ``ProviderFactory.bind``; ``CallerError(provider-unknown)`` naming the choices."""
        return self._factory(key).bind(model)

    def check(self, activation: Activation) -> None:
        """Nothing, if every executor can act here exactly as it was bound. Starts no realm.

        ``ProviderError(binding-drift)`` field by field; ``CallerError``: ``provider-unknown``, ``feature-missing``,
        ``binding-invalid`` with findings, ``kind-not-built``, ``secret-unreadable``."""
        for executor in activation.executors:
            _refuse_drift(executor, self.descriptor(executor.provider))
        _refuse_features(activation, self.descriptors())
        findings = [f for executor in activation.executors for f in self._executor_findings(executor)]
        if findings:
            message = "a role is bound to what its provider cannot use: " + "; ".join(map(str, findings))
            raise CallerError(Code.BINDING_INVALID, message, remedy="bind the role again", findings=findings)
        for key in dict.fromkeys(e.provider for e in activation.executors):
            credentials = self._credentials(key)
            if credentials is not None:
                with credentials.lease():
                    pass  # readable, and known to the redactor before anything else happens

    def _executor_findings(self, executor: Executor) -> Iterator[Finding]:
        for found in self._factories[executor.provider].check_executor(executor):
            yield _below(f"executors.{executor.role}", found)

    async def realm(self, key: str) -> Realm:
        """The realm of ``key``, started at its first use. ``ProviderError`` when it cannot start or is closed already;
        a failed start leaves nothing behind and may be tried again."""
        factory = self._factory(key)
        async with self._opening.setdefault(key, asyncio.Lock()):
            if key not in self._realms and not self._closed:
                settings = self._config[key].settings
                realm = await opened(key, factory.open_realm(settings, self._credentials(key)))
                self._stack.push_async_callback(realm.close)
                self._realms[key] = realm
        if self._closed:
            await self.close()
            message = f"provider {key}: the Runner is closing"
            raise ProviderError(Code.PROVIDER_START_FAILED, message, remedy="open a new Runner and execute again")
        return self._realms[key]

    def gate(self, key: str) -> Gate:
        """The back-off of ``key``, shared by everything that uses its realm; after a rate limit or an overload by every
        process under the state root."""
        return self._gates.setdefault(key, Gate(SharedBackoff(backoff_file(self._state_root, key))))

    async def close(self) -> None:
        """Closes every realm, the last started first, also when one of them fails to. Idempotent."""
        self._closed = True
        await self._stack.aclose()

    def _factory(self, key: str) -> ProviderFactory:
        if key not in self._config:
            raise _unknown(key, "is not configured", self._config)
        return self._factories[key]

    def credentials_from(self, source: CredentialSource) -> SourceCredentials:
        """A way to a secret that something other than a provider needs; leased, it is redacted like the others."""
        return SourceCredentials(source, self.redactor, self._environment)

    def _credentials(self, key: str) -> SourceCredentials | None:
        source = self._config[key].credential
        return None if source is None else self.credentials_from(source)


async def opened(key: str, opening: Awaitable[T]) -> T:
    """What ``opening`` gives. An exception that an adapter lets through becomes ``ProviderError(provider-start-failed)``;
    errors with a code of ours pass unchanged."""
    try:
        return await opening
    except RunnerError:
        raise
    except Exception as error:  # an adapter stands before foreign libraries: whatever escapes it is a failed start
        message = f"provider {key} did not start: {type(error).__qualname__}"
        raise ProviderError(Code.PROVIDER_START_FAILED, message, remedy="see the provider's settings") from error


def _by_key(factories: tuple[ProviderFactory, ...]) -> dict[str, ProviderFactory]:
    result: dict[str, ProviderFactory] = {}
    for factory in factories:
        key = factory.descriptor.key
        if key in result:
            message = f"two providers are called {key}"
            raise CallerError(Code.PROVIDER_DUPLICATE, message, remedy="each provider key may stand once")
        result[key] = factory
    return result


def _refuse_unknown(configured: tuple[ProviderConfig, ...], factories: Mapping[str, ProviderFactory]) -> None:
    for provider in configured:
        if provider.key not in factories:
            raise _unknown(f"providers.{provider.key}", "there is no such provider", factories)


def _unknown(place: str, problem: str, choices: Iterable[str]) -> CallerError:
    names = ", ".join(sorted(choices)) or "none"
    return CallerError(Code.PROVIDER_UNKNOWN, f"{place}: {problem}", remedy=f"choose one of: {names}")


def _refuse_settings(configured: tuple[ProviderConfig, ...], factories: Mapping[str, ProviderFactory]) -> None:
    findings: list[Finding] = []
    for provider in configured:
        factory, place = factories[provider.key], f"providers.{provider.key}"
        offered = factory.descriptor.version
        if provider.version not in (None, offered):
            problem = f"expects version {provider.version}; this Runner ships {offered}"
            findings.append(Finding(place=f"{place}.version", problem=problem, fix=f"write {offered}, or leave it out"))
        findings += [_below(place, f) for f in map(_in_settings, factory.check_settings(provider.settings))]
    if findings:
        message = "; ".join(map(str, findings))
        raise CallerError(Code.CONFIG_INVALID, message, remedy="mend the named fields", findings=findings)


def _in_settings(found: Finding) -> Finding:
    inside = found.place == "settings" or found.place.startswith(("settings.", "settings["))
    return found if inside else _below("settings", found)


def _below(place: str, found: Finding) -> Finding:
    """``found`` with its place seen from one level further up."""
    inner = found.place.removeprefix("$").lstrip(".")
    joined = f"{place}{inner}" if inner.startswith("[") else f"{place}.{inner}" if inner else place
    return Finding(place=joined, problem=found.problem, fix=found.fix)


def _refuse_drift(executor: Executor, offered: ProviderDescriptor) -> None:
    problems = descriptor_problems(executor, offered)
    if problems:
        raise ProviderError(
            Code.BINDING_DRIFT,
            f"executor {executor.role}: provider {executor.provider} is not the one that was bound: "
            + "; ".join(problems),
            remedy="continue with the Runner that admitted this Delivery, or admit the workflow anew",
        )


def _refuse_features(activation: Activation, offered: Mapping[str, ProviderDescriptor]) -> None:
    executors = {e.role: e for e in activation.executors}
    for step in activation.workflow.steps:
        action = step.action
        if not isinstance(action, AgentAction | GenerateAction):
            continue
        if action.executor not in executors:
            message = f"step {step.id}: no executor has the role {action.executor}"
            raise CallerError(Code.ACTIVATION_INVALID, message, remedy="bind the role at admission")
        provider = executors[action.executor].provider
        if isinstance(action, AgentAction) and action.asks and "tools" not in offered[provider].features:
            message = f"step {step.id}: provider {provider} has no tools feature, so its agent cannot ask"
            raise CallerError(Code.FEATURE_MISSING, message, remedy="leave 'asks' out, or bind another provider")
        if action.kind not in offered[provider].features:
            able = [key for key, d in offered.items() if action.kind in d.features]
            message = f"step {step.id}: provider {provider} has no {action.kind} feature"
            remedy = f"bind {action.executor} to one that has it: {', '.join(sorted(able)) or 'none is configured'}"
            raise CallerError(Code.FEATURE_MISSING, message, remedy=remedy)
        if isinstance(action, AgentAction) and action.session != "episode":
            message = f"step {step.id}: sessions that outlive an episode are not built"
            raise CallerError(Code.KIND_NOT_BUILT, message, remedy="leave 'session' out, or write 'episode'")
