"""Edits that are not the Delivery's: kept, told apart where they can be, taken over or undone as a person said."""

from collections.abc import Callable

import pytest

from custody.foreign import spliced
from custody.state import File, State, Surroundings
from runner.contract import ports
from runner.contract.grant import WorkspaceGrant
from runner.contract.scope import READ_ONLY
from tests.custody.fakes import Delivery, Repo, patterns, tree_of

Deliver = Callable[..., Delivery]
SRC = patterns("src/**")


def edited(repo: Repo, delivery: Delivery) -> ports.ForeignEdit:
    """A person edits between two processes; the next attempt finds it."""
    delivery.attempt(lambda: repo.write("n.txt"))
    delivery.restart()
    repo.write("a.txt", "by hand\n")
    (repo.path / "src/b.py").unlink()
    delivery.visit += 1
    found = delivery.ask()
    assert isinstance(found, ports.ForeignEdit)
    return found


def test_edits_between_processes_are_kept_as_foreign(repo: Repo, delivery: Delivery) -> None:
    """They are found at the first attempt, kept by content, blamed on no one, and left in the worktree."""
    current = delivery.custody.current()
    found = edited(repo, delivery)
    assert found.paths == ("modified a.txt", "deleted src/b.py")
    assert delivery.custody.current().commit != current.commit  # that of the attempt before
    assert delivery.custody.current().commit != found.savepoint.commit
    assert repo.read("a.txt") == b"by hand\n"
    store = delivery.layout.store
    assert repo.git("--git-dir", str(store), "show", f"{found.savepoint.commit}:work/a.txt") == "by hand"


def test_unresolved_edits_are_recorded_once(repo: Repo, delivery: Delivery) -> None:
    """Asked again, in this process and the next, the answer is the same and nothing new is recorded; when more is edited,
    that is recorded, too; edits that the person undid are none."""
    first = edited(repo, delivery)
    again = delivery.ask()
    delivery.restart()
    later = delivery.ask()
    assert isinstance(again, ports.ForeignEdit) and isinstance(later, ports.ForeignEdit)
    assert again.savepoint.commit == later.savepoint.commit == first.savepoint.commit
    assert again.paths == later.paths == first.paths
    assert len(delivery.taken("foreign")) == 1
    repo.write("a.txt", "by hand, again\n")
    more = delivery.ask()
    assert isinstance(more, ports.ForeignEdit) and more.savepoint.commit != first.savepoint.commit
    assert len(delivery.taken("foreign")) == 2
    repo.write("a.txt", "a\n")
    repo.write("src/b.py", "b = 1\n")
    assert isinstance(delivery.ask(), WorkspaceGrant)


@pytest.mark.parametrize("restart", [False, True])
def test_adopted_edits_go_on(repo: Repo, delivery: Delivery, restart: bool) -> None:
    """The foreign savepoint is the current one, the attempt begins from it and is not blamed, the result has the edits."""
    found = edited(repo, delivery)
    delivery.resolve("adopt")
    if restart:
        delivery.restart()
        assert delivery.custody.current().commit == found.savepoint.commit
    grant = delivery.ask(READ_ONLY)
    assert isinstance(grant, WorkspaceGrant) and grant.savepoint == found.savepoint.commit
    verdict = delivery.custody.settle(grant)
    delivery.end(verdict)
    assert isinstance(verdict, ports.Accepted) and verdict.savepoint.changed == ()
    _, commit = delivery.custody.preserve()
    assert repo.git("diff", "--name-status", "HEAD", commit).split() == ["M", "a.txt", "A", "n.txt", "D", "src/b.py"]


@pytest.mark.parametrize("restart", [False, True])
def test_discarded_edits_are_undone_and_kept(repo: Repo, delivery: Delivery, restart: bool) -> None:
    """The worktree is again the last savepoint's before the attempt begins; the store has the edits."""
    found = edited(repo, delivery)
    delivery.resolve("discard")
    if restart:
        delivery.restart()
    grant = delivery.ask(READ_ONLY)
    assert isinstance(grant, WorkspaceGrant)
    assert (repo.read("a.txt"), repo.read("src/b.py"), repo.read("n.txt")) == (b"a\n", b"b = 1\n", b"x\n")
    assert isinstance(delivery.custody.settle(grant), ports.Accepted)
    assert (
        repo.git("--git-dir", str(delivery.layout.store), "show", f"{found.savepoint.commit}:work/a.txt") == "by hand"
    )


@pytest.mark.parametrize("resolution", ["adopt", "discard"])
def test_a_word_is_about_the_edits_it_was_said_of(repo: Repo, delivery: Delivery, resolution: str) -> None:
    """What was edited after a person decided is asked about anew: it is neither taken over nor lost."""
    edited(repo, delivery)
    delivery.resolve("adopt" if resolution == "adopt" else "discard")
    delivery.restart()
    repo.write("late.txt", "later\n")
    found = delivery.ask()
    assert isinstance(found, ports.ForeignEdit) and "created late.txt" in found.paths
    assert ("modified a.txt" in found.paths) == (resolution == "discard")
    assert repo.read("late.txt") == b"later\n" and len(delivery.taken("foreign")) == 2


# --- while an attempt was open -----------------------------------------------------------------------------------------


