"""What carries out a plan: the workflow host, and the deterministic operations that its steps use.

Owned invariants
- A host decides which step is next; it never decides what becomes of the Delivery.
- Nothing that a host started is alive after its call returned, raised or was cancelled.
"""
