"""One small world for whole Deliveries: a user's repository, a worktree, a state root, an endpoint; real all of it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from providers.catalogue import factories
from runner import Dependencies, RunnerFactory, RunnerFactoryConfig, Settled
from runner.contract import activation as a
from runner.contract.config import CredentialSource, ProviderConfig
from runner.contract.outcomes import ExecuteResult, Settlement
from runner.contract.records import Record
from runner.contract.scope import EVERYTHING, READ_ONLY, Scope

SECRET = "sk-a-secret-that-no-file-may-hold"
PY = sys.executable
ADMITTED_AT = "2026-01-02T03:04:05Z"


def git(where: Path, *args: str, ok: bool = True) -> str:
    """What the user's git prints; their configuration lives in the repository alone."""
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), ADMITTED_AT)
    done = subprocess.run(["git", "-C", str(where), *args], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0 or not ok, done.stderr
    return done.stdout.strip()


def command(id: str, *run: str, scope: Scope = EVERYTHING, **more: Any) -> a.Step:
    """A command step that keeps to the worktree."""
    step = {k: more.pop(k) for k in ("needs", "routes", "budget_visits", "when", "timeout_s") if k in more}
    return a.Step(id=id, action=a.CommandAction(run=run, scope=scope, effect="workspace", **more), **step)


def agent(id: str, prompt: str, scope: Scope, schema: dict[str, Any] | None = None, **more: Any) -> a.Step:
    step = {k: more.pop(k) for k in ("needs", "routes", "budget_visits", "when", "timeout_s") if k in more}
    action = a.AgentAction(executor="coder", prompt=prompt, scope=scope, result_schema=schema or RESULT, **more)
    return a.Step(id=id, action=action, **step)


RESULT = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}
SRC = Scope(kind="patterns", patterns=("src/**",))
__all__ = ["EVERYTHING", "PY", "READ_ONLY", "RESULT", "SECRET", "SRC", "World", "agent", "command", "git"]


