"""Custody against a naive model, at random, on real git: ``python -m tests.custody.machine --steps 5000 --seed 7``.

Random edits between savepoints, verdicts, restores, kills in front of any effect (in the recovery, too), new processes and
the user's ``git gc``. After each operation the worktree and the verdict must be what full copies of directory and index
entries say; in the end every savepoint must still hold what was there when it was taken.
"""

import argparse
import hashlib
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from custody.midstep import at
from custody.paths import parents, scope_text, show
from custody.state import State
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.grant import WorkspaceGrant
from runner.contract.scope import EVERYTHING, READ_ONLY, Scope
from tests.custody.edits import Edit, clear, edits
from tests.custody.fakes import Delivery, KillAt, Killed, new_repo, patterns
from tests.custody.model import IGNORED, Copy, Thing, changes, copy_of, everything, left

SCOPES = [EVERYTHING, EVERYTHING, READ_ONLY, patterns("src/**"), patterns("d/**", "*.txt"), patterns("sub", "sub/**")]
MEMORY = Path("/dev/shm")


class Machine(RuleBasedStateMachine):
    """One Delivery. ``known`` is what the worktree is between attempts, ``opening`` what an open attempt is judged against,
    ``start`` what it goes on from in this process."""

    done: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        self.place = Path(tempfile.mkdtemp(dir=memory))
        self.repo = new_repo(self.place / "repo", files={"a.txt": "a\n", "src/b.py": "b = 1\n", ".gitignore": IGNORED})
        self.work = Delivery(self.repo, self.place / "state", include_dirty=True)
        self.grant: WorkspaceGrant | None = None
        self.scope = EVERYTHING
        self.kept: dict[str, Copy] = {}
        self.fuse: KillAt | None = None
        self.moved_away: set[bytes] = set()
        self.work.before_effect = self._effect

    def teardown(self) -> None:
        try:
            if self.kept:
                self.every_savepoint_holds()
        finally:
            self.work.close()
            shutil.rmtree(self.place)

    def _effect(self, what: str) -> None:
        if self.fuse is not None:
            self.fuse(what)

    @initialize(before=st.lists(edits, max_size=6))
    def baseline(self, before: list[Edit]) -> None:
        """The first savepoint is of whatever is there."""
        self.edit(before)
        for name, text in ((".gitignore", IGNORED), ("d/.gitignore", None)):  # the rules that the model knows
            if os.path.lexists(self.repo.path / name):
                clear(self.repo.path / name)
            if text is not None:
                self.repo.write(name, text)
        if self.repo.git("rev-parse", "HEAD") != self.work.activation.workspace.base_commit:
            self.repo.git("reset", "-q", "--soft", self.work.activation.workspace.base_commit)
        self.work.reopen()
        taken = self.work.custody.baseline()
        self.known = self.mark = self.start = self.opening = copy_of(self.repo, None)
        self.keep(taken.commit, self.known)

    # --- what happens to the worktree ----------------------------------------------------------------------------------

    def edit(self, what: list[Edit]) -> None:
        for edit in what:
            edit.apply(self.repo)
            self.done["edit: " + edit.what] += 1

    @precondition(lambda self: self.grant is None)
    @rule(what=st.lists(edits, min_size=1, max_size=3), word=st.sampled_from(["adopt", "discard"]))
    def somebody_edits(self, what: list[Edit], word: Any) -> None:
        """Between two processes. It is asked about exactly if something that counts is other than before."""
        self.edit(what)
        now = copy_of(self.repo, self.known)
        self.work.restart()
        self.work.visit += 1
        answer = self.unblocked(self.work.ask)
        theirs = left(self.known, now)
        if theirs:
            assert isinstance(answer, ports.ForeignEdit), theirs
            self.work.resolve(word)
            before = self.uncounted(now)
            answer = self.unblocked(self.work.ask)
            self.done[word] += 1
            if word == "discard":
                self.untouched(before)
                stays = left(self.known, copy_of(self.repo, self.known))
                assert not stays, stays
            else:
                self.keep(self.work.taken("foreign")[-1].savepoint, now)
                self.known = now
        self.known = copy_of(self.repo, self.known)
        assert isinstance(answer, WorkspaceGrant), answer
        self.opened(answer, EVERYTHING)

    # --- what the host asks -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.grant is None)
    @rule(scope=st.sampled_from(SCOPES))
    def begin(self, scope: Scope) -> None:
        """An attempt opens where the last one ended."""
        self.work.visit += 1
        self.opened(self.work.begin(scope, resume=True), scope)

    def opened(self, grant: WorkspaceGrant, scope: Scope) -> None:
        self.grant, self.scope = grant, scope
        self.opening = self.start = self.mark = self.known

    @property
    def marked(self) -> Copy:
        """What counts in the middle of an attempt: also what an earlier call made, whatever was put around it since."""
        return Copy({**self.start.things, **self.mark.things}, self.opening.entries)

    @precondition(lambda self: self.grant is not None)
    @rule(what=st.lists(edits, max_size=4), kill=st.sampled_from([False, False, False, True]))
    def tool_call(self, what: list[Edit], kill: bool) -> None:
        """A mid-step savepoint of everything that a full comparison finds; killed at it, the attempt goes back to the one
        before."""
        self.edit(what)
        grant = self.grant
        assert grant is not None
        now = copy_of(self.repo, self.marked, self.opening.entries)
        paths = sorted(
            p for p in self.mark.things.keys() | now.things.keys() if self.mark.things.get(p) != now.things.get(p)
        )
        names = tuple(os.fsdecode(p) for p in (*paths, *sorted(now.uncaptured)))
        self.fuse = KillAt(0) if kill else None
        try:
            self.keep(self.work.mark(grant, *names).commit, now)
        except Killed:
            self.done["killed at a mark"] += 1
            self.recovered()
            return
        finally:
            self.fuse = None
        self.mark = now
        self.done["mark"] += 1

    @precondition(lambda self: self.grant is not None)
    @rule(
        what=st.lists(edits, max_size=5),
        keep=st.sampled_from([True, True, False]),
        kills=st.lists(st.integers(0, 9), max_size=2),
    )
    def verdict(self, what: list[Edit], keep: bool, kills: list[int]) -> None:
        """Settled or discarded, perhaps after processes that were killed at it; an attempt so interrupted goes back to its
        newest mark."""
        self.edit(what)
        for number in kills:
            self.fuse = KillAt(number)
            try:
                self.judged(keep)
            except Killed:
                self.done["killed"] += 1
                self.recovered()
            self.fuse = None
            if self.grant is None:
                return
        self.judged(keep)

    def recovered(self) -> None:
        """The next process, itself killed at whatever the fuse still has, and the one after it."""
        for number in (3, None):
            self.fuse = None if number is None else KillAt(number)
            before = everything(self.repo)
            self.work.restart()
            try:
                grant = self.unblocked(lambda: self.work.ask(self.scope, resume=True))
            except Killed:
                self.done["killed again"] += 1
                continue
            assert isinstance(grant, WorkspaceGrant), grant
            self.grant = grant
            self.untouched({p: t for p, t in before.items() if p in self.uncounted(copy_of(self.repo, self.marked))})
            now = copy_of(self.repo, self.mark, None)
            assert not left(self.mark, now), left(self.mark, now)
            self.start = self.mark
            return

    def judged(self, keep: bool) -> None:
        """The verdict is what the full copies say, and the worktree is what the verdict says."""
        grant = self.grant
        assert grant is not None
        now = copy_of(self.repo, self.opening)
        found = changes(self.opening, now)
        bad = {change for change in found if not self.scope.allows(scope_text(change[1]))}
        before = self.uncounted(now)
        custody = self.work.custody
        verdict = self.unblocked(lambda: custody.settle(grant) if keep else custody.discard(grant))
        self.work.end(verdict)
        self.grant = None
        texts = {f"{kind.rstrip('/')} {show(path)}{'/' if kind.endswith('/') else ''}" for kind, path in bad}
        if bad:
            assert isinstance(verdict, ports.Violation) and set(verdict.paths) == texts, (verdict, texts)
        else:
            assert isinstance(verdict, ports.Accepted), verdict
        if keep and not bad:
            assert set(verdict.savepoint.changed) == {show(path) for _, path in found}, (verdict, found)
            self.known = now
            self.keep(verdict.savepoint.commit, now)
            self.done["accepted"] += 1
            return
        self.untouched(before)
        self.known = copy_of(self.repo, self.opening)
        assert not left(self.opening, self.known), left(self.opening, self.known)
        self.done["violation" if bad else "discarded"] += 1

    def keep(self, commit: str, copy: Copy) -> None:
        """A savepoint that is named again is still of the moment it was taken."""
        self.kept.setdefault(commit, copy)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def uncounted(self, counted: Copy) -> dict[bytes, Thing]:
        """Files that no savepoint has: nobody may touch them."""
        found = {p: t for p, t in everything(self.repo).items() if p not in counted.things and t.kind != "dir"}
        # Another name of a captured file is that file.
        return {p: t for p, t in found.items() if self.repo.at(p).lstat().st_nlink == 1}

    def untouched(self, before: dict[bytes, Thing]) -> None:
        now = everything(self.repo)
        lost = {path for path, thing in before.items() if now.get(path) != thing} - self.moved_away
        assert not lost, lost

    def unblocked(self, act: Callable[[], Any]) -> Any:
        """What ``act`` answers, if need be after the person has moved away what is in the way and in no savepoint."""
        self.moved_away = set()
        while True:
            before = everything(self.repo)
            try:
                return act()
            except EnvironmentFault as fault:
                assert fault.code is Code.RESTORE_BLOCKED, fault
                assert everything(self.repo) == before, "touched"
                blocking = str(fault).partition("put back: ")[2].partition(" is in its way")[0]
                named = [path for path in before if show(path) == blocking]
                assert named, fault
                clear(self.repo.at(named[0].removesuffix(b"/.git")))  # a repository goes whole
                self.moved_away |= before.keys() - everything(self.repo).keys()
                self.done["blocked"] += 1

    def every_savepoint_holds(self) -> None:
        """Read from the disk, each says what the full copy of its moment says."""
        self.work.restart()
        store = self.work.custody._desk.store
        for commit, copy in self.kept.items():
            state = store.load(commit).state
            wrong = difference_to(state, copy)
            assert not wrong, (commit, [(path, at(state, path), copy.things.get(path)) for path in wrong])
            assert not store.missing({f.oid for f in state.files.values()}), commit


