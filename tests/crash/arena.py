"""The one place where all runs of a scenario happen, put back before each: equal paths, so that settlements can be equal."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.contract import activation as a
from runner.contract.canonical import canonical
from runner.contract.ids import DeliveryId
from runner.contract.layout import DeliveryLayout, delivery_layout
from tests.crash.scenario import Scenario
from tests.delivery.world import World, git

CHILD_S: Final = 3.0
"""How long a child of a killed driver may live."""
CONTENTS: Final = ("objects", "artifacts")
"""Directories whose files are named by what is in them: more of them, from an attempt that was undone, are no harm."""
ASIDE: Final = ("-wal", "-shm", "owner.json")
"""What a driver that dies after the settlement leaves beside the ledger: nobody is kept out or misled by it."""
DELIVERY: Final = DeliveryId("d1")
CONFIG: Final = """\
state_root = "{state}"
isolation = "none"
[providers.openai]
credential = {{ file = "{key}" }}
[providers.openai.settings]
base_url = "{url}"
[providers.recorded]
"""
"""The world's config as a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What a run left in the world; equal runs leave equal traces."""

    files: tuple[str, ...]
    """Below the state root and git's directories, without contents stored by name."""
    worktree: Mapping[str, tuple[int, bytes]]
    ref: str


class Arena:
    def __init__(self, base: Path, scenario: Scenario, base_url: str) -> None:
        self.scenario = scenario
        self.world = World(base / "run", base_url=base_url)
        self.template = base / "template"
        base.mkdir(parents=True)
        self.world.build()
        self.world.config()  # writes the key file
        for sample in (self.world.repository / ".git" / "hooks").iterdir():
            sample.unlink()
        self.effects.touch()
        self.temporary.mkdir()
        places = {"effects": self.effects, "repository": self.world.repository, "obstacle": self.obstacle}
        output = a.Output.model_validate(scenario.output) if scenario.output else None
        self.activation = self.world.activation(*scenario.activation_steps(places), output=output)
        self.activation_file = base / "activation.json"
        self.activation_file.write_bytes(canonical(self.activation.to_json()))
        self.config_file = base / "runner.toml"
        self.config_file.write_text(CONFIG.format(state=self.world.state, key=self.world.root / "key", url=base_url))
        self.world.root.rename(self.template)
        self.put_back()
        self._fingerprint = self.world.fingerprint()

    @property
    def effects(self) -> Path:
        """One line for each effect that happened, written with O_APPEND by whoever caused it."""
        return self.world.root / "effects"

    @property
    def obstacle(self) -> Path:
        return self.world.root / self.scenario.obstacle

    @property
    def temporary(self) -> Path:
        """TMPDIR of everything; also the mark by which processes of a run are known."""
        return self.world.root / "tmp"

    @property
    def layout(self) -> DeliveryLayout:
        return delivery_layout(self.world.state, DELIVERY)

    def written(self, kind: str) -> int:
        """The bytes of the file that is written at a boundary of this kind: a database's journal grows, all else begins."""
        journal = {"commit ledger": self.layout.ledger, "commit checkpoints": self.layout.checkpoints}.get(kind)
        path = Path(f"{journal}-wal")
        return path.stat().st_size if journal is not None and path.exists() else 0

    def put_back(self) -> None:
        if self.world.root.exists():
            shutil.rmtree(self.world.root)
        shutil.copytree(self.template, self.world.root, symlinks=True)

    def counts(self) -> Counter[str]:
        return Counter(self.effects.read_text().split())

    def traces(self) -> Traces:
        world = self.world
        kept = [*world.state.rglob("*"), *(world.repository / ".git").rglob("*")]
        below = (p.relative_to(world.root) for p in kept if not p.name.endswith(ASIDE))
        files = (str(p) for p in below if not set(CONTENTS) & set(p.parts))
        worktree = {
            str(p.relative_to(world.worktree)): (p.lstat().st_mode, b"" if p.is_dir() else p.read_bytes())
            for p in world.worktree.rglob("*")
        }
        return Traces(
            files=tuple(sorted(files)),
            worktree=worktree,
            ref=git(world.repository, "for-each-ref", "--format=%(objectname)", self.activation.target.ref),
        )

    def left_over(self, *, git_died: bool = False) -> list[str]:
        """What no run may leave behind: locks, temporary files, a lease, processes, a change of what is the user's. A git that
        died in the middle of an object leaves a part of it in the user's repository, which nobody but git's gc may remove."""
        objects = self.world.repository / ".git" / "objects"
        wrong = [f"process {pid}" for pid in self.processes(CHILD_S)]
        wrong += [f"temporary file {path}" for path in self.temporary.iterdir()]
        for path in self.world.root.rglob("*"):
            if git_died and path.is_relative_to(objects):
                continue
            if path.name.startswith((".new-", "tmp_obj_")) or path.name == "index.lock":
                wrong.append(f"left: {path.relative_to(self.world.root)}")
        leases = self.world.state / "leases"
        wrong += [f"lease {path.name}" for path in leases.glob("[!.]*")]
        now = self.world.fingerprint()
        wrong += [f"the user's {part} changed" for part in now if now[part] != self._fingerprint[part]]
        return wrong

    def processes(self, wait_s: float) -> list[int]:
        """Processes of this arena that live longer than ``wait_s``."""
        until = time.monotonic() + wait_s
        while (found := marked(str(self.temporary))) and time.monotonic() < until:
            os.sched_yield()
        return found


def marked(mark: str) -> list[int]:
    """Processes whose environment at their start held ``mark``, zombies not counted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # gone, or somebody else's
                continue
    return found


def difference(expected: Traces, found: Traces) -> list[str]:
    """In words, for a person."""
    wrong = [f"missing: {p}" for p in set(expected.files) - set(found.files)]
    wrong += [f"too much: {p}" for p in set(found.files) - set(expected.files)]
    wrong += [
        f"worktree differs at {p}"
        for p in expected.worktree.keys() | found.worktree.keys()
        if expected.worktree.get(p) != found.worktree.get(p)
    ]
    return wrong + ([f"the published ref is {found.ref or 'absent'}"] if expected.ref != found.ref else [])
