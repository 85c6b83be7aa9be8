"""Every provider this Runner knows, by exact key and version. Closed: nothing is discovered, nothing falls back."""

from providers.acp.factory import FACTORY as ACP
from providers.codex.factory import FACTORY as CODEX
from providers.copilot.factory import FACTORY as COPILOT
from providers.dsh.factory import FACTORY as DSH
from providers.openai.factory import OpenAiFactory
from providers.recorded.factory import RecordedFactory
from runner.contract.provider import ProviderFactory


def factories() -> tuple[ProviderFactory, ...]:
    """All factories, in the order people see them. Cheap: no SDK is imported, nothing is read."""
    return (OpenAiFactory(), RecordedFactory(), ACP, CODEX, COPILOT, DSH)
