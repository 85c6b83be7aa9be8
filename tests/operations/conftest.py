import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hosts.operations.command import CommandRunner
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

    def runner(self, *, clock: RealClock | None = None, grace_s: float = 5.0) -> CommandRunner:
        case = case_at(self.worktree, self.ledger, self.shown)
        return CommandRunner(
            case=case,
            writer=self.ledger.writer("operations"),
            clock=clock or RealClock(),
            secrets=lambda: self.secrets,
            grace_s=grace_s,
        )

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


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    worktree = tmp_path / "work tree"
    worktree.mkdir()
    return Bench(worktree)


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
