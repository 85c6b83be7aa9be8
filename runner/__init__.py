"""The Runner: carries out one agent workflow over a git worktree, killable anywhere, settling the same.

The public face is ``RunnerFactory``, ``RunnerFactoryConfig``, ``Dependencies`` and the values they answer with. A Runner has
exactly ``execute``, ``inspect`` and ``cancel``; ``RunnerFactory.open_records`` reads what exists and runs nothing.
Names load on first use, so that importing one room does not import the others.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig
    from runner.contract.outcomes import (
        Busy,
        CancelAck,
        DeliveryState,
        Interrupted,
        NeedsIntervention,
        Settled,
        Suspended,
    )
    from runner.factory import Dependencies, Runner, RunnerFactory
    from runner.records import Records

__all__ = [
    "Busy",
    "CancelAck",
    "DeliveryState",
    "Dependencies",
    "Interrupted",
    "NeedsIntervention",
    "Records",
    "Runner",
    "RunnerFactory",
    "RunnerFactoryConfig",
    "Settled",
    "Suspended",
]

_HOMES = {"RunnerFactoryConfig": "runner.config_file", "Records": "runner.records"} | dict.fromkeys(
    ("Dependencies", "Runner", "RunnerFactory"), "runner.factory"
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    return getattr(importlib.import_module(_HOMES.get(name, "runner.contract.outcomes")), name)
