"""``RunnerFactoryConfig``: closed, frozen, without objects."""

from typing import Any

import pytest
from pydantic import ValidationError

from runner.contract.canonical import freeze
from runner.contract.config import CredentialSource, ProviderConfig, RunnerFactoryConfig
from runner.contract.errors import Finding
from runner.contract.model import read_model


class Service:
    """A ready-made object that must never enter by construction."""

    def __call__(self) -> None: ...


def config(**fields: Any) -> RunnerFactoryConfig:
    """A config with everything else at its default."""
    return RunnerFactoryConfig(**{"state_root": "/state", **fields})


@pytest.mark.parametrize("thing", [Service(), Service, print, lambda: None, b"bytes", {1, 2}, object()])
@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: {"client": x}, lambda x: {"a": [{"b": x}]}], ids=["bare", "field", "deep"]
)
def test_a_config_with_an_object_in_it_is_refused(thing: object, wrap: Any) -> None:
    """No client, callback or service passes through a provider's settings, at any depth."""
    with pytest.raises(ValidationError, match="is not JSON"):
        ProviderConfig(key="openai", settings=wrap(thing))


@pytest.mark.parametrize("field", ["engine", "isolation", "state_root", "providers", "concurrency", "record_dir"])
def test_no_field_takes_an_object(field: str) -> None:
    """Every field has its type; nothing is coerced and nothing is called."""
    with pytest.raises(ValidationError):
        config(**{field: Service()})


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, "state_root"),
        ({"state_root": "/s", "surprise": 1}, "surprise"),
        ({"state_root": "/s", "engine": "temporal"}, "engine"),
        ({"state_root": "/s", "isolation": "docker"}, "isolation"),
        ({"state_root": "/s", "format": 2}, "format"),
        *(
            ({"state_root": "/s", "boundary": {"readable": [path]}}, "boundary.readable")
            for path in ("x", "/", "/a/../b", "/a/", "/run", "/proc/1", "/dev")
        ),
        ({"state_root": 3}, "state_root"),
        ({"state_root": "/s", "concurrency": {"steps": 0}}, "concurrency.steps"),
        ({"state_root": "/s", "concurrency": {"steps": "4"}}, "concurrency.steps"),
        ({"state_root": "/s", "providers": [{"key": "Open AI"}]}, "providers.0.key"),
        ({"state_root": "/s", "providers": [{"key": "a", "priority": 1}]}, "providers.0.priority"),
        ({"state_root": "/s", "providers": [{"key": "a", "credential": {}}]}, "providers.0.credential"),
        (
            {"state_root": "/s", "providers": [{"key": "a", "credential": {"value": "s"}}]},
            "providers.0.credential.value",
        ),
    ],
)
def test_a_wrong_config_is_refused_with_the_fields_path(document: dict[str, Any], place: str) -> None:
    """Unknown keys, wrong types and values that are not built: one finding each, at its place."""
    findings = read_model(RunnerFactoryConfig, freeze(document))
    assert isinstance(findings, tuple)
    assert [f.place for f in findings if isinstance(f, Finding)] == [place]


def test_a_provider_may_stand_once() -> None:
    """Two entries of one key would need a choice, and there is none."""
    with pytest.raises(ValidationError, match="provider openai stands twice"):
        config(providers=(ProviderConfig(key="openai"), ProviderConfig(key="openai", version="2")))


@pytest.mark.parametrize("root", ["", "state", "./state", "~/state"])
def test_the_state_root_is_absolute(root: str) -> None:
    """Where state lives must not depend on where the process was started."""
    with pytest.raises(ValidationError, match="absolute"):
        config(state_root=root)


@pytest.mark.parametrize("fields", [{}, {"env": "A", "file": "/f"}, {"env": ""}, {"env": "1A"}, {"env": "A B"}])
def test_a_secret_has_exactly_one_source(fields: dict[str, str]) -> None:
    """An environment variable or a file; never both, never neither, never the secret itself."""
    with pytest.raises(ValidationError):
        CredentialSource(**fields)


def test_a_config_is_frozen_to_the_bottom() -> None:
    """Nobody who is handed a config can change it for others, nor through what it was made from."""
    settings = {"base_url": "http://one", "headers": {"a": "b"}}
    made = config(providers=(ProviderConfig(key="openai", settings=settings),))
    settings["base_url"] = "http://two"
    assert made.providers[0].settings["base_url"] == "http://one"
    with pytest.raises(TypeError):
        made.providers[0].settings["headers"]["a"] = "c"
    with pytest.raises(ValidationError):
        made.state_root = "/other"  # type: ignore[misc]


def test_meaning_is_what_decides_and_nothing_else() -> None:
    """Roots, concurrency, recording and secret locations may change under an open Delivery; providers may not."""
    one = config(providers=(ProviderConfig(key="openai", settings={"base_url": "http://one"}),))
    same = config(
        state_root="/elsewhere",
        record_dir="/records",
        concurrency={"steps": 9},
        providers=(
            ProviderConfig(key="openai", settings={"base_url": "http://one"}, credential=CredentialSource(env="KEY")),
        ),
    )
    other = config(providers=(ProviderConfig(key="openai", settings={"base_url": "http://two"}),))
    more = config(providers=(*one.providers, ProviderConfig(key="recorded")))
    assert one.meaning == same.meaning
    assert len({str(c.meaning) for c in (one, other, more)}) == 3


def test_a_provider_is_found_by_its_exact_key() -> None:
    """No prefix, no case folding, no fallback."""
    made = config(providers=(ProviderConfig(key="openai"), ProviderConfig(key="recorded")))
    assert made.provider("recorded") == made.providers[1]
    assert made.provider("OpenAI") is None
    assert made.provider("open") is None
