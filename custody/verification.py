"""Does custody still have what the ledger says? Looks only; works without a driver and without the worktree.

Reads the private store and, where it is still there, the user's repository: every savepoint and its objects, the preserved
result and its objects, and what the published ref is now. A ref that somebody moved after the publication is told and is no
fault of the record.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from custody.git import Git
from custody.objects import commit_trees, missing_objects
from custody.remains import kept_aside, repository_behind
from custody.repository import ABSENT, Repository, read_ref
from custody.store import Frozen, Store
from custody.writing import TIP
from runner.contract.activation import Activation
from runner.contract.errors import RunnerError
from runner.contract.events import PublicationKnown, ResultPreserved, SavepointTaken
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Check
from runner.contract.records import Record

NAMED_MAX: Final = 5
"""Savepoints that one check names."""


def verify_custody(activation: Activation, layout: DeliveryLayout, records: Iterable[Record]) -> tuple[Check, ...]:
    """What custody holds, checked against ``records`` (those that are not its own are passed over). Each check says what was
    looked at; what cannot be read is a check that failed, never an exception. Costs every object of the store."""
    savepoints: list[SavepointTaken] = []
    result: ResultPreserved | None = None
    published: PublicationKnown | None = None
    for record in records:
        match record.event:
            case SavepointTaken():
                savepoints.append(record.event)
            case ResultPreserved():
                result = record.event
            case PublicationKnown():
                published = record.event
    if not savepoints:
        return (Check(name="savepoints", ok=True, detail="none recorded yet"),)
    git = Git()
    store = Store(git, layout.store)
    try:
        frozen = store.frozen()
    except RunnerError as error:
        return (Check(name="savepoints", ok=False, detail=error.message),)
    checks = [_guarded("savepoints", lambda: _savepoints(git, store, savepoints))]
    checks.append(_guarded("savepoint objects", lambda: _objects(git, store, activation.workspace.base_tree)))
    if result is not None:
        checks += _in_repository(git, store, frozen, result, None if activation.target.remote else published)
    if published is not None and activation.target.remote is not None:
        told = f"{published.publication.disposition} at {activation.target.remote}, which is not asked"
        checks.append(Check(name="publication", ok=True, detail=told))
    return tuple(checks)


def _guarded(name: str, look: Callable[[], tuple[bool, str]]) -> Check:
    try:
        ok, detail = look()
    except (RunnerError, OSError) as error:
        ok, detail = False, error.message if isinstance(error, RunnerError) else str(error)
    return Check(name=name, ok=ok, detail=detail)


def _savepoints(git: Git, store: Store, savepoints: list[SavepointTaken]) -> tuple[bool, str]:
    """Every recorded savepoint is on the private chain, with the recorded tree and a manifest."""
    wanted = {event.savepoint: event.tree for event in savepoints}
    listing = git.run(store.place, "rev-list", TIP, "--", ok=(0, 128)).stdout.decode()
    lost = sorted(wanted.keys() - set(listing.split()))
    if lost:
        return False, f"not in {store.path}: {', '.join(lost[:NAMED_MAX])}"
    found = commit_trees(git, store.place, wanted)
    other = [
        f"{commit} (recorded {tree}, is {found[commit]})" for commit, tree in wanted.items() if found[commit] != tree
    ]
    if other:
        return False, f"the tree of work files is another: {', '.join(other[:NAMED_MAX])}"
    bare = missing_objects(git, store.place, [f"{commit}:manifest" for commit in wanted])
    if bare:
        return False, f"no manifest: {', '.join(bare[:NAMED_MAX])}"
    return True, f"{len(wanted)} recorded, all in the store with the recorded trees"


def _objects(git: Git, store: Store, base_tree: str) -> tuple[bool, str]:
    """Every object of the store has its content's id, and none that a savepoint refers to is missing."""
    answer = git.run(store.place, "fsck", "--full", "--strict", "--no-dangling", "--no-progress", ok=range(256))
    complaints = [
        line
        for line in (*answer.stdout.decode("utf-8", "replace").splitlines(), *answer.stderr.splitlines())
        # A store has no branch of its own, and git remarks on that.
        if line and not line.startswith("notice: ")
    ]
    if answer.status or complaints:
        return False, f"git fsck of {store.path}: {'; '.join(complaints[:NAMED_MAX]) or f'status {answer.status}'}"
    if missing_objects(git, store.place, [base_tree]):
        return False, f"the admitted tree {base_tree} is not in {store.path}"
    return True, "every object is whole and none is missing"


def _in_repository(
    git: Git, store: Store, frozen: Frozen, result: ResultPreserved, published: PublicationKnown | None
) -> Iterator[Check]:
    """What custody left in the user's repository. Asked of what all worktrees share, so the Delivery's own may be gone."""
    if not result.ref:
        yield Check(name="preserved result", ok=True, detail=f"nothing was changed: it is {result.commit}, as admitted")
        return
    repository = repository_behind(frozen)
    if repository is None:
        repository, published = kept_aside(store, frozen), None
    if repository is None:
        yield Check(name="preserved result", ok=False, detail=f"the repository {frozen.common_dir} is not there")
        return
    kept = repository
    yield _guarded("preserved result", lambda: _result(git, kept, result))
    if published is not None:
        yield _guarded("publication", lambda: _publication(git, kept, published))


def _result(git: Git, repository: Repository, result: ResultPreserved) -> tuple[bool, str]:
    now = read_ref(git, repository, result.ref)
    if now != result.commit:
        return False, f"{result.ref} should be {result.commit} and is {now}"
    if missing_objects(git, repository.place, [result.commit]):
        return False, f"{result.commit}, which {result.ref} names, is missing from the repository"
    answer = git.run(repository.place, "rev-parse", "-q", "--verify", f"{result.commit}^{{tree}}", ok=(0, 1, 128))
    tree = answer.stdout.decode().strip()
    if tree != result.tree:
        return False, f"{result.commit} should have the tree {result.tree} and has {tree or 'none'}"
    walk = git.run(repository.place, "rev-list", "--objects", "--quiet", tree, ok=range(256))
    if walk.status:
        return False, f"objects of {result.commit} are missing: {walk.stderr}"
    return True, f"{result.ref} is {result.commit}, with all its objects"


def _publication(git: Git, repository: Repository, known: PublicationKnown) -> tuple[bool, str]:
    publication = known.publication
    now = read_ref(git, repository, publication.ref)
    told = "absent" if now == ABSENT else now
    if publication.disposition not in ("published", "already-at-target"):
        return True, f"{publication.disposition}; {publication.ref} is now {told}"
    if now == publication.new:
        return True, f"{publication.ref} is {now}, as {publication.disposition}"
    return True, f"{publication.ref} was {publication.new} when it was published and is now {told}"
