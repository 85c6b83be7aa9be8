"""A real repository, a real ledger, and a Delivery over them; the user's side of git is run here and nowhere else."""

import datetime as dt
import hashlib
import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from custody import Custodian
from custody.remote import Patience
from custody.scan import Budget
from runner.contract import ports
from runner.contract.activation import (
    Activation,
    AgentAction,
    CommandAction,
    Step,
    Target,
    Workflow,
    Workspace,
    seal,
)
from runner.contract.events import (
    InterventionResolved,
    SavepointTaken,
    StepAttemptStarted,
    StepCompleted,
    StepFailed,
    StepScheduled,
)
from runner.contract.grant import GrantKey, WorkspaceGrant
from runner.contract.ids import DeliveryId, Digest, ObjectId, SiteId, StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.plan import Plan, Site
from runner.contract.records import Draft
from runner.contract.scope import EVERYTHING, Scope
from runner.ledger.store import create_or_open
from tests.bridges import Nobody

ZERO_DIGEST = "sha256:" + "0" * 64
ADMITTED_AT = "2026-01-02T03:04:05Z"


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 2, tzinfo=dt.UTC) + dt.timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Silent:
    def progress(self, step: StepRef, text: str) -> None:
        """Nobody looks."""


class Killed(BaseException):
    """What a test raises where a process would die: nothing may catch it."""


@dataclass
class KillAt:
    """Kills in front of the effect with this number, counted from 0."""

    number: int

    def __call__(self, what: str) -> None:
        self.number -= 1
        if self.number == -1:
            raise Killed(what)


def patterns(*globs: str) -> Scope:
    return Scope(kind="patterns", patterns=globs)


