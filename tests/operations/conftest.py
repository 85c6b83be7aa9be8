import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hosts.operations.boundary import Containment
from hosts.operations.bubblewrap import find_bubblewrap
from hosts.operations.command import CommandRunner
from runner.contract.config import Boundary
from runner.contract.ids import SiteId, StepRef
from runner.contract.ports import CommandRequest, CommandResult
from runner.contract.scope import EVERYTHING
from tests.operations.fakes import HeldClock, MemoryLedger, RealClock, Shown, case_at


class Bench:
    """One worktree, one ledger, one runner."""

    def __init__(self, worktree: Path) -> None:
        self.worktree = worktree
        self.ledger = MemoryLedger()
        self.shown = Shown()
        self.secrets: tuple[str, ...] = ()
        self.containment: Containment | None = None

    def runner(self, *, clock: RealClock | None = None, grace_s: float = 5.0) -> CommandRunner:
        case = case_at(self.worktree, self.ledger, self.shown)
        return CommandRunner(
            case=case,
            writer=self.ledger.writer("operations"),
            clock=clock or RealClock(),
            secrets=lambda: self.secrets,
            containment=self._contained if self.containment else None,
            grace_s=grace_s,
        )

    def _contained(self) -> Containment:
        assert self.containment is not None
        return self.containment

    def request(self, *argv: str, **fields: Any) -> CommandRequest:
        defaults: dict[str, Any] = {
            "step": StepRef(site=SiteId("tests")),
            "attempt": 1,
            "argv": argv,
            "cwd": str(self.worktree),
            "env": {},
            "timeout_s": 60.0,
            "effect": "workspace",
            "scope": EVERYTHING,
            "output_bytes_max": 4096,
        }
        return CommandRequest(**{**defaults, **fields})

    async def sh(self, script: str, **fields: Any) -> CommandResult:
        return await self.runner().command(self.request("/bin/sh", "-c", script, **fields))


@pytest.fixture(scope="session")
def bwrap() -> str:
    return find_bubblewrap()


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Runs git without anybody's settings; what it said."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    return lambda *words: (
        subprocess.run(["git", *who, *words], env=env, check=True, capture_output=True, text=True).stdout
    )


@pytest.fixture
def plain(tmp_path: Path) -> Bench:
    """Its commands are ordinary processes."""
    worktree = tmp_path / "work tree"
    worktree.mkdir()
    return Bench(worktree)


@pytest.fixture(params=["none", "bubblewrap"])
def bench(plain: Bench, bwrap: str, request: pytest.FixtureRequest) -> Bench:
    """What holds for a command holds for a contained one."""
    if request.param == "bubblewrap":
        plain.containment = Containment(bwrap=bwrap, boundary=Boundary())
    return plain


@pytest.fixture
async def held_clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def alive() -> Callable[[str], list[int]]:
    """The live processes whose environment holds a marker: descendants inherit it, whatever they detach from."""

    def find(marker: str) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    # A zombie has an empty environment: it runs no more.
                    if marker.encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    return find