def difference_to(state: State, copy: Copy) -> list[bytes]:
    """Paths at which a savepoint is not what a full copy has."""
    modes = {"file": 0o100000, "link": 0o120000}
    wrong = [p for p in state.files.keys() | copy.files.keys() if p not in state.files or p not in copy.files]
    for path in state.files.keys() & copy.files.keys():
        file, thing = state.files[path], copy.files[path]
        blob = hashlib.sha1(b"blob %d\0" % len(thing.data) + thing.data, usedforsecurity=False).hexdigest()
        same = (file.mode & 0o170000, file.perm, file.oid) == (modes[thing.kind], thing.mode, blob)
        wrong += [] if same else [path]
    # A directory that holds only what no savepoint has is nobody's to put back.
    holding = {d for path in copy.things for d in parents(path)} | copy.hollow
    directories = {p: t.mode for p, t in copy.things.items() if t.kind == "dir" and p in holding}
    wrong += [p for p in directories if state.dirs.get(p) != directories[p]]
    wrong += state.empty ^ copy.hollow
    entries = {key: (e.tag, f"{e.mode:06o}", e.oid) for key, e in state.index.items()}
    return wrong + [key[0] for key in entries.keys() | copy.entries.keys() if entries.get(key) != copy.entries.get(key)]


def run(steps: int, number: int, *, per_example: int = 50, shrink: bool = True) -> None:
    """About ``steps`` steps from one seed."""
    run_state_machine_as_test(
        seed(number)(Machine),
        settings=settings(
            max_examples=max(1, steps // per_example),
            stateful_step_count=per_example,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.custody.machine", description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--as-found", action="store_true", help="do not look for a shorter failure")
    asked = parser.parse_args()
    print(f"seed {asked.seed}, {asked.steps} steps", flush=True)
    try:
        run(asked.steps, asked.seed, shrink=not asked.as_found)
    finally:
        print(", ".join(f"{what} {count}" for what, count in sorted(Machine.done.items())))


if __name__ == "__main__":
    main()
