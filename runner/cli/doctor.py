"""What ``runner doctor`` looks at: everything a Delivery needs from this machine, without changing anything."""

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from runner.cli import config_lookup
from runner.cli.run_view import isolation_text
from runner.cli.terminal import Line, Style
from runner.contract.errors import RunnerError

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig
    from runner.contract.config import CredentialSource

State = Literal["ok", "note", "problem"]
PRIVATE_MODES = (0o600, 0o400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. Only a ``problem`` keeps Deliveries from running."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def examine(lookup: config_lookup.Lookup) -> tuple[Check, ...]:
    """Every check, also when an early one finds a problem."""
    checks = [_platform(), _python(), _git(), *_places(lookup)]
    try:
        config = config_lookup.load(lookup)
    except RunnerError as error:
        findings = "; ".join(str(f) for f in error.findings)
        detail = f"{error.message}{': ' + findings if findings else ''}"
        return (*checks, Check(name="config", state="problem", detail=detail, remedy=error.remedy))
    checks.append(Check(name="config", state="ok", detail=f"{lookup.source}, because {lookup.why}"))
    if not lookup.trusted:
        checks.append(_trust(lookup))
    return (
        *checks,
        _state_root(Path(config.state_root)),
        *_providers(config),
        *_tool_servers(config, lookup),
        _isolation(config),
    )


def _platform() -> Check:
    match sys.platform:
        case "linux":
            return Check(name="platform", state="ok", detail=f"linux, {os.uname().release}")
        case "darwin":
            detail = "macOS: a daemon that a command starts in a session of its own is not found and ended"
            return Check(name="platform", state="note", detail=detail)
        case other:
            return Check(
                name="platform", state="problem", detail=f"{other} is not supported", remedy="use Linux or macOS"
            )


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check(name="python", state="ok", detail=f"{version}, {sys.executable}")


def _git() -> Check:
    from runner.admission.history import git_version

    try:
        return Check(name="git", state="ok", detail=git_version())
    except RunnerError as error:
        return Check(name="git", state="problem", detail=error.message, remedy=error.remedy)


def _places(lookup: config_lookup.Lookup) -> Iterator[Check]:
    for place in lookup.places:
        where = str(place.path) if place.path else ""
        detail = "used" if place.used else place.note
        yield Check(
            name=f"config: {place.name}", state="ok" if place.used else "note", detail=f"{where} ({detail})".strip()
        )


def _trust(lookup: config_lookup.Lookup) -> Check:
    """What a config that was only found is good for."""
    try:
        config_lookup.load_to_act(lookup)
    except RunnerError as error:
        fields = ", ".join(finding.place for finding in error.findings)
        return Check(name="config trust", state="problem", detail=f"{error.message}: {fields}", remedy=error.remedy)
    detail = "it was only found, so it is used as long as it says neither where a secret is nor where to write"
    return Check(name="config trust", state="note", detail=detail)


def _state_root(root: Path) -> Check:
    """Whether it can be written, or made: nothing is made here."""
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not existing.is_dir():
        detail, remedy = f"{existing} is not a directory", "set state_root in the config to another path"
    elif not os.access(existing, os.W_OK | os.X_OK):
        detail, remedy = f"{existing} is not writable", "make it writable, or set state_root in the config"
    else:
        made = "" if existing == root else " (will be made)"
        return Check(name="state root", state="ok", detail=f"{root}{made}")
    return Check(name="state root", state="problem", detail=detail, remedy=remedy)


def _providers(config: "RunnerFactoryConfig") -> Iterator[Check]:
    from runner.factory import RunnerFactory

    try:
        descriptors = RunnerFactory(config).descriptors()
    except RunnerError as error:
        findings = "; ".join(str(f) for f in error.findings)
        yield Check(
            name="providers", state="problem", detail=f"{error.message} {findings}".strip(), remedy=error.remedy
        )
        return
    for provider in config.providers:
        descriptor = descriptors[provider.key]
        detail = f"version {descriptor.version}, {', '.join(descriptor.features) or 'known but not built yet'}"
        problem = secret_problem(provider.credential) if provider.credential else None
        if problem:
            yield Check(
                name=f"provider {provider.key}",
                state="problem",
                detail=f"{detail}; its secret cannot be read: {problem}",
                remedy="set the variable or the file that the config names",
            )
            continue
        secret = "; its secret can be read" if provider.credential else ""
        yield Check(name=f"provider {provider.key}", state="ok", detail=detail + secret)


def _tool_servers(config: "RunnerFactoryConfig", lookup: config_lookup.Lookup) -> Iterator[Check]:
    """Whether each answers; bounded by its start. None is started for a config that may not name any."""
    if not config.tool_servers:
        return
    try:
        config_lookup.load_to_act(lookup)
    except RunnerError:
        return  # said by the check of trust
    from runner.cli.tool_listing import listings

    for found in listings(config):
        name = f"tool server {found.server}"
        if found.fault is None:
            yield Check(name=name, state="ok", detail=f"answers, offers {len(found.tools)} tools")
        else:
            yield Check(name=name, state="problem", detail=found.fault.message, remedy=found.fault.remedy)


def secret_problem(source: "CredentialSource") -> str | None:
    """Why the secret cannot be read, or None. The secret itself is not looked at."""
    if source.env is not None:
        return None if os.environ.get(source.env) else f"the environment variable {source.env} is not set"
    path = Path(source.file or "").expanduser()
    try:
        info = path.stat()
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not stat.S_ISREG(info.st_mode):
        return f"{path} is not a file"
    if stat.S_IMODE(info.st_mode) not in PRIVATE_MODES:
        return f"{path} has mode {stat.S_IMODE(info.st_mode):04o}, others may read it: chmod 600"
    return None if os.access(path, os.R_OK) else f"{path} is not readable"


def _isolation(config: "RunnerFactoryConfig") -> Check:
    """What the boundary holds, found out by trying to get out of it."""
    from runner.factory import probe_boundary

    try:
        held = probe_boundary(config.boundary)
    except RunnerError as error:
        if config.isolation == "none":
            detail = f"{isolation_text('none')}; {error.message}"
            return Check(name="isolation", state="note", detail=detail)
        return Check(name="isolation", state="problem", detail=error.message, remedy=error.remedy)
    if config.isolation == "none":
        detail = f'{isolation_text("none")}; isolation = "bubblewrap" would hold here'
        return Check(name="isolation", state="note", detail=detail)
    return Check(name="isolation", state="ok", detail=f"{isolation_text(config.isolation)}; {held}")


# --- shown -----------------------------------------------------------------------------------------------------------

_MARKS: dict[State, tuple[str, Style]] = {
    "ok": ("ok     ", "green"),
    "note": ("note   ", ""),
    "problem": ("PROBLEM", "red"),
}


def lines_of(checks: tuple[Check, ...]) -> list[Line]:
    """For people."""
    lines: list[Line] = []
    for check in checks:
        mark, style = _MARKS[check.state]
        lines.append((f"{mark}  {check.name:<28} {check.detail}", style))
        if check.remedy:
            lines.append((f"           what to do: {check.remedy}", "cyan"))
    return lines


def document_of(checks: tuple[Check, ...]) -> dict[str, object]:
    """For scripts."""
    shown = [{"name": c.name, "state": c.state, "detail": c.detail, "remedy": c.remedy} for c in checks]
    return {"ok": not any(c.state == "problem" for c in checks), "checks": shown}
