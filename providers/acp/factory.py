"""Agents behind the Agent Client Protocol: a known key that is not built yet."""

from typing import Final

from providers.unbuilt import UnbuiltFactory

FACTORY: Final = UnbuiltFactory(key="acp", version="0", speaks="any agent that speaks the Agent Client Protocol")
