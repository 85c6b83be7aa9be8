"""What the worktree was, what changed in it, how it is put back, and how a result is published. The only room of git.

Owned invariants
- Nothing of the user's is touched: no branch but the target, no stash, reflog, config, hook or exclude line, no HEAD; the
  only refs written are ``refs/runner/*`` and the target. The Delivery's own worktree has its files and its index entries put
  back by a restore, nothing else.
- Nothing of the repository's is run: no hook, filter, fsmonitor, signing; git's environment is built from an allow-list.
- A file is overwritten or deleted only while its bytes are in the private store; ignored files and whatever could not be
  captured are never overwritten or deleted.
- No path is reached through a symlink: every component below the worktree is opened by handle without following.
- A savepoint is taken whole and synced, or not at all; a git result is read back, never believed by its exit status.

``git`` is the only file that runs git, ``scope`` and the plans of ``restore`` are pure, ``custodian`` is the door.

Outside savepoint, verdict and restore: ignored files that git does not track, files above the size limit, and nested
repositories. The last two are reported with every savepoint.
"""

from custody.custodian import Custodian
from custody.verification import verify_custody

__all__ = ["Custodian", "verify_custody"]
