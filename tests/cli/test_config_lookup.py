"""Which config is used: the nearest that was named or exists, and the reason is said."""

from pathlib import Path

import pytest

from runner.cli import config_lookup
from runner.cli.config_lookup import look_up, repository_root

USER = Path("/home/u/.config/runner/runner.toml")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "deep" / "er").mkdir(parents=True)
    return tmp_path / "repo"


def test_order(repository: Path) -> None:
    """--config, RUNNER_CONFIG, the repository, the user's, built-in: each wins over what comes after it."""
    start, here = repository / "deep" / "er", repository / "runner.toml"
    everywhere, nowhere = (lambda path: True), (lambda path: False)
    env = {"RUNNER_CONFIG": "/env.toml"}
    found = [
        look_up(Path("/x.toml"), start=start, environ=env, user_config=USER, exists=everywhere),
        look_up(None, start=start, environ=env, user_config=USER, exists=everywhere),
        look_up(None, start=start, environ={}, user_config=USER, exists=everywhere),
        look_up(None, start=start, environ={}, user_config=USER, exists=lambda path: path == USER),
        look_up(None, start=start, environ={"RUNNER_CONFIG": ""}, user_config=USER, exists=nowhere),
    ]
    assert [lookup.path for lookup in found] == [Path("/x.toml"), Path("/env.toml"), here, USER, None]
    assert len({lookup.why for lookup in found}) == 5
    assert [[p.used for p in lookup.places].index(True) for lookup in found] == [0, 1, 2, 3, 4]


def test_outside_a_repository(tmp_path: Path) -> None:
    """Without a repository that place is skipped, and the reason says so."""
    lookup = look_up(None, start=tmp_path, environ={}, user_config=USER, exists=lambda path: False)
    place = next(p for p in lookup.places if p.name == "the repository")
    assert place.path is None and "no git repository" in place.note


def test_worktrees_have_a_file_instead_of_a_directory(tmp_path: Path) -> None:
    """A linked worktree's root is found too: its ``.git`` is a file."""
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "a").mkdir()
    assert repository_root(tmp_path / "a") == tmp_path


def test_built_in_knows_only_the_recorded_provider() -> None:
    """Without any file nothing can reach a network."""
    lookup = look_up(None, start=Path("/"), environ={}, user_config=USER, exists=lambda path: False)
    assert [p.key for p in config_lookup.load(lookup).providers] == ["recorded"]
