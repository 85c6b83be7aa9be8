"""Nothing happens without a genuine, current grant for this very worktree."""

import dataclasses
from pathlib import Path

import pytest

from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.scope import EVERYTHING, READ_ONLY
from tests.workspace_tools.desk import Desk, grant_of


def refused(desk: Desk) -> str:
    with pytest.raises(IntegrityError) as caught:
        desk("write", path="x", content="y")
    assert caught.value.code is Code.GRANT_INVALID
    assert list(desk.root.iterdir()) == []
    return caught.value.message


def test_an_altered_grant_is_refused(tmp_path: Path) -> None:
    """A grant whose scope was widened after signing does nothing."""
    desk = Desk(tmp_path, READ_ONLY)
    desk.grant = dataclasses.replace(desk.grant, scope=EVERYTHING)
    assert "signature" in refused(desk)


def test_an_expired_grant_is_refused(tmp_path: Path) -> None:
    """A grant ends with its time."""
    desk = Desk(tmp_path)
    desk.grant = grant_of(tmp_path, expires_at=0.0)
    assert "expired" in refused(desk)


def test_another_directory_at_the_same_path_is_refused(tmp_path: Path) -> None:
    """A grant is for a directory, not for a name."""
    root = tmp_path / "w"
    root.mkdir()
    desk = Desk(root)
    root.rename(tmp_path / "moved")
    root.mkdir()
    assert "not the one" in refused(desk)


def test_a_worktree_that_became_a_link_is_refused(tmp_path: Path) -> None:
    """The worktree itself is not reached through a link."""
    root = tmp_path / "w"
    root.mkdir()
    desk = Desk(root)
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path / "moved")
    assert "cannot be opened" in refused(desk)


def test_a_missing_worktree_is_refused(tmp_path: Path) -> None:
    """No worktree, no call, and an error with a code."""
    desk = Desk(tmp_path)
    desk.grant = grant_of(tmp_path, worktree=str(tmp_path / "gone"))
    assert "cannot be opened" in refused(desk)


def test_a_read_only_step_is_offered_no_writing_tool(tmp_path: Path) -> None:
    """What is not writable gets only tools that read, in the fixed order, whatever order was asked."""
    toolbox = Desk(tmp_path).toolbox
    asked = ("edit", "search", "read", "write", "list")
    assert [s.name for s in toolbox.specs(asked, writable=False)] == ["read", "list", "search"]
    assert [s.name for s in toolbox.specs(asked, writable=True)] == ["read", "list", "search", "write", "edit"]
    assert {s.name: s.effect for s in toolbox.specs(asked, writable=True)} == {
        "read": "read",
        "list": "read",
        "search": "read",
        "write": "workspace",
        "edit": "workspace",
    }


def test_an_unknown_tool_is_a_caller_error(tmp_path: Path) -> None:
    """Tools are a closed list, and the message names the choices."""
    with pytest.raises(CallerError) as caught:
        Desk(tmp_path).toolbox.specs(("read", "run"), writable=True)
    assert "run" in caught.value.message
    assert "search" in caught.value.remedy
