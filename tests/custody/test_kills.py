"""Killed at every effect of every durable operation, again and again while it recovers, or refused by the machine: each
operation ends as if nothing had happened, and nothing of ours lies about.
"""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from custody.restore import TEMP_PREFIX
from runner.contract import ports
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import STEP_ENDS
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import Digest
from runner.contract.scope import EVERYTHING, Scope
from tests.custody.fakes import Delivery, KillAt, Killed, Repo, patterns, tree_of

T = TypeVar("T")
AUTHORIZATION = Digest("sha256:" + "1" * 64)


@dataclass
class FailAt:
    """Raises ``error`` in front of the effect with this number, once; what was asked is then asked again at once."""

    number: int
    error: int

    def __call__(self, what: str) -> None:
        self.number -= 1
        if self.number == -1:
            raise OSError(self.error, "the machine refuses", what)


@dataclass
class Scene:
    """One operation: what comes before it, and itself. ``go`` is what a process does that knows only the ledger."""

    work: Delivery
    faults: list[EnvironmentFault] = field(default_factory=list)

    @property
    def repo(self) -> Repo:
        return self.work.repo

    def trying(self, ask: Callable[[], T]) -> T:
        """What ``ask`` answers; a refusal by the machine is noted and it is asked again."""
        try:
            return ask()
        except EnvironmentFault as fault:
            self.faults.append(fault)
            return ask()

    def attempt(self, scope: Scope, work: Callable[[WorkspaceGrant], None], *, keep: bool = True) -> None:
        """The open visit, unless it has its end."""
        if self.work.ledger.last(STEP_ENDS, self.work.step) is not None:
            return
        grant = self.trying(lambda: self.work.ask(scope, resume=True))
        assert isinstance(grant, WorkspaceGrant)
        work(grant)
        custody = self.work.custody
        self.work.end(self.trying(lambda: custody.settle(grant) if keep else custody.discard(grant)))

    def marked(self) -> int:
        """How many tool calls of the open visit have a result."""
        records = self.work.ledger.read(kinds=frozenset({"savepoint.taken"}), step=self.work.step)
        return sum(getattr(record.event, "role", "") == "mid-step" for record in records)


def nothing(scene: Scene) -> None:
    """The operation comes first."""


def baseline(scene: Scene) -> None:
    scene.trying(scene.work.custody.baseline)


def two_calls(scene: Scene) -> None:
    """An agent with two tool calls, a kill between them included, then its verdict."""

    def work(grant: WorkspaceGrant) -> None:
        if scene.marked() == 0:
            scene.repo.write("src/b.py", "b = 2\n")
            scene.repo.write("new/deep.txt")
            scene.trying(lambda: scene.work.mark(grant, "src/b.py", "new/deep.txt"))
        assert scene.repo.read("src/b.py") == b"b = 2\n"
        if scene.marked() == 1:
            (scene.repo.path / "a.txt").unlink(missing_ok=True)
            scene.repo.write("half-done.txt")
            scene.trying(lambda: scene.work.mark(grant, "a.txt"))
        (scene.repo.path / "half-done.txt").unlink(missing_ok=True)

    scene.attempt(EVERYTHING, work)


def begun(scene: Scene) -> None:
    baseline(scene)
    two_calls(scene)
    scene.work.visit += 1


def interrupted(scene: Scene) -> None:
    """An attempt with one mark and a half-done second call, left by a kill."""
    begun(scene)
    grant = scene.work.begin()
    scene.repo.write("src/b.py", "b = 3\n")
    scene.work.mark(grant, "src/b.py")
    spoil_little(scene.repo)


def spoil(repo: Repo) -> None:
    """One of each kind of change, index included."""
    repo.write("src/b.py", "spoiled\n", 0o755)
    repo.write("x/y/z.txt")
    if (repo.path / "new").is_dir():
        shutil.rmtree(repo.path / "new")
    if not (repo.path / "new").is_symlink():
        (repo.path / "new").symlink_to("x")
    (repo.path / "empty").mkdir(exist_ok=True)
    repo.git("add", "src/b.py")


def spoil_little(repo: Repo) -> None:
    repo.write("src/b.py", "spoiled\n")
    repo.write("x/z.txt")


def goes_on(scene: Scene) -> None:
    """Back to the mark, then the verdict."""

    def check(_: WorkspaceGrant) -> None:
        assert scene.repo.read("src/b.py") == b"b = 3\n"

    scene.attempt(EVERYTHING, check)


def violates(scene: Scene) -> None:
    scene.attempt(patterns("src/**"), lambda _: spoil(scene.repo))


def fails(scene: Scene) -> None:
    scene.attempt(EVERYTHING, lambda _: spoil_little(scene.repo), keep=False)


def edited(scene: Scene) -> None:
    """A person edited and said that it is to be discarded."""
    begun(scene)
    scene.work.restart()
    spoil_little(scene.repo)
    assert isinstance(scene.work.ask(), ports.ForeignEdit)
    scene.work.resolve("discard")


