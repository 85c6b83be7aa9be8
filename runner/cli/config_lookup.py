"""Which config is used, and why: --config, RUNNER_CONFIG, the repository, the user's, else the built-in one."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig

FILE_NAME: Final = "runner.toml"
VARIABLE: Final = "RUNNER_CONFIG"
NAMED: Final = "--config"
REPOSITORY: Final = "the repository"
USER: Final = "the user's config"
BUILTIN: Final = "built-in"
_WHY: Final = {
    NAMED: "it was named with --config",
    VARIABLE: f"{VARIABLE} names it",
    REPOSITORY: "it stands at the root of the repository",
    USER: "it is the user's config and nothing nearer exists",
    BUILTIN: "no config file was found; it knows only the provider 'recorded'",
}


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
    trusted: bool = True
    """Whether a person named the config, or it is the user's own. One that was only found in the repository may have been
    written by anybody who can write there."""

    @property
    def source(self) -> str:
        """The file's path, or ``built-in``."""
        return BUILTIN if self.path is None else str(self.path)


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
        (NAMED, explicit, explicit is not None, "not given"),
        (VARIABLE, Path(named) if named else None, named is not None, "not set"),
        (
            REPOSITORY,
            repository_file,
            repository_file is not None and exists(repository_file),
            f"no {FILE_NAME} at its root" if repository else f"{start} is in no git repository",
        ),
        (USER, user_config, exists(user_config), "no such file"),
        (BUILTIN, None, True, ""),
    )
    places: list[Place] = []
    chosen: tuple[str, Path | None] | None = None
    for name, path, found, note in candidates:
        used = found and chosen is None
        places.append(Place(name=name, path=path, used=used, note="" if used else note if not found else "not needed"))
        if used:
            chosen = (name, path)
    name, path = chosen or (BUILTIN, None)
    trusted = name != REPOSITORY or path == user_config
    return Lookup(path=path, why=_WHY[name], places=tuple(places), trusted=trusted)


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
    """The config that was found, for looking at what exists. ``CallerError`` for a file that is missing or invalid, and for
    one that was only found and says where something is to be written (``config-untrusted``)."""
    from runner.config_file import RunnerFactoryConfig, default_state_root

    if lookup.path is None:
        return RunnerFactoryConfig.builtin()
    config = RunnerFactoryConfig.load(lookup.path)
    if not lookup.trusted:
        moved = config.state_root != str(default_state_root())
        _refuse(lookup, [*(["state_root"] if moved else []), *(["record_dir"] if config.record_dir else [])])
    return config


def load_to_act(lookup: Lookup) -> "RunnerFactoryConfig":
    """``load``, for commands that may use a provider: one that was only found may not name a secret either, nor a tool server,
    nor open the boundary. It could send the secret to an address of its own, or start a program of its own."""
    config = load(lookup)
    if not lookup.trusted:
        secrets = [f"providers.{p.key}.credential" for p in config.providers if p.credential]
        opened = (
            ["isolation"] if config.isolation == "none" else ["boundary.readable"] if config.boundary.readable else []
        )
        _refuse(lookup, [*secrets, *opened, *(f"tool_servers.{server.key}" for server in config.tool_servers)])
    return config


def _refuse(lookup: Lookup, fields: list[str]) -> None:
    from runner.contract.errors import CallerError, Code, Finding

    if not fields:
        return
    raise CallerError(
        Code.CONFIG_UNTRUSTED,
        f"{lookup.source} was only found, in a repository that others may write to; so it may not say where a secret is, "
        "what to start, what is not contained, or where to write",
        remedy=f"read it, then say that you trust it by naming it: --config {shlex.quote(lookup.source)}, or {VARIABLE}",
        findings=[Finding(place=field, problem="not from a config that was only found", fix="") for field in fields],
    )
