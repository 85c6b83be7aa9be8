"""What ``runner tools`` shows: what the configured tool servers offer, and how a package declares it."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.cli.terminal import Line
from runner.contract.canonical import thaw
from runner.contract.errors import EnvironmentFault, RunnerError
from runner.contract.ports import OfferedTool

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig

NAME_CHARS_MAX = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One server's answer: what it offers, or why it gave none."""

    server: str
    tools: tuple[OfferedTool, ...] = ()
    fault: RunnerError | None = None


def listings(config: "RunnerFactoryConfig") -> tuple[Listing, ...]:
    """Every configured server is started, asked and ended; one that does not answer hides no other."""
    return asyncio.run(_asked(config))


async def _asked(config: "RunnerFactoryConfig") -> tuple[Listing, ...]:
    return tuple(await asyncio.gather(*(_ask(config, server.key) for server in config.tool_servers)))


async def _ask(config: "RunnerFactoryConfig", key: str) -> Listing:
    from runner.factory import RunnerFactory

    try:
        return Listing(server=key, tools=(await RunnerFactory(config).offers((key,)))[key])
    except RunnerError as error:
        return Listing(server=key, fault=error)


def declaration(server: str, tool: OfferedTool) -> str:
    """The line for a package's ``tools:``. The effect is the author's to say; left out, it is ``external``."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in tool.remote.lower()).lstrip("_0123456789")
    name = name[:NAME_CHARS_MAX] or "tool"
    remote = "" if name == tool.remote else f", name: {_quoted(tool.remote)}"
    return f"{name}: {{ server: {server}{remote}, effect: external }}"


def _quoted(text: str) -> str:
    from runner.contract.canonical import canonical

    return canonical(text).decode()


def lines_of(found: tuple[Listing, ...]) -> list[Line]:
    """For people."""
    if not found:
        return ["no tool server is configured: write [tool_servers.KEY] into the config"]
    lines: list[Line] = []
    for listing in found:
        if listing.fault is not None:
            lines += [(listing.fault.message, "red"), (f"  what to do: {listing.fault.remedy}", "cyan")]
            continue
        lines.append(f"{listing.server}: {len(listing.tools)} tools")
        for tool in listing.tools:
            first = tool.description.strip().split("\n")[0]
            lines += [
                f"  {tool.remote}" + (f"  {first:.100}" if first else ""),
                (f"    {tool.digest}", "dim"),
                (f"    tools: {{ {declaration(listing.server, tool)} }}", "cyan"),
            ]
    return lines


def document_of(found: tuple[Listing, ...]) -> dict[str, Any]:
    """For scripts."""
    return {"servers": [_server(listing) for listing in found]}


def _server(listing: Listing) -> dict[str, Any]:
    tools = [
        {
            "name": tool.remote,
            "description": tool.description,
            "parameters": thaw(tool.parameters),
            "digest": tool.digest,
            "declare": declaration(listing.server, tool),
        }
        for tool in listing.tools
    ]
    fault = listing.fault
    error = None if fault is None else {"code": fault.code.value, "message": fault.message, "remedy": fault.remedy}
    return {"server": listing.server, "tools": tools, "error": error}


def first_fault(found: tuple[Listing, ...]) -> RunnerError | None:
    """What keeps a package from being admitted: the machine's faults before the caller's."""
    faults = [listing.fault for listing in found if listing.fault is not None]
    return next((f for f in faults if isinstance(f, EnvironmentFault)), faults[0] if faults else None)