def goes_on_without(scene: Scene) -> None:
    scene.attempt(EVERYTHING, lambda _: None)


def abandoned(scene: Scene) -> None:
    """A cancelled Delivery: the step has its end, the worktree is the interrupted attempt's."""
    interrupted(scene)
    current = scene.work.custody.current()
    scene.work.end(ports.Violation(paths=(), rule="", savepoint=current))


def is_undone(scene: Scene) -> None:
    scene.trying(scene.work.custody.settle_interrupted)
    scene.work.ledger.writer("host").append()


def is_published(scene: Scene) -> None:
    scene.trying(scene.work.custody.preserve)
    scene.trying(lambda: scene.work.custody.publish(requested=True))


def published(scene: Scene) -> None:
    begun(scene)
    is_published(scene)


def retires(scene: Scene) -> None:
    scene.trying(lambda: scene.work.custody.retire(AUTHORIZATION))


SCENES = {
    "baseline": (nothing, baseline),
    "marks and settle": (baseline, two_calls),
    "back to a mark": (interrupted, goes_on),
    "violation": (begun, violates),
    "discard": (begun, fails),
    "discarded edits": (edited, goes_on_without),
    "interrupted for good": (abandoned, is_undone),
    "preserve and publish": (begun, is_published),
    "retire": (published, retires),
}


@dataclass
class Stage:
    """A scene that can be played again and again from the same start."""

    scene: Scene
    go: Callable[[Scene], None]
    root: Path
    visit: int = 0

    def save(self) -> None:
        self.scene.work.close()
        shutil.copytree(self.root, self.kept, symlinks=True)
        self.visit = self.scene.work.visit

    @property
    def kept(self) -> Path:
        return self.root.with_name("kept")

    def play(self, before_effect: Callable[[str], None] | None, *, again: bool = False) -> None:
        """One process; from the start, or from where the last one was killed."""
        work = self.scene.work
        work.close()
        if not again:
            shutil.rmtree(self.root)
            shutil.copytree(self.kept, self.root, symlinks=True)
            work.visit = self.visit
        work.before_effect = before_effect
        work.reopen()
        self.go(self.scene)

    def end(self) -> object:
        """What must be the same in the end, however it came about."""
        repo, work = self.scene.repo, self.scene.work
        verdicts = [(e.role, e.tree, e.changed) for e in work.taken() if e.role in ("baseline", "step")]
        ends = [type(record.event).__name__ for record in work.ledger.read(kinds=STEP_ENDS)]
        refs = repo.git("for-each-ref").splitlines()
        return tree_of(repo.path), repo.git("ls-files", "-s", "-v"), verdicts, ends, refs, work.custody.current().tree

    def litter(self) -> list[str]:
        """Files of ours that should not be there any more."""
        names = (
            "*.lock",
            "index.runner*",
            f"{TEMP_PREFIX.decode()}*",
            "restore.json",
            "*.new",
            "tmp_*",
            "scratch",
            "*crash*",
        )
        return sorted(str(path) for name in names for path in self.root.rglob(name))


@pytest.fixture(params=SCENES)
def stage(request: pytest.FixtureRequest, place: Path, template: Path) -> Iterator[Stage]:
    before, go = SCENES[request.param]
    root = place / "live"
    repo = Repo(Path(shutil.copytree(template, root / "repo", symlinks=True)))
    scene = Scene(Delivery(repo, root / "state", visit=1))
    before(scene)
    made = Stage(scene, go, root)
    made.save()
    yield made
    made.scene.work.close()


def test_killed_at_every_effect_and_twice_while_recovering(stage: Stage) -> None:
    """For every effect: killed in front of it, then the next process in front of its first effect, and the one after that in
    front of another one; each effect is that other one once."""
    names: list[str] = []
    stage.play(names.append)
    expected = stage.end()
    assert names and stage.litter() == []
    for number, name in enumerate(names):
        with pytest.raises(Killed, match=name.split(" ")[0]):
            stage.play(KillAt(number))
        for again in (0, (number + len(names) // 2) % len(names)):
            with suppress(Killed):
                stage.play(KillAt(again), again=True)
        stage.play(None, again=True)
        assert stage.end() == expected, name
        assert stage.litter() == [], name


def test_refused_by_the_machine_at_every_effect(stage: Stage) -> None:
    """A full disk and an input/output error are faults of the environment; asked again, the same call succeeds, in the same
    process."""
    names: list[str] = []
    stage.play(names.append)
    expected = stage.end()
    for number, name in enumerate(names):
        error = (errno.ENOSPC, errno.EIO)[number % 2]
        stage.scene.faults.clear()
        stage.play(FailAt(number, error))
        codes = [fault.code for fault in stage.scene.faults]
        assert codes == [Code.DISK_FULL if error == errno.ENOSPC else Code.CAPTURE_FAILED], name
        assert stage.end() == expected, name
        assert stage.litter() == [], name
