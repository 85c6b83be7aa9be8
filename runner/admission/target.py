"""The ref that will be published to: which it is, in which repository, and what it is now."""

from pathlib import Path
from typing import Final

from runner.admission.worktree import GitFailed, Repository, is_text, run_git, split0
from runner.contract.activation import Target
from runner.contract.errors import CallerError, Code, EnvironmentFault
from runner.contract.remotes import ANSWER_S, local_path, ref_in, remote_problem
from runner.interpreter.surroundings import ref_problem

ABSENT: Final = "absent"


def full_ref(name: str) -> str:
    """``name`` as a full ref: a short name is a branch."""
    return name if name.startswith("refs/") else f"refs/heads/{name}"


def target_at(repository: Repository, ref: str, push: str | None) -> Target:
    """The target ``ref``: the repository's own, or with ``push`` (a remote's name, or an address) the remote's. Looks at what
    it is now. ``CallerError`` (``target-invalid``), ``EnvironmentFault`` (``remote-unreachable``)."""
    if push is None:
        return Target(ref=ref, expected=target_expected(repository, ref))
    url = remote_url(repository, push)
    return Target(ref=ref, expected=remote_expected(repository, url, ref), remote=url)


def target_expected(repository: Repository, ref: str) -> str:
    """What the target is now: an object id or ``absent``. ``CallerError`` (``target-invalid``) for a name git refuses, a ref
    that is checked out somewhere, a symbolic one, or one that another ref's name stands in the way of."""
    root = repository.root
    _check_name(root, ref)
    try:
        refs = run_git(root, "for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)").decode(
            "utf-8", "replace"
        )
        worktrees = split0(run_git(root, "worktree", "list", "--porcelain", "-z"))
    except GitFailed as error:
        raise EnvironmentFault(
            Code.GIT_FAILED, f"the refs cannot be read: {error}", remedy="check the repository"
        ) from None
    if f"branch {ref}" in worktrees:
        raise _target(ref, "is checked out in a worktree, which publishing would pull away", "name another branch")
    known = {fields[0]: fields for line in refs.splitlines() if len(fields := line.split("\0")) == 3}
    if ref in known:
        _, value, symbolic = known[ref]
        if symbolic:
            raise _target(ref, f"is a symbolic ref to {symbolic}", "name that one")
        return value
    parents = {ref.rsplit("/", n)[0] for n in range(1, ref.count("/") - 1)}
    in_the_way = [other for other in known if other in parents or other.startswith(ref + "/")]
    if in_the_way:
        raise _target(ref, f"cannot exist beside {in_the_way[0]!r}", "name another branch")
    return ABSENT


def _check_name(root: Path, ref: str) -> None:
    if not is_text(Path(ref)):
        raise _target(ref, "is not UTF-8 text", "choose a plainer name")
    branch = ref.removeprefix("refs/heads/")
    if branch != ref and (branch in ("HEAD", "@") or branch.startswith("-")):
        raise _target(ref, "is a name git refuses for a branch", "name another branch")
    if ref.startswith("refs/runner/"):
        raise _target(ref, "lies where results are kept", "name a branch")
    try:
        run_git(root, "check-ref-format", ref)
    except GitFailed:
        raise _target(ref, "is not a name git accepts", "see 'git check-ref-format'") from None
    if problem := ref_problem(ref):
        raise _target(ref, f"cannot be used: {problem}", "choose a shorter, plainer name")
    if not ref.startswith(("refs/heads/", "refs/tags/")):
        raise _target(ref, "is neither a branch nor a tag", "name a branch")


def _target(ref: str, why: str, remedy: str) -> CallerError:
    return CallerError(Code.TARGET_INVALID, f"the target {ref!r:.300} {why}", remedy=remedy)


# --- elsewhere -------------------------------------------------------------------------------------------------------


def remote_url(repository: Repository, push: str) -> str:
    """The address that ``git push`` would use for a configured remote of that name, else ``push`` itself; a path becomes
    absolute. ``CallerError`` (``target-invalid``) for what cannot be pushed to, and for the repository itself."""
    try:
        urls = run_git(repository.root, "remote", "get-url", "--push", "--all", "--", push)
    except GitFailed:
        url = push
    else:
        found = urls.decode("utf-8", "replace").splitlines()
        if len(found) != 1:
            raise _remote(push, f"has {len(found)} addresses", "name one of them")
        url = found[0]
    here = repository.root / url
    if "://" not in url and here.is_dir():
        url = str(here.resolve())
    if problem := remote_problem(url):
        raise _remote(push, problem, "name a configured remote, a path, or an https or ssh address without a secret")
    path = local_path(url)
    if path is not None and _is_same(Path(path), repository):
        raise _remote(push, "is the repository itself", "leave --push out to publish in it")
    return url


def _is_same(path: Path, repository: Repository) -> bool:
    places = (path, path / ".git")
    return any(place.is_dir() and place.samefile(repository.common_dir) for place in places)


def remote_expected(repository: Repository, url: str, ref: str) -> str:
    """What ``ref`` is at ``url`` now: an object id or ``absent``."""
    _check_name(repository.root, ref)
    try:
        listing = run_git(Path("/"), "ls-remote", "--", url, ref, remote=True, timeout_s=ANSWER_S)
    except (GitFailed, EnvironmentFault) as error:
        raise EnvironmentFault(
            Code.REMOTE_UNREACHABLE,
            f"{url!r:.300} cannot be asked: {error}",
            remedy="see that it can be reached without a question: an ssh agent, or ~/.netrc for https",
        ) from None
    return ref_in(listing, ref) or ABSENT


def _remote(push: str, why: str, remedy: str) -> CallerError:
    return CallerError(Code.TARGET_INVALID, f"the remote {push!r:.300} {why}", remedy=remedy)
