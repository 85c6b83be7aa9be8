"""The Runner: carries out one agent workflow over a git worktree, killable anywhere, settling the same.

The public face is ``RunnerFactory``, ``RunnerFactoryConfig``, ``Dependencies`` and the values they answer with. A Runner has
exactly ``execute``, ``inspect`` and ``cancel``; ``RunnerFactory.open_records`` reads what exists and runs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig
    from runner.factory import Dependencies, Runner, RunnerFactory

__all__ = ["Dependencies", "Runner", "RunnerFactory", "RunnerFactoryConfig"]


def __getattr__(name: str) -> Any:
    """Loads the face on first use, so that importing one room does not import the others."""
    import importlib

    match name:
        case "RunnerFactoryConfig":
            return importlib.import_module("runner.config_file").RunnerFactoryConfig
        case "Dependencies" | "Runner" | "RunnerFactory":
            return getattr(importlib.import_module("runner.factory"), name)
        case _:
            raise AttributeError(name)
