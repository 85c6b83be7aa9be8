"""Exactly what was configured and bound, or an error before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from runner.contract.activation import AgentAction, Executor
from runner.contract.config import ProviderConfig
from runner.contract.errors import CallerError, Code, Finding, ProviderError, RunnerError
from runner.contract.scope import EVERYTHING
from runner.invocation.registry import Registry
from tests.invocation.fakes import (
    AGENT,
    ENVIRONMENT,
    GENERATE,
    SCHEMA,
    Script,
    ScriptedFactory,
    activation,
    config,
    executor,
)


def factory(key: str = "fake", **changes: Any) -> ScriptedFactory:
    return ScriptedFactory(Script(), key=key, **changes)


def registry(*factories: ScriptedFactory, **changes: Any) -> Registry:
    return Registry(
        factories=factories,
        config=changes.get("config") or config(*(f.key for f in factories)),
        environment=changes.get("environment", ENVIRONMENT),
    )


def refused(kind: type[RunnerError], code: Code, call: Any) -> RunnerError:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code is code
    return caught.value


def test_two_factories_with_one_key_are_refused() -> None:
    """A key means one provider."""
    error = refused(CallerError, Code.PROVIDER_DUPLICATE, lambda: registry(factory(), factory(), config=config("fake")))
    assert "fake" in error.message


def test_an_unknown_provider_is_refused_with_the_choices() -> None:
    """No nearest match, no fallback."""
    error = refused(
        CallerError, Code.PROVIDER_UNKNOWN, lambda: registry(factory("a"), factory("b"), config=config("c"))
    )
    assert "providers.c" in error.message
    assert "a, b" in error.remedy


def test_settings_are_refused_with_their_field_paths() -> None:
    """Every finding of every provider, in one pass."""
    one = factory("one", settings_findings=(Finding(place="url", problem="is missing", fix="add it"),))
    two = factory("two", settings_findings=(Finding(place="settings.n[0]", problem="is odd", fix=""),))
    error = refused(CallerError, Code.CONFIG_INVALID, lambda: registry(one, two))
    assert [f.place for f in error.findings] == ["providers.one.settings.url", "providers.two.settings.n[0]"]


def test_another_adapter_version_than_configured_is_refused() -> None:
    """A pinned version is exact."""
    pinned = config(providers=(ProviderConfig(key="fake", version="2"),))
    error = refused(CallerError, Code.CONFIG_INVALID, lambda: registry(factory(), config=pinned))
    assert error.findings[0].place == "providers.fake.version"


def check(tmp_path: Path, built: Registry, executors: tuple[Executor, ...], **actions: Any) -> None:
    built.check(activation(tmp_path, executors, **(actions or {"code": AGENT, "ask": GENERATE})))


def test_a_good_activation_passes_and_starts_nothing(tmp_path: Path) -> None:
    """Checking is not starting."""
    fake = factory()
    check(tmp_path, registry(fake), (executor(fake),))
    assert fake.started == 0


@pytest.mark.parametrize("changes", [{"version": "2"}, {"features": ("generate",)}])
def test_a_provider_that_is_not_the_bound_one_is_drift(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Version and descriptor, told field by field."""
    bound = executor(factory())
    error = refused(ProviderError, Code.BINDING_DRIFT, lambda: check(tmp_path, registry(factory(**changes)), (bound,)))
    assert "descriptor: bound sha256:" in error.message
    assert ("version: bound 1, here 2" in error.message) == ("version" in changes)


def test_a_provider_that_is_not_configured_is_unknown(tmp_path: Path) -> None:
    """Even if this Runner ships it."""
    fake, other = factory(), factory("other")
    built = registry(fake, other, config=config("other"))
    error = refused(CallerError, Code.PROVIDER_UNKNOWN, lambda: check(tmp_path, built, (executor(fake),)))
    assert "other" in error.remedy


def test_a_missing_feature_is_refused(tmp_path: Path) -> None:
    """Naming who has it."""
    poor, able = factory(features=("generate",)), factory("able")
    error = refused(CallerError, Code.FEATURE_MISSING, lambda: check(tmp_path, registry(poor, able), (executor(poor),)))
    assert "step code" in error.message
    assert "able" in error.remedy


def test_a_role_without_an_executor_is_refused(tmp_path: Path) -> None:
    """A parent of its own may have sealed anything."""
    fake = factory()
    error = refused(CallerError, Code.ACTIVATION_INVALID, lambda: check(tmp_path, registry(fake), ()))
    assert "coder" in error.message


def test_sessions_that_outlive_an_episode_are_refused(tmp_path: Path) -> None:
    """Not built, and said so before any effect."""
    fake = factory()
    action = AgentAction(executor="coder", prompt="p", scope=EVERYTHING, result_schema=SCHEMA, session="delivery")
    refused(CallerError, Code.KIND_NOT_BUILT, lambda: check(tmp_path, registry(fake), (executor(fake),), code=action))


def test_what_a_provider_holds_against_a_binding_is_refused(tmp_path: Path) -> None:
    """With the role's place."""
    fake = factory(executor_findings=(Finding(place="options.depth", problem="is no number", fix="write one"),))
    error = refused(CallerError, Code.BINDING_INVALID, lambda: check(tmp_path, registry(fake), (executor(fake),)))
    assert error.findings[0].place == "executors.coder.options.depth"


def test_an_unreadable_secret_of_a_used_provider_is_refused(tmp_path: Path) -> None:
    """Before anything starts; that of an unused one does not matter."""
    fake, other = factory(), factory("other")
    without = registry(fake, other, environment={})
    refused(CallerError, Code.SECRET_UNREADABLE, lambda: check(tmp_path, without, (executor(fake),)))
    providers = (ProviderConfig(key="fake"), *config("other").providers)
    unused = registry(fake, other, config=config(providers=providers), environment={})
    check(tmp_path, unused, (executor(fake),))


def test_a_provider_freezes_its_bindings_itself() -> None:
    """By exact key; an unknown one names the choices. Nothing starts."""
    fake, other = factory(), factory("other")
    built = registry(fake, other, config=config("other"))
    assert built.bind("other", "m") == ("other/m", None)
    error = refused(CallerError, Code.PROVIDER_UNKNOWN, lambda: built.bind("fake", "m"))
    assert "other" in error.remedy and other.started == 0


async def test_realms_start_once_when_used_and_close_in_reverse() -> None:
    """Each at its first use, never two, and never again after closing."""
    script = Script()
    a, b, c = (ScriptedFactory(script, key=key) for key in "abc")
    built = registry(a, b, c)
    assert await built.realm("b") is await built.realm("b")
    await built.realm("a")
    await built.close()
    await built.close()
    assert (a.started, b.started, c.started) == (1, 1, 0)
    assert script.realms_closed == ["a", "b"]
    with pytest.raises(ProviderError) as caught:
        await built.realm("c")
    assert caught.value.code is Code.PROVIDER_START_FAILED
    assert c.started == 0


async def test_a_failed_start_leaves_nothing_and_may_be_tried_again() -> None:
    """A foreign exception has a code by then."""
    fake = factory(start_errors=[OSError("refused")])
    built = registry(fake)
    with pytest.raises(ProviderError) as caught:
        await built.realm("fake")
    assert caught.value.code is Code.PROVIDER_START_FAILED
    await built.realm("fake")
    assert fake.started == 1
    await built.close()


def test_descriptors_are_those_of_the_config() -> None:
    """What admission freezes: configured providers only."""
    built = registry(factory("a"), factory("b"), config=config("b"))
    assert list(built.descriptors()) == ["b"]
