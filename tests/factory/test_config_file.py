"""The config file: a closed value, or every problem with its place, before anything starts."""

import json
import os
from pathlib import Path

import pytest

from runner import RunnerFactoryConfig
from runner.contract.errors import CallerError, Code


def _write(tmp_path: Path, text: str, name: str = "runner.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def _refusal(path: Path) -> CallerError:
    with pytest.raises(CallerError) as caught:
        RunnerFactoryConfig.load(path)
    return caught.value


def test_a_config_file_becomes_the_frozen_value(tmp_path: Path) -> None:
    """TOML and JSON of the same content give equal values with the same meaning."""
    toml = _write(
        tmp_path,
        'state_root = "/srv/runner"\n[providers.openai]\ncredential = { env = "KEY" }\n'
        'settings = { base_url = "http://127.0.0.1:1/v1" }\n',
    )
    document = {
        "state_root": "/srv/runner",
        "providers": {"openai": {"credential": {"env": "KEY"}, "settings": {"base_url": "http://127.0.0.1:1/v1"}}},
    }
    from_toml = RunnerFactoryConfig.load(toml)
    from_json = RunnerFactoryConfig.load(_write(tmp_path, json.dumps(document), "runner.json"))
    assert from_toml == from_json
    assert from_toml.meaning == from_json.meaning
    with pytest.raises(ValueError, match="frozen"):
        from_toml.engine = "other"


def test_the_meaning_leaves_out_what_is_operational(tmp_path: Path) -> None:
    """State root, concurrency and the place of a secret may change under an open Delivery; settings may not."""
    base = (
        'state_root = "/a"\n[providers.openai]\ncredential = { env = "A" }\nsettings = { base_url = "http://h/v1" }\n'
    )
    moved = base.replace('"/a"', '"/b"').replace('"A"', '"B"') + "[concurrency]\nsteps = 9\n"
    other = base.replace("http://h/v1", "http://g/v1")
    one, two, three = (RunnerFactoryConfig.load(_write(tmp_path, text)).meaning for text in (base, moved, other))
    assert one == two
    assert one != three


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("enigne = 1\n", "enigne", "known key"),
        ('engine = "temporal"\n', "engine", "langgraph"),
        ('isolation = "docker"\n', "isolation", "bubblewrap"),
        ("[concurrency]\nsteps = 0\n", "concurrency.steps", "greater"),
        ("[concurrency]\nsteps = true\n", "concurrency.steps", "integer"),
        ('[providers.openai]\ncredential = { env = "A", file = "/b" }\n', "providers.openai.credential", "exactly one"),
        ("[providers.openai]\ncredentail = 1\n", "providers.openai.credentail", "known key"),
        ('state_root = "relative"\n', "state_root", "absolute"),
        ('state_root = "~nobody-of-that-name/x"\n', "state_root", "absolute"),
        ('state_root = "/a\\u0000b"\n', "state_root", "absolute"),
        ('record_dir = "relative"\n', "record_dir", "absolute"),
        ("state_root = 3\n", "state_root", "string"),
        ("providers = 3\n", "providers", "tables"),
    ],
)
def test_a_mistake_is_named_with_its_field(tmp_path: Path, text: str, place: str, word: str) -> None:
    """Unknown key, wrong type, value out of range: refused with the field's path and the reason."""
    error = _refusal(_write(tmp_path, text))
    assert error.code is Code.CONFIG_INVALID
    assert [f.place for f in error.findings] == [place]
    assert word in error.findings[0].problem
    assert error.remedy


def test_a_provider_that_stands_twice_is_refused(tmp_path: Path) -> None:
    """Neither TOML nor JSON may name one provider twice."""
    toml = _refusal(_write(tmp_path, "[providers.recorded]\n[providers.recorded]\n"))
    assert toml.code is Code.CONFIG_INVALID
    assert "recorded" in toml.message
    doubled = '{"providers": {"recorded": {}, "recorded": {}}}'
    assert "'recorded' stands twice" in _refusal(_write(tmp_path, doubled, "runner.json")).message


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    """One pass names every problem."""
    error = _refusal(_write(tmp_path, 'a = 1\nb = 2\nengine = "x"\n'))
    assert {f.place for f in error.findings} == {"a", "b", "engine"}


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = ", b"[" * 3000, b"\x00"])
def test_bytes_that_are_no_config_are_refused(tmp_path: Path, content: bytes) -> None:
    """Any bytes give a coded refusal that names the file."""
    path = tmp_path / "runner.toml"
    path.write_bytes(content)
    assert "runner.toml" in _refusal(path).message


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A directory or a pipe is named as such, and nothing waits for it."""
    os.mkfifo(tmp_path / "pipe.toml")
    assert "not a regular file" in _refusal(tmp_path / "pipe.toml").message
    assert "Is a directory" in _refusal(tmp_path).message


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Some editors write one."""
    path = tmp_path / "runner.toml"
    path.write_bytes(b"\xef\xbb\xbf[providers.recorded]\r\n")
    assert [p.key for p in RunnerFactoryConfig.load(path).providers] == ["recorded"]


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    """The refusal names the file and the next step."""
    error = _refusal(tmp_path / "none.toml")
    assert error.code is Code.CONFIG_NOT_FOUND
    assert "runner init" in error.remedy


def test_a_value_with_an_object_in_it_is_no_config() -> None:
    """A config holds data only: an object in settings is refused when the value is made."""
    with pytest.raises(ValueError, match="not JSON"):
        RunnerFactoryConfig(state_root="/s", providers=({"key": "openai", "settings": {"client": object()}},))  # type: ignore[arg-type]
