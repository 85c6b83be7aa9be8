"""Prepares a fresh worktree as the package says: commands run in it, ignored paths copied or linked from the user's checkout.

Runs as the user, before any Delivery exists; a package is trusted like code. What setup leaves must be ignored by git: anything
else would be found in the worktree later as a change that nobody made.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from runner.admission.package import SetupStep
from runner.admission.worktree import Checkout, changed_paths
from runner.contract.errors import CallerError, Code, EnvironmentFault, Finding

TIMEOUT_S: Final = 900.0
OUTPUT_SHOWN_BYTES: Final = 4_000
_KEPT: Final = ("PATH", "HOME", "LANG", "TMPDIR")


def run_setup(steps: Sequence[SetupStep], checkout: Checkout, *, timeout_s: float = TIMEOUT_S) -> None:
    """Runs ``steps`` in order. ``EnvironmentFault`` (``setup-failed``) with the end of the output of a command that failed;
    ``CallerError`` for a path that is not there, is tracked, or is left unignored. The worktree is left as it is then."""
    for step in steps:
        if step.run is not None:
            _run(step.run, checkout.path, timeout_s)
        else:
            _bring(step, checkout)
    left = changed_paths(checkout) if steps else []
    if left:
        raise CallerError(
            Code.SETUP_FAILED,
            f"setup left {len(left)} paths in the worktree that git does not ignore",
            remedy="add them to .gitignore or .git/info/exclude",
            findings=[Finding(place=repr(path)[1:-1], problem=state, fix="ignore it") for state, path in left[:20]],
        )


def _bring(step: SetupStep, checkout: Checkout) -> None:
    name = step.copy_path or step.link or ""
    source, target = checkout.repository.root / name, checkout.path / name
    if not source.resolve().is_relative_to(checkout.repository.root):
        raise _refused(name, "leads out of the repository", "name a path inside it")
    if not source.exists():
        raise _refused(
            name, f"is not in {str(checkout.repository.root)!r}", "make it there first, or remove it from setup"
        )
    if os.path.lexists(target):
        raise _refused(name, "is already in the worktree: git tracks it", "copy or link ignored paths only")
    try:
        if not target.parent.resolve().is_relative_to(checkout.path):
            raise _refused(name, "leads out of the worktree", "name a path inside it")
        target.parent.mkdir(parents=True, exist_ok=True)
        if step.link is not None:
            target.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
    except (OSError, shutil.Error) as error:
        raise EnvironmentFault(
            Code.SETUP_FAILED, f"setup of {name!r} failed: {error}", remedy="check rights and space"
        ) from None


def _refused(name: str, why: str, remedy: str) -> CallerError:
    return CallerError(Code.SETUP_FAILED, f"setup: {name!r:.200} {why}", remedy=remedy)


def _run(argv: Sequence[str], directory: Path, timeout_s: float) -> None:
    """One command in a process group of its own, which is killed as a whole when time is up or the Runner is interrupted."""
    shown = " ".join(argv)[:200]
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                cwd=directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            remedy = "install it, or correct the package's setup"
            raise EnvironmentFault(Code.SETUP_FAILED, f"setup cannot run {shown!r}: {error}", remedy=remedy) from None
        ended = False
        try:
            status = process.wait(timeout_s)
            ended = True
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(
                Code.SETUP_FAILED, f"setup {shown!r} did not end in {timeout_s:g} s", remedy="make it faster"
            ) from None
        finally:
            _kill_group(process, ended=ended)
        if status != 0:
            end = _tail(output.fileno())
            message = f"setup {shown!r} ended with status {status}" + (f":\n{end}" if end else "")
            raise EnvironmentFault(Code.SETUP_FAILED, message, remedy="run it by hand in the repository to see why")


def _kill_group(process: subprocess.Popen[bytes], *, ended: bool) -> None:
    """Also after a regular end: whatever the command left in the background would write into the worktree later."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        ended = ended or process.poll() is not None
    if not ended:
        process.wait()


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, OUTPUT_SHOWN_BYTES, max(0, size - OUTPUT_SHOWN_BYTES))
    text = data.decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
