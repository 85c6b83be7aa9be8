"""The headless DeepSeek Harness: a known key that is not built yet."""

from typing import Final

from providers.unbuilt import UnbuiltFactory

FACTORY: Final = UnbuiltFactory(key="dsh-headless", version="0", speaks="the headless DeepSeek Harness")
