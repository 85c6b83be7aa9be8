"""The tools that a package declares -> what exactly they are, frozen from what their servers offer. Pure."""

from collections.abc import Mapping

from runner.admission.load import LoadedPackage
from runner.contract.activation import DeclaredTool
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.ports import OfferedTool


def servers_of(loaded: LoadedPackage) -> tuple[str, ...]:
    """The servers that must be asked before the package can be admitted."""
    return tuple(dict.fromkeys(tool.server for tool in loaded.tools.values()))


def declared_tools(loaded: LoadedPackage, offers: Mapping[str, tuple[OfferedTool, ...]]) -> tuple[DeclaredTool, ...]:
    """One per tool of the package, in its order. ``CallerError`` (binding-invalid) with every one that is not offered."""
    found: list[Finding] = []
    tools: list[DeclaredTool] = []
    for number, (name, wanted) in enumerate(loaded.tools.items()):
        remote = wanted.name or name
        offer = next((o for o in offers.get(wanted.server, ()) if o.remote == remote), None)
        if offer is None:
            found.append(_missing(loaded.origins.place(f"tools.{number}"), wanted.server, remote, offers))
            continue
        tools.append(
            DeclaredTool(
                name=name,
                server=wanted.server,
                remote=remote,
                description=offer.description,
                parameters=offer.parameters,
                effect=wanted.effect,
                digest=offer.digest,
            )
        )
    if found:
        raise CallerError(
            Code.BINDING_INVALID,
            f"the package {loaded.name!r:.100} names tools that are not offered",
            remedy="'runner tools' lists what the configured servers offer",
            findings=found,
        )
    return tuple(tools)


def _missing(place: str, server: str, remote: str, offers: Mapping[str, tuple[OfferedTool, ...]]) -> Finding:
    if server not in offers:
        problem, fix = f"the tool server {server!r} is not configured", f"add [tool_servers.{server}] to the config"
    else:
        known = ", ".join(o.remote for o in offers[server]) or "nothing"
        problem, fix = f"the tool server {server!r} offers no {remote!r:.200}", f"it offers: {known:.400}"
    return Finding(place=place, problem=problem, fix=fix)
