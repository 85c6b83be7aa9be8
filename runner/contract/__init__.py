"""The vocabulary that every room shares: ids, frozen values, events, outcomes, errors, protocols, limits.

Owned invariants
- Nothing here does I/O, reads a clock or draws a random number.
- Nothing here imports another room; every other room may import this one.
- Every value is frozen; whatever crosses a process or a file has exactly one canonical byte form.

Import the module that names the question: ``ids``, ``canonical``, ``model``, ``text``, ``activation``, ``plan``, ``config``,
``outcomes``, ``events``, ``records``, ``effects``, ``errors``, ``scope``, ``grant``, ``provider``, ``recording``,
``schema_patterns``, ``ports``, ``layout``, ``limits``.
"""
