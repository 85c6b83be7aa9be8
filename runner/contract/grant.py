"""The workspace grant: a signed value that lets a provider's tools touch one worktree for one attempt (custody.md).

Custody signs, tools verify; both hold the process's ``GrantKey``, which is never stored, so a restart issues new grants.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from runner.contract.canonical import canonical
from runner.contract.errors import Code, IntegrityError
from runner.contract.ids import DeliveryId, Digest, ObjectId
from runner.contract.scope import Scope


@dataclass(frozen=True, slots=True)
class GrantKey:
    secret: bytes

    def __repr__(self) -> str:
        return "GrantKey(…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceGrant:
    delivery: DeliveryId
    step: str
    """``StepRef.key`` of the step."""
    attempt: int
    worktree: str
    device: int
    inode: int
    savepoint: ObjectId
    """Where the attempt started; a rejected attempt returns to it."""
    scope: Scope
    scope_digest: Digest
    expires_at: float
    """Seconds of the clock protocol's ``monotonic``."""
    nonce: str
    signature: str = ""


def sign(key: GrantKey, grant: WorkspaceGrant) -> str:
    """The HMAC-SHA-256 over every field but the signature."""
    fields: dict[str, Any] = {k: v for k, v in _plain(grant).items() if k != "signature"}
    return hmac.new(key.secret, canonical(fields), hashlib.sha256).hexdigest()


def _plain(grant: WorkspaceGrant) -> dict[str, Any]:
    """The grant as plain JSON."""
    fields = {name: getattr(grant, name) for name in WorkspaceGrant.__slots__}
    return {**fields, "scope": grant.scope.to_json(), "inode": str(grant.inode), "device": str(grant.device)}


def verify(
    key: GrantKey, grant: WorkspaceGrant, *, delivery: DeliveryId, step: str, device: int, inode: int, now: float
) -> None:
    """Nothing, if ``grant`` is genuine, current and for exactly this use; else ``IntegrityError`` (``grant-invalid``)."""

    def refuse(why: str) -> IntegrityError:
        return IntegrityError(Code.GRANT_INVALID, f"workspace grant for {grant.step} refused: {why}")

    if not hmac.compare_digest(sign(key, grant), grant.signature):
        raise refuse("its signature does not fit (altered, or from another process)")
    if grant.delivery != delivery or grant.step != step:
        raise refuse(f"it belongs to {grant.delivery} {grant.step}")
    if (grant.device, grant.inode) != (device, inode):
        raise refuse("the worktree is not the one it was issued for")
    if now >= grant.expires_at:
        raise refuse("it has expired")
