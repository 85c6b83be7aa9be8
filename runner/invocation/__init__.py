"""Managed agent invocation: what did the agent answer, and was it valid?

Owned invariants
- Closed registry of providers; credentials leased for a call; secrets redacted wherever text crosses.
- Every model and tool call is journaled, intent before, result after.
- A result counts only when the action's schema admits it.

The door is ``invoke.Invocation`` for one Delivery, and ``registry.Registry`` for what one Runner's Deliveries share.
"""

from runner.invocation.invoke import Invocation
from runner.invocation.registry import Registry

__all__ = ["Invocation", "Registry"]
