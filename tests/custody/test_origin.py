"""A worktree that starts at another Delivery's savepoint: exactly that, whatever is killed on the way, and never over edits."""

from collections.abc import Callable
from pathlib import Path

import pytest

from custody.origin import bring
from runner.contract.activation import Origin, seal
from runner.contract.errors import CallerError, Code
from runner.contract.events import DeliveryForked
from runner.contract.ids import ObjectId
from runner.contract.records import Draft
from runner.coordinator.selection import select
from tests.custody.fakes import ZERO_DIGEST, Delivery, KillAt, Killed, Repo, tree_of


def source(repo: Repo, deliver: Callable[..., Delivery]) -> Delivery:
    """Two steps that wrote, changed, removed and linked."""
    made = deliver(repo.worktree("old"))
    made.custody.baseline()

    def first() -> None:
        made.repo.write("src/b.py", "b = 2\n", 0o755)
        made.repo.write("new/deep.txt")
        (made.repo.path / "a.txt").unlink()

    made.attempt(first)
    made.attempt(lambda: made.repo.write("src/b.py", "b = 3\n"))
    return made


class Fork(Delivery):
    """A Delivery that starts at ``start`` of ``old``, as its coordinator would begin it: again in every process."""

    old: Delivery
    start: ObjectId
    position: int

    def begin_from(self, old: Delivery, start: str, position: int) -> "Fork":
        self.old, self.start, self.position = old, ObjectId(start), position
        origin = Origin(delivery=old.delivery, position=position, record=ZERO_DIGEST, savepoint=start)
        names = (n for n in type(self.activation).model_fields if n not in ("binding_identity", "origin"))
        self.activation = seal(**{n: getattr(self.activation, n) for n in names}, origin=origin)
        self.restart()
        return self

    def go(self) -> None:
        """What a process does that knows only the ledger."""
        if self.ledger.head():
            return
        origin = self.activation.origin
        assert origin is not None
        taken = select(self.old.ledger.read(), origin)
        places = (self.old.layout.store, self.layout.store)
        bring(self.activation, *places, (*taken.savepoints, self.start), self.before_effect or (lambda _: None))
        self.ledger.writer("coordinator").stage(Draft(event=DeliveryForked(origin=origin, records=len(taken.records))))
        for record in taken.records:
            draft = Draft(event=record.event, step=record.step, attempt=record.attempt)
            self.ledger.writer(record.event.OWNER[0]).stage(draft)
        self.custody.baseline()


def fork(repo: Repo, place: Path, name: str, old: Delivery) -> Fork:
    """At the end of the first step of ``old``."""
    first = old.taken("step")[0].savepoint
    end = next(r for r in old.ledger.read(kinds=frozenset({"step.completed"})))
    made = Fork(repo.worktree(name), place / "state", delivery=name)
    return made.begin_from(old, first, end.seq)


def test_killed_at_every_effect_it_starts_there(repo: Repo, place: Path, deliver: Callable[..., Delivery]) -> None:
    """For every effect of beginning: killed in front of it, the next process comes to the same files, one baseline, and one
    savepoint that it starts at; what follows is judged against that."""
    old = source(repo, deliver)
    names: list[str] = []
    quiet = fork(repo, place, "quiet", old)
    quiet.before_effect = names.append
    quiet.restart()
    quiet.go()
    expected = tree_of(quiet.repo.path)
    assert (quiet.repo.path / "src/b.py").read_text() == "b = 2\n"
    assert not (quiet.repo.path / "a.txt").exists()
    assert len(names) > 8
    for number, name in enumerate(names):
        made = fork(repo, place, f"killed-{number}", old)
        made.before_effect = KillAt(number)
        made.restart()
        with pytest.raises(Killed, match=name.split(" ")[0]):
            made.go()
        made.before_effect = None
        made.restart()
        made.go()
        assert tree_of(made.repo.path) == expected, name
        assert [event.role for event in made.taken()] == [event.role for event in quiet.taken()], name
        assert made.custody.current().tree == old.taken("step")[0].tree, name
        made.close()
    quiet.visit = 1  # the first one was taken over
    verdict = quiet.attempt(lambda: quiet.repo.write("src/b.py", "b = 4\n"))
    assert verdict.savepoint.changed == ("src/b.py",)
    quiet.custody.preserve()
    quiet.close()


def test_edits_of_the_new_worktree_are_not_overwritten(
    repo: Repo, place: Path, deliver: Callable[..., Delivery]
) -> None:
    """A tracked file that was changed, and one that nobody knows, are named; nothing is touched and nothing recorded."""
    made = fork(repo, place, "edited", source(repo, deliver))
    made.repo.write("src/b.py", "mine\n")
    made.repo.write("mine.txt")
    with pytest.raises(CallerError, match=r"mine\.txt, src/b\.py") as raised:
        made.go()
    assert raised.value.code is Code.CORRELATION_MISMATCH
    assert made.repo.read("src/b.py") == b"mine\n"
    assert made.ledger.head() == 0
    made.close()


def test_a_store_that_lost_the_savepoint_is_refused(repo: Repo, place: Path, deliver: Callable[..., Delivery]) -> None:
    """It is told where it was looked for and what was not there; no store is begun."""
    made = fork(repo, place, "lost", source(repo, deliver))
    made.start = ObjectId("0" * 39 + "1")
    with pytest.raises(CallerError, match=r"it does not have 0{39}1") as raised:
        made.go()
    assert raised.value.code is Code.ORIGIN_INVALID
    assert not made.layout.store.exists()
    made.close()