@dataclass
class World:
    root: Path
    base_url: str = "http://127.0.0.1:9/v1"
    recorded: Path | None = None
    record_to: Path | None = None
    observed: list[Record] = field(default_factory=list)

    @property
    def repository(self) -> Path:
        return self.root / "repository"

    @property
    def worktree(self) -> Path:
        return self.root / "worktree"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def build(self) -> "World":
        """A repository with two commits, a branch, a stash, and a worktree of its own for the Delivery."""
        self.repository.mkdir(parents=True)
        git(self.repository, "init", "-q", "-b", "main")
        git(self.repository, "config", "user.name", "A User")
        git(self.repository, "config", "user.email", "user@example.invalid")
        (self.repository / "src").mkdir()
        (self.repository / "src" / "app.py").write_text("VALUE = 1\n")
        (self.repository / "README").write_text("hello\n")
        (self.repository / ".gitignore").write_text("*.log\n")
        git(self.repository, "add", "-A")
        git(self.repository, "commit", "-q", "-m", "first")
        (self.repository / "README").write_text("hello again\n")
        git(self.repository, "stash", "-q")
        git(self.repository, "branch", "other")
        (self.repository / "notes.log").write_text("ignored\n")
        git(self.repository, "worktree", "add", "-q", "--detach", str(self.worktree))
        return self

    def config(self) -> RunnerFactoryConfig:
        openai = ProviderConfig(
            key="openai", credential=CredentialSource(file=str(self._key())), settings={"base_url": self.base_url}
        )
        return RunnerFactoryConfig(
            state_root=str(self.state),
            # Its commands leave traces outside of the worktree, which is how they are counted.
            isolation="none",
            providers=(openai, ProviderConfig(key="recorded")),
            record_dir=str(self.record_to) if self.record_to else None,
        )

    def _key(self) -> Path:
        path = self.root / "key"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(SECRET)
        return path

    def executor(self, provider: str = "openai", model: str = "m") -> a.Executor:
        found = {f.descriptor.key: f.descriptor for f in factories()}[provider]
        return a.Executor(role="coder", provider=provider, version=found.version, descriptor=found.digest, model=model)

    def activation(self, *steps: a.Step, delivery: str = "d1", **more: Any) -> a.Activation:
        """A sealed activation over the worktree. The executor is bound only where a step uses it."""
        uses = any(s.action.kind in ("agent", "generate") for s in steps)
        provider = ("recorded", str(self.recorded)) if self.recorded else ("openai", "m")
        base = git(self.worktree, "rev-parse", "HEAD")
        fields = {
            "executors": (self.executor(*provider),) if uses else (),
            "target": a.Target(ref=f"refs/heads/runner/{delivery}", expected="absent"),
            "input": {},
            **more,
        }
        workflow = a.Workflow(name="test", input_schema={}, steps=steps, output=fields.pop("output", None))
        return a.seal(
            delivery=delivery,
            admitted_at=ADMITTED_AT,
            workflow=workflow,
            workspace=a.Workspace(
                worktree=str(self.worktree), base_commit=base, base_tree=git(self.worktree, "rev-parse", "HEAD^{tree}")
            ),
            **fields,
        )

    def pipe(self, name: str) -> Path:
        """A named pipe: how a step's process and the test wait for each other without polling."""
        path = self.root / name
        os.mkfifo(path)
        return path

    async def begun(self, pipe: Path, running: "asyncio.Task[ExecuteResult]") -> None:
        """Until a step's process has written to ``pipe``; what ``running`` ended with, should it end before that."""
        reading = asyncio.create_task(asyncio.to_thread(pipe.read_text))
        await asyncio.wait({reading, running}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            pipe.write_text("")
            raise AssertionError(f"the step never began: {await running}")

    async def execute(
        self, activation: a.Activation, dependencies: Dependencies | None = None, *, early: bool = False
    ) -> ExecuteResult:
        """In a Runner of its own, as a new process would."""
        async with RunnerFactory(self.config()).open(dependencies) as runner:
            return await runner.execute(activation, early=early)

    async def settle(self, activation: a.Activation) -> Settlement:
        result = await self.execute(activation)
        assert isinstance(result, Settled), result
        return result.settlement

    def records(self, delivery: str = "d1") -> Sequence[Record]:
        return tuple(RunnerFactory(self.config()).open_records().events(delivery))  # type: ignore[arg-type]

    def kinds(self, delivery: str = "d1") -> list[str]:
        return [record.event.KIND for record in self.records(delivery)]

    def fingerprint(self) -> dict[str, Any]:
        """Everything of the user's that no Delivery may touch: branches, HEAD, index, stash, reflogs, config, hooks, files."""
        repo = self.repository
        dot = repo / ".git"
        refs = git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        watched = [*sorted(dot.glob("hooks/*")), *sorted(p for p in dot.glob("logs/**/*") if p.is_file())]
        watched += [dot / name for name in ("HEAD", "index", "config", "info/exclude", "description")]
        return {
            "refs": [r for r in refs if not r.startswith(("refs/runner/", "refs/heads/runner/"))],
            "files": {
                str(p.relative_to(dot)): (p.read_bytes(), p.stat().st_mtime_ns)
                for p in watched
                if "heads/runner" not in str(p)
            },
            "tree": {
                str(p.relative_to(repo)): p.read_bytes()
                for p in sorted(repo.rglob("*"))
                if p.is_file() and dot not in p.parents
            },
            "locks": [str(p) for p in dot.rglob("*.lock")],
        }

    def every_byte(self) -> bytes:
        """All that was written under the state root and into the recordings, for a search."""
        roots = [self.state, *([self.record_to] if self.record_to else [])]
        return b"\0".join(p.read_bytes() for root in roots for p in root.rglob("*") if p.is_file())
