"""What becomes of the work: the preserved result, its publication, and custody's retirement.

Every fact is durable before the next effect, and an effect whose fact is missing is looked up where it happened: the result
by its ref, the publication by the target. So each operation may be killed anywhere and asked again.
"""

from custody.desk import Desk
from custody.publish import Publisher, Target
from custody.remains import end_history, own_place
from custody.remote import RemotePublisher
from custody.repository import Repository
from custody.result import Converter, changed_paths, commit_result, keep_result
from runner.contract import ports
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import OwnerRetired, PublicationAsked, PublicationKnown, ResultPreserved
from runner.contract.ids import Digest, ObjectId
from runner.contract.outcomes import Publication, Retirement
from runner.contract.records import Draft


def preserve(desk: Desk, baseline: ports.Savepoint, current: ports.Savepoint) -> tuple[ObjectId, ObjectId]:
    """See ``ports.CustodyLifecycle.preserve``. Without changes the result is the base commit itself."""
    done = desk.facts.preserved()
    if done is not None:
        return ObjectId(done.tree), ObjectId(done.commit)
    repository, activation, frozen = desk.repository(), desk.case.activation, desk.store.frozen()
    base = desk.store.base(activation.workspace.base_tree)
    converter = Converter(
        git=desk.git,
        repository=repository,
        store=desk.store,
        conversions=frozen.conversions,
        modes_count=frozen.modes_count,
    )
    start, last = desk.store.load(baseline.commit), desk.store.load(current.commit)
    changes = changed_paths(base, start, last, include_dirty=activation.workspace.include_dirty)
    desk.before_effect("write result")
    tree, commit = commit_result(converter, activation, base, changes, last)
    desk.before_effect("keep result")
    ref = _keep(desk, repository, commit)
    desk.before_effect("record result")
    desk.writer.append(Draft(event=ResultPreserved(tree=tree, commit=commit, ref=ref)))
    return ObjectId(tree), ObjectId(commit)


def _keep(desk: Desk, repository: Repository, commit: str) -> str:
    """The ref that holds the result; empty when that is the admitted commit and nobody has it any more."""
    if repository.git_dir == own_place(desk.store):
        if commit == desk.case.activation.workspace.base_commit:
            return ""
        end_history(repository, commit)
    return keep_result(desk.git, repository, desk.delivery, commit)


def publish(desk: Desk, *, requested: bool) -> Publication:
    """See ``ports.CustodyLifecycle.publish``. In a conflict ``old`` is what the target had to be, ``new`` what it is.
    At a remote, what was not requested is not looked at either: both are what was expected."""
    known = desk.facts.publication()
    if known is None:
        known = _published(desk, requested)
        desk.before_effect("record publication")
        desk.writer.append(Draft(event=PublicationKnown(publication=known)))
    return known


def _published(desk: Desk, requested: bool) -> Publication:
    result = desk.facts.preserved()
    if result is None:
        raise IntegrityError(
            Code.ILLEGAL_TRANSITION,
            f"{desk.delivery} has no preserved result",
            remedy="preserve it before publishing",
        )
    target = desk.case.activation.target
    wanted = Target(ref=target.ref, expected=target.expected, new=result.commit)
    asked = desk.facts.publication_asked()
    if target.remote is not None and not requested and not asked:
        # A failed Delivery must not wait for a repository that it has nothing to tell.
        return Publication(disposition="not-requested", ref=target.ref, old=target.expected, new=target.expected)
    publisher = _publisher(desk, wanted, target.remote)
    step, now = publisher.look(asked=asked)
    if not requested and not asked:
        return Publication(disposition="not-requested", ref=target.ref, old=now, new=now)
    if step == "ask":
        if not asked:
            desk.before_effect("record asking")
            event = PublicationAsked(ref=wanted.ref, expected=wanted.expected, new=wanted.new)
            desk.writer.append(Draft(event=event))
        desk.before_effect("move target")
        step, now = publisher.move()
    return wanted.known(step, now)


def _publisher(desk: Desk, wanted: Target, remote: str | None) -> Publisher | RemotePublisher:
    repository = desk.repository()
    if remote is None:
        return Publisher(git=desk.git, repository=repository, target=wanted)
    return RemotePublisher(
        git=desk.git,
        store=desk.store,
        repository=repository,
        target=wanted,
        url=remote,
        patience=desk.patience,
    )


def retire(desk: Desk, authorization: Digest) -> Retirement:
    """See ``ports.CustodyLifecycle.retire``. Store, savepoints and the preserved result stay until they are collected."""
    known = desk.facts.retirement()
    if known is None:
        if desk.facts.baseline() is not None:
            desk.worktree_left()  # opened, so that nothing of ours is left in it
            desk.before_effect("heal store")
            desk.store.heal()
        desk.close()
        known = Retirement(owner="custody", authorization=authorization)
        desk.before_effect("record retirement")
        desk.writer.append(Draft(event=OwnerRetired(retirement=known)))
    if known.authorization != authorization:
        raise IntegrityError(
            Code.AUTHORIZATION_FOREIGN,
            f"custody of {desk.delivery} was retired under {known.authorization}, not {authorization}",
            remedy="ask with the authorization that the ledger holds",
        )
    return known
