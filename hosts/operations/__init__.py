"""Deterministic host operations: one supervised process per ``command`` step.

Owned invariants
- Nothing that a command started outlives the call: not after success, failure, timeout, cancellation, nor after the
  driver's own death by SIGKILL (``supervisor``).
- Intent and identity are durable before the process executes anything; how it ended is durable before the caller learns it.
- A recorded result was observed; what a cancellation cut short has none, like what a crash cut short.
- Output is bounded while it is read, redacted before it is kept, and harmless to show.
- The process sees PATH, HOME, LANG, LC_*, TMPDIR and what the step declared, nothing else of our environment.
- Contained, it reaches the worktree and nothing else: no network, no other file that is not the system's, no process outside.

Not covered with ``isolation = "none"``: what a process does while it runs. It has the user's rights, so it can also kill both
processes that supervise it; then its process group is still ended, but a child that left that group is not found.
"""

from hosts.operations.command import CommandRunner

__all__ = ["CommandRunner"]
