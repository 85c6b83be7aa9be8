"""A worktree with a toolbox on it."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

from providers.workspace_tools import WorkspaceToolbox
from runner.clock import SystemClock
from runner.contract.canonical import digest, freeze
from runner.contract.grant import GrantKey, WorkspaceGrant, sign
from runner.contract.ids import DeliveryId, ObjectId
from runner.contract.provider import ToolOutcome
from runner.contract.scope import EVERYTHING, Scope

KEY = GrantKey(b"k" * 32)


def grant_of(root: Path, scope: Scope = EVERYTHING, **changes: Any) -> WorkspaceGrant:
    """A genuine grant for ``root``; ``changes`` are signed too."""
    found = root.stat()
    grant = WorkspaceGrant(
        delivery=DeliveryId("d"),
        step="a@1",
        attempt=1,
        worktree=str(root),
        device=found.st_dev,
        inode=found.st_ino,
        savepoint=ObjectId("0" * 40),
        scope=scope,
        scope_digest=digest(scope.to_json()),
        expires_at=SystemClock().monotonic() + 1_000,
        nonce="n",
    )
    grant = dataclasses.replace(grant, **changes)
    return dataclasses.replace(grant, signature=sign(KEY, grant))


class Desk:
    """Calls tools the way invocation does, and waits for them."""

    def __init__(self, root: Path, scope: Scope = EVERYTHING) -> None:
        self.root = root
        self.grant = grant_of(root, scope)
        self.toolbox = WorkspaceToolbox(key=KEY, clock=SystemClock())

    def __call__(self, tool: str, **arguments: Any) -> ToolOutcome:
        (spec,) = self.toolbox.specs((tool,), writable=True)
        return asyncio.run(self.toolbox.call(self.grant, spec, freeze(arguments), key=digest("k")))

    def ok(self, tool: str, **arguments: Any) -> str:
        outcome = self(tool, **arguments)
        assert outcome.ok, outcome.text
        return outcome.text

    def refused(self, tool: str, **arguments: Any) -> str:
        outcome = self(tool, **arguments)
        assert not outcome.ok, outcome.text
        assert outcome.changed == ()
        return outcome.text
