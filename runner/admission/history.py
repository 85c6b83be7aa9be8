"""What the parent asks git besides worktrees: its version, what changed between two states, a new repository with one commit."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from runner.admission.worktree import GitFailed, required_git, run_git
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.ids import OBJECT_ID_PATTERN

AUTHOR: Final = "Runner demo <demo@localhost>"
DATE: Final = "1767225600 +0000"
"""2026-01-01: the same files give the same commit on every machine."""


def git_version() -> str:
    """``git version 2.39.5``; ``EnvironmentFault(git-missing)``."""
    return required_git()


def diffstat(repository: Path, base: str, commit: str) -> str:
    """``git diff --stat`` of the two commits; empty when git cannot say (the repository is gone, say)."""
    if not (re.fullmatch(OBJECT_ID_PATTERN, base) and re.fullmatch(OBJECT_ID_PATTERN, commit)):
        return ""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--stat=100", f"{base}..{commit}", "--")
    try:
        return run_git(repository, *words).decode(errors="replace").rstrip()
    except (GitFailed, EnvironmentFault):
        return ""


def diff(store: Path, before: str, after: str) -> str:
    """``git diff`` of two trees in a git store of our own, its statistics first; empty when git cannot say. Runs nothing that a
    repository names: the store's configuration is ours."""
    if not (re.fullmatch(OBJECT_ID_PATTERN, before) and re.fullmatch(OBJECT_ID_PATTERN, after)):
        return ""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--stat=78", "--patch", before, after, "--")
    try:
        return run_git(store, *words).decode(errors="replace").rstrip()
    except (GitFailed, EnvironmentFault):
        return ""


def make_repository(directory: Path, files: Mapping[str, bytes], message: str) -> None:
    """A new repository in ``directory`` with one commit on ``main`` that holds ``files``, checked out.
    ``EnvironmentFault(git-failed)`` when git refuses."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        # No template: the user's sample hooks and excludes are no part of the demo.
        run_git(directory, "init", "--quiet", "--template=", "--initial-branch=main")
        run_git(directory, "fast-import", "--quiet", data=import_stream(files, message))
        run_git(directory, "reset", "--quiet", "--hard")
    except GitFailed as error:
        raise EnvironmentFault(
            Code.GIT_FAILED,
            f"git could not make a repository in {directory}: {error}",
            remedy="git 2.36 or newer is needed",
        ) from None


def import_stream(files: Mapping[str, bytes], message: str) -> bytes:
    """One commit in the language of ``git fast-import``. Pure. Names are plain: our own data."""
    text = message.encode()
    head = f"commit refs/heads/main\ncommitter {AUTHOR} {DATE}\ndata {len(text)}\n".encode()
    parts = [head, text, b"\n"]
    for name, data in sorted(files.items()):
        parts += [f"M 100644 inline {name}\ndata {len(data)}\n".encode(), data, b"\n"]
    return b"".join(parts)
