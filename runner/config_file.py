"""The configuration as a file: TOML (or JSON) -> the closed, frozen ``RunnerFactoryConfig``, or every problem in it."""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import platformdirs

from runner.contract import config as contract
from runner.contract.canonical import FrozenJson, freeze, parse
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.model import read_model

CONFIG_BYTES_MAX: Final = 1024 * 1024


def default_state_root() -> Path:
    """The user's XDG state directory for the Runner; the directory may not exist yet."""
    return platformdirs.user_state_path("runner")


class RunnerFactoryConfig(contract.RunnerFactoryConfig):
    """The contract's value, with the way to read it from a file."""

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads ``path`` (``.json`` is JSON, anything else TOML). ``CallerError`` with one finding per problem.

        Providers stand in tables of their own, ``[providers.KEY]`` with ``credential``, ``version`` and ``settings``.
        ``state_root`` may be left out and may begin with ``~``. No secret source is opened here.
        """
        source = Path(path)
        return cls._checked(_read(source), str(source))

    @classmethod
    def builtin(cls, state_root: Path | None = None) -> Self:
        """What is used where no file is found: only the ``recorded`` provider, which needs no network and no key."""
        return cls._checked(
            {"providers": {"recorded": {}}, "state_root": str(state_root or default_state_root())}, "built-in"
        )

    @classmethod
    def _checked(cls, document: FrozenJson, source: str) -> Self:
        normal = _normal(document, source)
        result = read_model(cls, freeze(normal))
        if isinstance(result, tuple):
            keys = [provider["key"] for provider in normal["providers"]]
            raise _invalid(source, tuple(_by_key(finding, keys) for finding in result))
        return result


def _read(source: Path) -> FrozenJson:
    try:
        # A pipe would hang; where nobody writes into it, it reads as empty.
        with os.fdopen(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is not a regular file")
            data = file.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        raise CallerError(
            Code.CONFIG_NOT_FOUND,
            f"there is no config file {source}",
            remedy="name an existing one with --config or RUNNER_CONFIG, or write one with 'runner init'",
        ) from None
    except OSError as error:
        problem = f"{source} cannot be read: {error.strerror or error}"
        raise CallerError(Code.CONFIG_INVALID, problem, remedy="name a readable file") from None
    if len(data) > CONFIG_BYTES_MAX:
        problem = f"{source} is larger than {CONFIG_BYTES_MAX} bytes"
        raise CallerError(Code.CONFIG_INVALID, problem, remedy="is that the right file?")
    try:
        if source.suffix == ".json":
            return parse(data)
        return freeze(tomllib.loads(data.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        raise CallerError(Code.CONFIG_INVALID, f"{source}: {error}", remedy="correct the file at that place") from None


def _by_key(finding: Finding, keys: list[str]) -> Finding:
    """The finding with ``providers.0`` written as ``providers.KEY``, as it stands in the file."""
    parts = finding.place.split(".")
    if len(parts) > 1 and parts[0] == "providers" and parts[1].isdigit():
        parts[1] = keys[int(parts[1])]
    return replace(finding, place=".".join(parts))


def _normal(document: FrozenJson, source: str) -> Mapping[str, Any]:
    """The file's form (provider tables by key, optional state root) as the model's form."""
    if not isinstance(document, Mapping):
        raise CallerError(Code.CONFIG_INVALID, f"{source}: a config is a table of keys and values")
    fields: dict[str, Any] = dict(document)
    root = fields.get("state_root", str(default_state_root()))
    fields["state_root"] = _expanded(root) if isinstance(root, str) else root
    tables = fields.get("providers", {})
    if not isinstance(tables, Mapping):
        raise _invalid(
            source, (Finding(place="providers", problem="must be tables by key", fix="write [providers.KEY]"),)
        )
    findings, providers = [], []
    for key, table in tables.items():
        if not isinstance(table, Mapping):
            findings.append(
                Finding(place=f"providers.{key}", problem="must be a table", fix=f"write [providers.{key}]")
            )
            continue
        if "key" in table:
            findings.append(Finding(place=f"providers.{key}.key", problem="is not a known key", fix="remove it"))
        providers.append({**table, "key": key})
    if findings:
        raise _invalid(source, tuple(findings))
    return {**fields, "providers": providers}


def _expanded(root: str) -> str:
    """With the user's home for ``~``; as it stands (so, not absolute) where there is no such home."""
    try:
        return str(Path(root).expanduser())
    except RuntimeError:
        return root


def _invalid(source: str, findings: tuple[Finding, ...]) -> CallerError:
    return CallerError(
        Code.CONFIG_INVALID,
        f"{source} is not a valid config",
        remedy="correct the fields named; docs/config.md lists them all",
        findings=findings,
    )
