"""Publication to a repository elsewhere: one push of one ref under a lease, and the truth about it from the ref itself.

Pushed from the private store, so that nothing the user's repository is configured with (address rewriting, credential
programs, hooks) takes part; the result's objects are borrowed. Whatever the push said or did not say, the ref is read back.
What it then means: ours is published, another value is a conflict, the expected one is refused only if the other side said
so; else nobody knows, the Delivery stays open, and the same push may be asked again: the lease makes it count once.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from custody.git import Git, Place
from custody.publish import Step, Target, decide
from custody.repository import ABSENT, Repository
from custody.store import Store
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.remotes import ANSWER_S, ref_in

SAID_CHARS_MAX: Final = 500
_REFUSED: Final = re.compile(r"^!\t[^\t]*\t\[remote rejected\]", re.MULTILINE)
"""In the porcelain answer: the other side looked at the ref and said no."""
_FORBIDDEN: Final = re.compile(r"returned error: 40[13]\b|Permission to .+ denied")
"""In the error output: the other side knows who asks and does not let them write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a repository elsewhere may say nothing, and how long a push may take."""

    answer_s: float = ANSWER_S
    push_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePublisher:
    """Reads and moves one target at ``url``; as ``publish.Publisher`` does in the user's repository."""

    git: Git
    store: Store
    repository: Repository
    target: Target
    url: str
    patience: Patience = field(default_factory=Patience)

    def look(self, *, asked: bool) -> tuple[Step, str]:
        """What to do about the target now, and its present value. ``REMOTE_UNREACHABLE`` when that cannot be known."""
        target = self.target
        try:
            words = ("ls-remote", "--", self.url, target.ref)
            listing = self.git.run_remote(self.store.place, *words, timeout_s=self.patience.answer_s).stdout
        except EnvironmentFault as error:
            raise self._unreachable(error.message) from None
        current = ref_in(listing, target.ref) or ABSENT
        step = decide(
            asked=asked, current=current, expected=target.expected, new=target.new, taken=False, symbolic=False
        )
        return step, current

    def move(self) -> tuple[Step, str]:
        """Pushes once, then reads the ref. ``REMOTE_UNREACHABLE`` when it is as it was and nobody refused."""
        refused, said = self._push()
        step, current = self.look(asked=True)
        if step != "ask":
            return step, current
        if refused:
            return "denied", current
        raise self._unreachable(f"{self.target.ref} is as it was after a push that was not answered: {said}")

    def _push(self) -> tuple[bool, str]:
        """Whether the other side refused, and what it said."""
        target, common = self.target, self.repository.common_dir
        place = Place(git_dir=self.store.path, borrowed=common / "objects")
        shallow = common / "shallow"
        lease = "" if target.expected == ABSENT else target.expected
        try:
            answer = self.git.run_remote(
                place,
                *("push", "--porcelain", "--atomic", "--no-verify", f"--force-with-lease={target.ref}:{lease}"),
                *("--", self.url, f"{target.new}:{target.ref}"),
                env={"GIT_SHALLOW_FILE": str(shallow)} if shallow.is_file() else None,
                ok=range(-64, 256),
                timeout_s=self.patience.push_s,
            )
        except EnvironmentFault as error:
            return False, error.message
        told = answer.stdout.decode("utf-8", "replace")
        refused = _REFUSED.search(told) is not None or _FORBIDDEN.search(answer.stderr) is not None
        return refused, answer.stderr[-SAID_CHARS_MAX:] or f"exit status {answer.status}"

    def _unreachable(self, why: str) -> EnvironmentFault:
        return EnvironmentFault(
            Code.REMOTE_UNREACHABLE,
            f"{self.url}: {why[: 2 * SAID_CHARS_MAX]}",
            remedy="see that it can be reached and written to without a question, then execute again: the push counts once",
        )
