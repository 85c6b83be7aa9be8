"""The Codex command line: a known key that is not built yet."""

from typing import Final

from providers.unbuilt import UnbuiltFactory

FACTORY: Final = UnbuiltFactory(key="codex-cli", version="0", speaks="the Codex command line")
