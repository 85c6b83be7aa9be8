"""The file tools that agents work with: read, list, search, write, edit, all under a signed workspace grant.

Owned invariants
- Every path is walked from the worktree's own directory handle, one component at a time, following no link; what is reached
  is below the worktree whatever anybody swaps meanwhile.
- ``.git``, in any spelling a file system folds to it, is neither read, listed, searched nor written.
- A write outside the grant's scope has no effect; a write inside it is whole or not at all.
- Everything a model is shown is bounded, in a fixed order, with control characters escaped and cuts marked.
"""

from providers.workspace_tools.toolbox import WorkspaceToolbox

__all__ = ["WorkspaceToolbox"]
