"""Tools of other programs: servers that speak the Model Context Protocol, and Python entry points of the embedding parent.

Owned invariants
- A tool is called only while its server describes it exactly as it was admitted.
- One session per server and Runner, started at its first use. A server's processes end with the session, and with the driver,
  however that ends.
- A call whose end nobody saw is never reported as done or as not done.
- Everything that comes from a server is bounded before it is read.
"""

from providers.tool_servers.servers import ToolServers

__all__ = ("ToolServers",)
