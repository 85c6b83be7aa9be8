"""The workflow host on LangGraph: which step now?

Owned invariants
- The graph's position is a fold of the ledger; a checkpoint is a snapshot of it and only saves time.
- Readiness and routing are pure functions of plan and position (``readiness``); a node decides nothing.
- Step entries have one lawful order, one durable transaction per boundary (``journal``).
- At most one attempt holds the worktree, and at most one such attempt is open in the ledger.
- Everything that a drive started has ended when it returns or raises; LangGraph is imported nowhere else.

The door is ``host.open_host``; ``drawing`` shows a plan. Nothing is re-exported: importing LangGraph takes 0.7 s, and whoever
needs the host imports it when a Delivery is driven.
"""
