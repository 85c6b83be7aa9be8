"""What Deliveries are measured on: a small repository, worktrees of it, a state root, and workflows of any length."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runner import RunnerFactoryConfig
from runner.contract import activation as a
from runner.contract.scope import READ_ONLY

ADMITTED_AT = "2026-01-02T03:04:05Z"


def git(where: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["git", "-C", str(where), *words], capture_output=True, text=True, env=env, check=True)
    return done.stdout.strip()


def command(script: str) -> a.Action:
    """A command that may run again after a crash."""
    return a.CommandAction(run=(script,), shell=True, scope=READ_ONLY, effect="idempotent")


def question() -> a.Action:
    """Asks a person: an effect that needs neither worktree nor process."""
    schema = {"type": "object", "properties": {"decision": {"enum": ["yes"]}}, "required": ["decision"]}
    return a.ApprovalAction(prompt="go on?", answer_schema=schema)


@dataclass(frozen=True, slots=True)
class Ground:
    root: Path

    @property
    def repository(self) -> Path:
        return self.root / "repository"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def build(self) -> "Ground":
        self.repository.mkdir(parents=True)
        git(self.repository, "init", "-q", "-b", "main")
        (self.repository / "README").write_text("hello\n")
        git(self.repository, "add", "-A")
        git(self.repository, "commit", "-q", "-m", "first")
        return self

    def config(self) -> RunnerFactoryConfig:
        return RunnerFactoryConfig(state_root=str(self.state), isolation="none")

    def worktree(self, name: str) -> Path:
        path = self.root / "worktrees" / name
        if not path.exists():
            git(self.repository, "worktree", "add", "-q", "--detach", str(path))
        return path

    def activation(self, name: str, steps: int, effect: a.Action | None = None) -> a.Activation:
        """A Delivery of its own worktree: ``steps`` durable steps that do nothing (a loop of two decisions); then ``effect``."""
        worktree = self.worktree(name)
        last = "effect" if effect else "completed"
        again = a.RouteTo(outcome="again", to="one")
        sites = [
            a.Step(
                id="one",
                action=a.DecisionAction(on="{{ 'on' }}"),
                routes=(a.RouteTo(outcome="on", to="two"),),
                budget_visits=max(1, steps // 2),
            ),
            a.Step(
                id="two",
                action=a.DecisionAction(on="{{ steps.one.visit < input ? 'again' : 'on' }}"),
                routes=(again, a.RouteTo(outcome="on", to=last)),
            ),
        ]
        if effect is not None:
            sites.append(a.Step(id="effect", action=effect))
        return a.seal(
            delivery=name,
            admitted_at=ADMITTED_AT,
            workflow=a.Workflow(name="bench", input_schema={}, steps=tuple(sites)),
            workspace=a.Workspace(
                worktree=str(worktree),
                base_commit=git(worktree, "rev-parse", "HEAD"),
                base_tree=git(worktree, "rev-parse", "HEAD^{tree}"),
            ),
            target=a.Target(ref=f"refs/heads/runner/{name}", expected="absent"),
            input=max(1, steps // 2),
        )
