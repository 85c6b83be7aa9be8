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
SECTIONS: Final = ("providers", "tool_servers")
"""What stands in tables by key."""


def default_state_root() -> Path:
    """The user's XDG state directory for the Runner; the directory may not exist yet."""
    return platformdirs.user_state_path("runner")


class RunnerFactoryConfig(contract.RunnerFactoryConfig):
    """The contract's value, with the way to read it from a file."""

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads ``path`` (``.json`` is JSON, anything else TOML). ``CallerError`` with one finding per problem.

        Providers and tool servers stand in tables of their own, ``[providers.KEY]`` and ``[tool_servers.KEY]``.
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
            keys = {section: [table["key"] for table in normal[section]] for section in SECTIONS}
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


def _by_key(finding: Finding, keys: Mapping[str, list[str]]) -> Finding:
    """The finding with ``providers.0`` written as ``providers.KEY``, as it stands in the file."""
    parts = finding.place.split(".")
    if len(parts) > 1 and parts[0] in keys and parts[1].isdigit():
        parts[1] = keys[parts[0]][int(parts[1])]
    return replace(finding, place=".".join(parts))


def _normal(document: FrozenJson, source: str) -> Mapping[str, Any]:
    """The file's form (tables by key, optional state root) as the model's form."""
    if not isinstance(document, Mapping):
        raise CallerError(Code.CONFIG_INVALID, f"{source}: a config is a table of keys and values")
    fields: dict[str, Any] = dict(document)
    root = fields.get("state_root", str(default_state_root()))
    fields["state_root"] = _expanded(root) if isinstance(root, str) else root
    findings: list[Finding] = []
    for section in SECTIONS:
        fields[section] = _listed(section, fields.get(section, {}), findings)
    if findings:
        raise _invalid(source, tuple(findings))
    return fields


def _listed(section: str, tables: object, findings: list[Finding]) -> list[dict[str, Any]]:
    """Tables by key as a list in which each says its key."""
    if not isinstance(tables, Mapping):
        findings.append(Finding(place=section, problem="must be tables by key", fix=f"write [{section}.KEY]"))
        return []
    listed = []
    for key, table in tables.items():
        place = f"{section}.{key}"
        if not isinstance(table, Mapping):
            findings.append(Finding(place=place, problem="must be a table", fix=f"write [{place}]"))
            continue
        if "key" in table:
            findings.append(Finding(place=f"{place}.key", problem="is not a known key", fix="remove it"))
        listed.append({**table, "key": key})
    return listed


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
