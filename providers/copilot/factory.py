"""The Copilot SDK: a known key that is not built yet."""

from typing import Final

from providers.unbuilt import UnbuiltFactory

FACTORY: Final = UnbuiltFactory(key="copilot-sdk", version="0", speaks="the Copilot SDK")
