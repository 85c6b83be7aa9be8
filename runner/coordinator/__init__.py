"""The coordinator: what becomes of a Delivery.

Owned invariants
- Before the fence nothing is written; one live driver per Delivery, one open Delivery per worktree.
- A Delivery is accepted once, its terminal is decided once, it settles once; a settlement never changes by a byte.
- Every phase transition stands in ``machine``; what comes next at the end follows from recorded facts alone.
- An effect whose end nobody saw is never repeated and never guessed.
- Observation changes and delays nothing.

Door: ``Coordinator``. Reading without one: ``inspect_delivery``, ``list_deliveries``.
"""

from runner.coordinator.coordinator import Coordinator, Interpret
from runner.coordinator.inspection import inspect_delivery, list_deliveries

__all__ = ["Coordinator", "Interpret", "inspect_delivery", "list_deliveries"]
