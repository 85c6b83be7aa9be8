"""Which config is used, and why: --config, RUNNER_CONFIG, the repository, the user's, else the built-in one."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig

FILE_NAME: Final = "runner.toml"
VARIABLE: Final = "RUNNER_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place that was looked at, in order."""

    name: str
    path: Path | None
    used: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """``path`` is None for the built-in config. ``why`` completes the sentence "this config is used because"."""

    path: Path | None
    why: str
    places: tuple[Place, ...]

    @property
    def source(self) -> str:
        """The file's path, or ``built-in``."""
        return "built-in" if self.path is None else str(self.path)


def look_up(
    explicit: Path | None,
    *,
    start: Path,
    environ: Mapping[str, str],
    user_config: Path,
    exists: Callable[[Path], bool] = Path.is_file,
) -> Lookup:
    """The first place that names or holds a config. A named file is used even if it is missing: loading then says so."""
    named = environ.get(VARIABLE) or None
    repository = repository_root(start)
    repository_file = repository / FILE_NAME if repository else None
    candidates: tuple[tuple[str, Path | None, bool, str], ...] = (
        ("--config", explicit, explicit is not None, "not given"),
        (VARIABLE, Path(named) if named else None, named is not None, "not set"),
        (
            "the repository",
            repository_file,
            repository_file is not None and exists(repository_file),
            f"no {FILE_NAME} at its root" if repository else f"{start} is in no git repository",
        ),
        ("the user's config", user_config, exists(user_config), "no such file"),
        ("built-in", None, True, ""),
    )
    places: list[Place] = []
    chosen: tuple[str, Path | None] | None = None
    for name, path, found, note in candidates:
        used = found and chosen is None
        places.append(Place(name=name, path=path, used=used, note="" if used else note if not found else "not needed"))
        if used:
            chosen = (name, path)
    name, path = chosen or ("built-in", None)
    return Lookup(path=path, why=_why(name), places=tuple(places))


def _why(name: str) -> str:
    match name:
        case "--config":
            return "it was named with --config"
        case "RUNNER_CONFIG":
            return f"{VARIABLE} names it"
        case "the repository":
            return "it stands at the root of the repository"
        case "the user's config":
            return "it is the user's config and nothing nearer exists"
        case _:
            return "no config file was found; it knows only the provider 'recorded'"


def repository_root(start: Path) -> Path | None:
    """The nearest directory at or above ``start`` that holds ``.git``."""
    for directory in (start, *start.parents):
        if (directory / ".git").exists():
            return directory
    return None


def find(explicit: Path | None, start: Path | None = None) -> Lookup:
    """``look_up`` for this process, from ``start`` (else the current directory)."""
    import platformdirs

    return look_up(
        explicit,
        start=(start or Path.cwd()).absolute(),
        environ=os.environ,
        user_config=platformdirs.user_config_path("runner") / FILE_NAME,
    )


def load(lookup: Lookup) -> "RunnerFactoryConfig":
    """The config that was found. ``CallerError`` for a file that is missing or invalid."""
    from runner.config_file import RunnerFactoryConfig

    return RunnerFactoryConfig.builtin() if lookup.path is None else RunnerFactoryConfig.load(lookup.path)