@dataclass
class Repo:
    """The user's repository and what they do to it."""

    path: Path

    def git(self, *args: str | bytes, stdin: bytes = b"", cwd: Path | None = None, ok: bool = True) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path.parent / "home"),
            "GIT_AUTHOR_NAME": "User",
            "GIT_AUTHOR_EMAIL": "user@localhost",
            "GIT_COMMITTER_NAME": "User",
            "GIT_COMMITTER_EMAIL": "user@localhost",
            "GIT_AUTHOR_DATE": "2025-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2025-01-01T00:00:00Z",
        }
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.path, env=env, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0 or not ok, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def at(self, name: bytes) -> Path:
        return self.path / os.fsdecode(name)

    def write(self, name: str | bytes, data: str | bytes = "x\n", mode: int | None = None) -> Path:
        path = self.at(os.fsencode(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            path.chmod(mode)
        return path

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def commit(self, message: str = "base") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def show(self, commit: str, name: str) -> bytes:
        return subprocess.run(
            ["git", "show", f"{commit}:{name}"], cwd=self.path, capture_output=True, check=True
        ).stdout

    def worktree(self, name: str) -> "Repo":
        path = self.path.parent / name
        self.git("worktree", "add", "-q", "--detach", str(path))
        return Repo(path)


def new_repo(path: Path, *, files: dict[str, str] | None = None, object_format: str = "sha1") -> Repo:
    path.mkdir(parents=True)
    repo = Repo(path)
    repo.git("init", "-q", "-b", "main", f"--object-format={object_format}")
    for name, text in (files or {"a.txt": "a\n", "src/b.py": "b = 1\n", ".gitignore": "*.log\nbuild/\n"}).items():
        repo.write(name, text)
    repo.commit()
    return repo


def fingerprint(repo: Repo, *, target: str = "") -> dict[str, str]:
    """Everything of the user's that a Delivery must leave as it is, by name and digest; only ``refs/runner`` and the
    target may differ, and object files may be added."""
    common = repo.path / ".git"
    refs = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    found = {r.split()[0]: r for r in refs if not r.startswith("refs/runner/") and r.split()[0] != target}
    for path in sorted(common.rglob("*")):
        name = str(path.relative_to(common))
        skipped = name.startswith(("objects/", "refs/runner", "refs/heads")) or name in ("objects", "refs")
        if not skipped and path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    found["stash"] = repo.git("stash", "list")
    found["entries"] = repo.git("ls-files", "-s", "-v")
    return found


def tree_of(path: Path) -> dict[str, tuple[str, int, bytes]]:
    """A worktree's files and directories with kind, mode bits and content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for place in sorted(path.rglob("*")):
        name = str(place.relative_to(path))
        if name == ".git" or name.startswith(".git/"):
            continue
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", 0, os.fsencode(place.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            found[name] = ("dir", stat.S_IMODE(status.st_mode), b"")
        elif stat.S_ISREG(status.st_mode):
            found[name] = ("file", stat.S_IMODE(status.st_mode), place.read_bytes())
        else:
            found[name] = ("special", stat.S_IMODE(status.st_mode), b"")
    return found


def lose_object(store: Path, oid: str) -> None:
    """Takes one object out of a store, packed or not."""
    for pack in sorted((store / "objects/pack").glob("*.pack")):
        data = pack.read_bytes()
        for part in pack.parent.glob(f"{pack.stem}.*"):
            part.unlink()
        subprocess.run(["git", "--git-dir", str(store), "unpack-objects", "-q"], input=data, check=True)
    (store / "objects" / oid[:2] / oid[2:]).unlink()


def activation_for(
    repo: Repo,
    *,
    delivery: str,
    target: str,
    expected: str,
    include_dirty: bool,
    base: str | None = None,
    remote: str | None = None,
) -> Activation:
    commit = base or repo.git("rev-parse", "HEAD")
    step = Step(id="work", action=CommandAction(run=("true",), scope=EVERYTHING))
    return seal(
        delivery=delivery,
        admitted_at=ADMITTED_AT,
        workflow=Workflow(name="demo", input_schema=None, steps=(step,)),
        workspace=Workspace(
            worktree=str(repo.path),
            base_commit=commit,
            base_tree=repo.git("rev-parse", f"{commit}^{{tree}}"),
            include_dirty=include_dirty,
        ),
        target=Target(ref=target, expected=expected, remote=remote),
    )


@dataclass
class Delivery:
    """One Delivery as its host and coordinator would drive it. ``restart`` is a new process after a kill."""

    repo: Repo
    state: Path
    delivery: str = "d1"
    target: str = "refs/heads/result"
    expected: str = "absent"
    remote: str | None = None
    include_dirty: bool = False
    agent: bool = False
    """Whether the step is an agent's; else it is a command."""
    budget: Budget | None = None
    patience: Patience | None = None
    before_effect: Callable[[str], None] | None = None
    clock: Clock = field(default_factory=Clock)
    visit: int = 0

    def __post_init__(self) -> None:
        self.activation = activation_for(
            self.repo,
            delivery=self.delivery,
            target=self.target,
            expected=self.expected,
            include_dirty=self.include_dirty,
            remote=self.remote,
        )
        self.layout = DeliveryLayout(self.state / self.delivery)
        self.layout.root.mkdir(parents=True, exist_ok=True)
        self.reopen()

    def reopen(self) -> None:
        """What a new process does first."""
        self.key = GrantKey(os.urandom(32))
        self.ledger = create_or_open(self.layout, clock=self.clock)
        action = self.activation.workflow.steps[0].action
        if self.agent:
            action = AgentAction(executor="coder", prompt="p", scope=EVERYTHING, result_schema=None)
        plan = Plan(
            delivery=DeliveryId(self.delivery),
            activation=Digest(self.activation.binding_identity),
            sites=(Site(id=SiteId("work"), action=action),),
            reopens=(),
            output=None,
            input=None,
            digest=Digest(ZERO_DIGEST),
        )
        case = ports.Case(
            activation=self.activation,
            plan=plan,
            layout=self.layout,
            ledger=self.ledger,
            progress=Silent(),
            waits=Nobody(),
            interactions=Nobody(),
        )
        self.custody = Custodian(
            case=case,
            writer=self.ledger.writer("custody"),
            key=self.key,
            clock=self.clock,
            budget=self.budget,
            patience=self.patience,
            before_effect=self.before_effect or (lambda _: None),
        )

    def restart(self) -> None:
        self.custody.close()
        self.ledger.close()
        self.reopen()

    def close(self) -> None:
        self.custody.close()
        self.ledger.close()

    def begin(self, scope: Scope = EVERYTHING, *, resume: bool = False) -> WorkspaceGrant:
        """Opens the next visit of the step, or the open one again."""
        if not resume:
            self.visit += 1
        grant = self.ask(scope, resume=resume)
        assert isinstance(grant, WorkspaceGrant), grant
        return grant

    def ask(self, scope: Scope = EVERYTHING, *, resume: bool = False) -> WorkspaceGrant | ports.ForeignEdit:
        """Asks for a grant as a host does, and records the start of an attempt that is new. Killed before it was recorded,
        an attempt begins anew."""
        host, opened_at = self.ledger.writer("host"), None
        if resume:
            record = self.ledger.last(frozenset({StepAttemptStarted.KIND}), self.step)
            if record is not None and isinstance(record.event, StepAttemptStarted):
                opened_at = ObjectId(record.event.savepoint)
        grant = self.custody.begin(self.step, 1, scope, opened_at=opened_at, expires_in_s=60.0)
        if isinstance(grant, ports.ForeignEdit):
            host.append()
        elif opened_at is None:
            if self.ledger.last(frozenset({StepScheduled.KIND}), self.step) is None:
                host.append(Draft(event=StepScheduled(), step=self.step))
            event = StepAttemptStarted(savepoint=grant.savepoint, input=ZERO_DIGEST)
            host.append(Draft(event=event, step=self.step, attempt=1))
        return grant

    def mark(self, grant: WorkspaceGrant, *paths: str) -> ports.Savepoint:
        """A mid-step savepoint, recorded as with the result of a tool call."""
        kept = self.custody.mark(grant, paths)
        self.ledger.writer("host").append()
        return kept

    def resolve(self, resolution: Literal["adopt", "discard"]) -> None:
        """What the coordinator records of a person's word."""
        event = InterventionResolved(call="", resolution=resolution, who="somebody")
        self.ledger.writer("coordinator").append(Draft(event=event))

    def taken(self, role: str | None = None) -> list[SavepointTaken]:
        """The recorded savepoints (of ``role``), in order."""
        events = [record.event for record in self.ledger.read(kinds=frozenset({SavepointTaken.KIND}))]
        return [e for e in events if isinstance(e, SavepointTaken) and role in (None, e.role)]

    @property
    def step(self) -> StepRef:
        return StepRef(site=SiteId("work"), visit=self.visit)

    def end(self, verdict: ports.Verdict) -> None:
        """Records the step's end as a host does."""
        commit = verdict.savepoint.commit
        event = (
            StepCompleted(outcome="success", output=None, savepoint=commit)
            if isinstance(verdict, ports.Accepted)
            else StepFailed(outcome="failure", code="c", message="m", retriable=False, savepoint=commit)
        )
        self.ledger.writer("host").append(Draft(event=event, step=self.step, attempt=1))

    def attempt(self, work: Callable[[], object], scope: Scope = EVERYTHING, *, keep: bool = True) -> ports.Verdict:
        """One whole attempt that does ``work``."""
        grant = self.begin(scope)
        work()
        verdict = self.custody.settle(grant) if keep else self.custody.discard(grant)
        self.end(verdict)
        return verdict