def interrupted(repo: Repo, deliver: Deliver) -> Delivery:
    """An agent's attempt with one mark, half a write after it, and a person's edit outside its scope, all before a new
    process asks."""
    work = deliver(repo, agent=True)
    work.custody.baseline()
    grant = work.begin(SRC)
    repo.write("src/b.py", "first\n")
    work.mark(grant, "src/b.py")
    repo.write("src/half.py")
    work.restart()
    repo.write("a.txt", "by hand\n")
    return work


def test_somebody_elses_part_of_an_interrupted_attempt_is_told_apart(repo: Repo, deliver: Deliver) -> None:
    """Only what an agent cannot have written is called foreign, once; the agent's own half-done work is no part of it."""
    work = interrupted(repo, deliver)
    for _ in range(2):
        found = work.ask(SRC, resume=True)
        assert isinstance(found, ports.ForeignEdit) and found.paths == ("modified a.txt",)
        work.restart()
    assert len(work.taken("foreign")) == 1
    store = str(work.layout.store)
    listed = repo.git("--git-dir", store, "ls-tree", "-r", "--name-only", f"{found.savepoint.commit}:work").split()
    assert listed == [".gitignore", "a.txt", "src/b.py"]
    assert repo.git("--git-dir", store, "show", f"{found.savepoint.commit}:work/src/b.py") == "b = 1"


def test_an_interrupted_attempt_goes_on_over_adopted_edits(repo: Repo, deliver: Deliver) -> None:
    """With the files of its last mark and the person's beside them; it is not blamed for those, a further crash changes
    nothing, and when it fails the edits stay."""
    work = interrupted(repo, deliver)
    found = work.ask(SRC, resume=True)
    assert isinstance(found, ports.ForeignEdit)
    work.resolve("adopt")
    for number in range(3):
        grant = work.begin(SRC, resume=True)
        assert grant.savepoint == found.savepoint.commit
        assert (repo.read("a.txt"), repo.read("src/b.py")) == (b"by hand\n", b"first\n" if number < 2 else b"second\n")
        assert not (repo.path / "src/half.py").exists()
        if number == 1:
            repo.write("src/b.py", "second\n")
            work.mark(grant, "src/b.py")
        work.restart()
    grant = work.begin(SRC, resume=True)
    repo.write("src/c.py")
    verdict = work.custody.settle(grant)
    assert isinstance(verdict, ports.Accepted) and verdict.savepoint.changed == ("src/b.py", "src/c.py")
    work.end(verdict)
    work.attempt(lambda: repo.write("src/d.py"), SRC, keep=False)
    assert repo.read("a.txt") == b"by hand\n" and not (repo.path / "src/d.py").exists()


def test_an_interrupted_attempt_goes_on_without_discarded_edits(repo: Repo, deliver: Deliver) -> None:
    """The worktree is that of its last mark; the cancelled Delivery would be that of its opening."""
    work = interrupted(repo, deliver)
    assert isinstance(work.ask(SRC, resume=True), ports.ForeignEdit)
    work.resolve("discard")
    grant = work.begin(SRC, resume=True)
    assert (repo.read("a.txt"), repo.read("src/b.py")) == (b"a\n", b"first\n")
    work.end(work.custody.discard(grant))
    assert repo.read("src/b.py") == b"b = 1\n"


def test_nothing_is_told_apart_for_a_command(repo: Repo, delivery: Delivery) -> None:
    """Its process may have written anywhere: everything goes back to where the attempt began and stays in the store."""
    before = tree_of(repo.path)
    delivery.begin(SRC)
    delivery.restart()
    repo.write("a.txt", "by whom?\n")
    delivery.begin(SRC, resume=True)
    assert tree_of(repo.path) == before and not delivery.taken("foreign")
    assert repo.git("--git-dir", str(delivery.layout.store), "show", "refs/custody/savepoints:work/a.txt") == "by whom?"


def state(files: dict[str, str], dirs: tuple[str, ...] = (), empty: tuple[str, ...] = ()) -> State:
    return State(
        files={name.encode(): File(0o100644, content, 0o644) for name, content in files.items()},
        dirs={name.encode(): 0o755 for name in (*dirs, *empty)},
        empty=frozenset(name.encode() for name in empty),
        specials={},
        index={},
        not_captured={},
        surroundings=Surroundings(head="", operations={}, environment={}),
    )


@pytest.mark.parametrize(
    ("inside", "around", "expected"),
    [
        (
            state({"src/a": "1"}, ("src",)),
            state({"src/a": "2", "b": "2"}, ("src",)),
            state({"src/a": "1", "b": "2"}, ("src",)),
        ),
        (state({"b": "1"}), state({"src/x/y": "2"}, ("src", "src/x")), state({}, ("src",))),
        (state({"src/a": "1"}, ("src",)), state({"src": "2"}), state({"src": "2"})),
        (state({"src/a": "1"}, ("src",)), state({}), state({"src/a": "1"}, ("src",))),
        (state({}, (), ("src/e",)), state({}, (), ("src/f", "g")), state({}, (), ("src/e", "g"))),
    ],
    ids=["both", "neither", "around wins", "needed above", "empty directories"],
)
def test_two_states_are_spliced_by_scope(inside: State, around: State, expected: State) -> None:
    """What the scope allows from one, everything else from the other, directories as the files need them."""
    found = spliced(inside, around, SRC)
    assert (found.files, found.dirs, found.empty) == (expected.files, expected.dirs, expected.empty)
