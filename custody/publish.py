"""Guarded publication: one ref moves by compare-and-swap, asked durably before and known durably after.

What happened is always read from the ref, never from git's exit status. After a kill between asking and knowing, a ref that
is ours was published by us; one that is still as expected is asked for again; anything else is a conflict.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from custody.durable import sync_names
from custody.git import Git
from custody.repository import ABSENT, Repository, checked_out, read_ref
from custody.result import AUTHOR
from runner.contract.outcomes import Publication

Step = Literal["ask", "published", "already-at-target", "moved", "checked-out", "denied"]
LOCK_BYTES_MAX: Final = 256


def decide(*, asked: bool, current: str, expected: str, new: str, taken: bool, symbolic: bool) -> Step:
    """What the target's present value means. Pure. ``asked``: an earlier try was recorded; ``taken``: some worktree has it
    checked out; ``symbolic``: it only points to another ref, which is not ours to move."""
    if symbolic:
        return "denied"
    if current == new:
        return "published" if asked and expected != new else "already-at-target"
    if current != expected:
        return "moved"
    return "checked-out" if taken else "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The one ref that may move, from ``expected`` (an id or ``absent``) to ``new``."""

    ref: str
    expected: str
    new: str

    def known(self, step: Step, current: str) -> Publication:
        """The disposition of an end of ``decide``."""
        match step:
            case "published":
                return Publication(disposition="published", ref=self.ref, old=self.expected, new=self.new)
            case "already-at-target":
                return Publication(disposition="already-at-target", ref=self.ref, old=self.new, new=self.new)
            case "moved":
                return self._conflict(current, "moved")
            case "checked-out":
                return self._conflict(current, "checked-out")
            case "ask" | "denied":
                return self._conflict(current, "denied")

    def _conflict(self, current: str, reason: Literal["moved", "denied", "checked-out"]) -> Publication:
        """Both values: ``old`` is what it had to be, ``new`` what it is."""
        return Publication(disposition="conflict", ref=self.ref, old=self.expected, new=current, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Reads and moves one target in the user's repository."""

    git: Git
    repository: Repository
    target: Target

    def look(self, *, asked: bool) -> tuple[Step, str]:
        """What to do about the target now, and its present value. What is published survives a power cut."""
        current = read_ref(self.git, self.repository, self.target.ref)
        taken = self.target.ref in checked_out(self.git, self.repository)
        target = self.target
        step = decide(
            asked=asked,
            current=current,
            expected=target.expected,
            new=target.new,
            taken=taken,
            symbolic=symbolic(self.git, self.repository, target.ref),
        )
        if step == "published":
            sync_names(self.repository.common_dir, target.ref)
        return step, current

    def move(self) -> tuple[Step, str]:
        """Asks git once (twice after removing a lock that our own killed git left), then reads the ref: ``ask`` in the
        answer means that git refused and the ref is as it was."""
        self._ask()
        step, current = self.look(asked=True)
        if step == "ask" and self._free_own_lock():
            self._ask()
            step, current = self.look(asked=True)
        return step, current

    def _ask(self) -> None:
        target = self.target
        old = self.repository.zero if target.expected == ABSENT else target.expected
        # NUL-separated, so that no name can be read as anything else; a symbolic ref is never followed to another branch.
        lines = f"start\0update {target.ref}\0{target.new}\0{old}\0prepare\0commit\0"
        self.git.run(
            self.repository.place,
            *("update-ref", "--no-deref", "-m", "runner: publish", "-z", "--stdin"),
            stdin=lines.encode("utf-8", "surrogateescape"),
            env=AUTHOR,
            ok=range(256),
        )

    def _free_own_lock(self) -> bool:
        """A ref lock that holds exactly our new value was written by a git of ours that was killed: no other writer has
        that commit. Any other lock is somebody's and stays."""
        lock = Path(f"{self.repository.common_dir / self.target.ref}.lock")
        try:
            if (
                lock.is_symlink()
                or lock.stat().st_size > LOCK_BYTES_MAX
                or lock.read_bytes().strip() != self.target.new.encode()
            ):
                return False
            lock.unlink()
        except OSError:
            return False
        return True


def symbolic(git: Git, repository: Repository, ref: str) -> bool:
    """Whether ``ref`` only points to another ref: moving it would move that one, so it is no target."""
    answer = git.run(repository.place, "symbolic-ref", "-q", ref, ok=(0, 1, 128))
    return answer.status == 0
