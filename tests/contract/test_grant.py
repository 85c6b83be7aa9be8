"""The workspace grant: genuine, current and for exactly this use, or refused."""

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from runner.contract.canonical import digest
from runner.contract.errors import Code, IntegrityError
from runner.contract.grant import GrantKey, WorkspaceGrant, sign, verify
from runner.contract.ids import DeliveryId, ObjectId
from runner.contract.scope import EVERYTHING, Scope

KEY = GrantKey(b"k" * 32)
SCOPE = Scope(kind="patterns", patterns=("src/**",))
DRAFT = WorkspaceGrant(
    delivery=DeliveryId("one"),
    step="implement@1",
    attempt=1,
    worktree="/worktree",
    device=2**63,
    inode=2**64 - 1,
    savepoint=ObjectId("a" * 40),
    scope=SCOPE,
    scope_digest=digest(SCOPE.to_json()),
    expires_at=100.0,
    nonce="n",
)
GRANT = replace(DRAFT, signature=sign(KEY, DRAFT))
USE: dict[str, Any] = {
    "delivery": GRANT.delivery,
    "step": GRANT.step,
    "device": GRANT.device,
    "inode": GRANT.inode,
    "now": 99.0,
}

ALTERED: dict[str, Any] = {
    "delivery": "two",
    "step": "implement@2",
    "attempt": 2,
    "worktree": "/elsewhere",
    "device": 1,
    "inode": 1,
    "savepoint": "b" * 40,
    "scope": EVERYTHING,
    "scope_digest": digest("other"),
    "expires_at": 1e9,
    "nonce": "m",
    "signature": "0" * 64,
}


def test_a_genuine_grant_is_accepted() -> None:
    """Signed and verified with one key, for its own use, before its end."""
    verify(KEY, GRANT, **USE)


def test_every_field_of_a_grant_is_covered_here() -> None:
    """A field that is added to the grant must be tried too."""
    assert set(ALTERED) == {field.name for field in dataclasses.fields(WorkspaceGrant)}


@pytest.mark.parametrize("field", ALTERED)
def test_a_grant_altered_in_any_field_is_refused(field: str) -> None:
    """The signature covers every field, whatever the altered grant is then used for."""
    altered = replace(GRANT, **{field: ALTERED[field]})
    use = {**USE, **{k: v for k, v in ALTERED.items() if k == field and k in USE}}
    with pytest.raises(IntegrityError, match="signature") as caught:
        verify(KEY, altered, **use)
    assert caught.value.code is Code.GRANT_INVALID


def test_a_grant_of_another_process_is_refused() -> None:
    """Keys are per process: after a restart old grants are worth nothing."""
    with pytest.raises(IntegrityError, match="another process"):
        verify(GrantKey(b"j" * 32), GRANT, **USE)


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ({"delivery": DeliveryId("two")}, "belongs to"),
        ({"step": "tests@1"}, "belongs to"),
        ({"device": 3}, "worktree"),
        ({"inode": 3}, "worktree"),
        ({"now": 100.0}, "expired"),
        ({"now": 1e9}, "expired"),
    ],
)
def test_a_genuine_grant_is_refused_for_another_use(use: dict[str, Any], why: str) -> None:
    """Foreign, moved and stale uses are told apart."""
    with pytest.raises(IntegrityError, match=why):
        verify(KEY, GRANT, **{**USE, **use})


def test_the_key_never_shows_its_secret() -> None:
    """A key in a message or a traceback gives nothing away."""
    assert "k" * 8 not in repr(KEY)
    assert str(b"k" * 8) not in str(KEY)
