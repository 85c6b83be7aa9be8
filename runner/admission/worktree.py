"""The parent's worktrees: finding the repository, making and removing a worktree. The only file outside custody that starts
git; others ask through ``run_git``.

A repository is hostile: earlier agents could write its config. Every call therefore overrides what git would execute on its own:
hooks (``git worktree add`` runs post-checkout), the file system monitor, automatic maintenance, and every filter driver that any
config names (checking out runs ``smudge``, ``status`` runs ``clean``). Overrides travel in ``GIT_CONFIG_*`` variables,
which no name chosen by the repository can break out of. The user's own configuration is trusted and stays in force otherwise.

Refused by name, because a result made from them would be wrong: files under a filter (git-lfs and the like), partial clones
(git would fetch while checking out), SHA-256 repositories, bare ones, ones without a commit. Shallow clones are fine.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from runner.contract.errors import CallerError, Code, EnvironmentFault, Finding
from runner.contract.ids import ObjectId
from runner.contract.remotes import REMOTE_CONFIG, remote_environment

TIMEOUT_S: Final = 600.0
KEPT: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "USER", "LOGNAME")
NO_EFFECTS: Final = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
}

MISLEADING: Final = ("GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_WORK_TREE")
"""Variables that keep GitPython from seeing a repository where there is one; git sets them for its hooks."""
OLDEST_GIT: Final = (2, 36)
"""The first that syncs what it writes (core.fsync)."""

PATHS_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository that admission can work with, as it was found."""

    root: Path
    """Canonical path of the checkout that was named."""
    common_dir: Path
    head: ObjectId
    """The commit that is checked out there."""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Overrides that switch the filter drivers off which some config names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A worktree and the commit it stands on: what an activation's ``workspace`` is made from."""

    repository: Repository
    path: Path
    base_commit: ObjectId
    base_tree: ObjectId
    include_dirty: bool = False
    fresh: bool = False
    """Made by ``make_worktree`` or to be made by it, so that it may be removed again."""


def discover(path: Path) -> Repository:
    """The repository whose checkout ``path`` is or lies in. ``CallerError`` (``repository-invalid``) saying why not. Reads only."""
    required_git()
    try:
        import git
    except ImportError as error:
        # GitPython tries git when it is imported.
        problem = f"git does not work: {error}"
        raise EnvironmentFault(
            Code.GIT_MISSING, problem, remedy="see 'git version' and GIT_PYTHON_GIT_EXECUTABLE"
        ) from None
    try:
        found = git.Repo(path, search_parent_directories=True)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        misled = [name for name in MISLEADING if name in os.environ]
        remedy = f"unset {', '.join(misled)}" if misled else "run 'git init' and commit, or name another folder"
        raise _invalid(path, "is not inside a git repository", remedy) from None
    except (git.GitError, OSError, ValueError) as error:
        raise _invalid(path, f"cannot be opened as a repository: {error}", "check it with 'git status'") from None
    try:
        bare, root, common_dir = found.bare, found.working_tree_dir, Path(found.common_dir)
    finally:
        found.close()
    if bare or root is None:
        raise _invalid(path, "is a bare repository", "name a checkout of it")
    root_path = Path(root).resolve()
    if not path.resolve().is_relative_to(root_path):
        raise _invalid(path, "is not inside the checkout that its repository's config names", "remove core.worktree")
    return _judged(root_path, common_dir.resolve())


def _judged(root: Path, common_dir: Path) -> Repository:
    """What only git itself can say."""
    if not is_text(root):
        raise _invalid(root, "has a path that is not UTF-8 text", "rename the folder")
    try:
        top = os.fsdecode(run_git(root, "rev-parse", "--show-toplevel").removesuffix(b"\n"))
        hash_name = run_git(root, "rev-parse", "--show-object-format").decode().strip()
        config = _filters_off(root)
        promisors = _config_names(root, r"^(extensions\.partialclone|remote\..*\.(promisor|partialclonefilter))$")
    except GitFailed as error:
        raise _invalid(root, f"cannot be read by git: {error}", "check it with 'git status'") from None
    if Path(top).resolve() != root:
        raise _invalid(root, f"has its checkout at {top!r:.200}", "name that folder")
    if hash_name != "sha1":
        raise _invalid(root, f"is a {hash_name} repository, which is not supported yet", "use a SHA-1 repository")
    if promisors:
        raise _invalid(
            root, "is a partial clone, which is not supported yet", "use a full clone: 'git clone' without --filter"
        )
    try:
        head = run_git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
    except GitFailed:
        raise _invalid(root, "has no commit that can be read", "commit something first, or see 'git fsck'") from None
    return Repository(root=root, common_dir=common_dir, head=ObjectId(head), config=config)


def is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(path: Path, why: str, remedy: str) -> CallerError:
    return CallerError(Code.REPOSITORY_INVALID, f"{str(path)!r:.300} {why}", remedy=remedy)


def _config_names(directory: Path, pattern: str) -> list[str]:
    try:
        return split0(run_git(directory, "config", "--null", "--name-only", "--get-regexp", pattern))
    except GitFailed as error:
        if str(error):
            raise
        return []


def _filters_off(directory: Path) -> dict[str, str]:
    """Overrides that make every configured filter driver do nothing. Reading config starts none."""
    names = _config_names(directory, r"^filter\..*\.(clean|smudge|process|required)$")
    return {name: "false" if name.endswith(".required") else "" for name in names}


# --- worktrees -------------------------------------------------------------------------------------------------------


def planned_worktree(repository: Repository, *, base: str | None, directory: Path) -> Checkout:
    """The worktree that ``make_worktree`` will make at ``directory`` (where nothing may be), detached at ``base`` (default:
    what is checked out in the repository). ``CallerError`` for an unknown base or files under a filter, ``EnvironmentFault``
    for the directory. Writes nothing."""
    commit, tree = _resolved(repository, repository.head if base is None else base)
    if not is_text(directory):
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE, f"{str(directory)!r} is not UTF-8 text", remedy="name another folder"
        )
    if directory.exists():
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE, f"{str(directory)!r} exists already", remedy="remove it or name another"
        )
    with tempfile.TemporaryDirectory() as private:
        run = partial(_bound(repository), repository.root, index=Path(private, "index"))
        try:
            run("read-tree", commit)
        except GitFailed as error:
            raise _invalid(repository.root, f"has a commit that git cannot read: {error}", "git fsck") from None
        _refuse_filtered(run)
    return Checkout(repository=repository, path=directory.resolve(), base_commit=commit, base_tree=tree, fresh=True)


def claim_worktree(checkout: Checkout) -> None:
    """Takes the directory of a planned worktree for ``make_worktree``. ``EnvironmentFault`` when somebody else has: of two who
    planned the same one, neither may clean up behind the other."""
    try:
        checkout.path.parent.mkdir(parents=True, exist_ok=True)
        checkout.path.mkdir()
    except FileExistsError:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE, f"{str(checkout.path)!r} exists already", remedy="remove it or name another"
        ) from None
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE, f"{checkout.path}: {error.strerror}", remedy="free space or check rights"
        ) from None


def make_worktree(checkout: Checkout) -> None:
    """Makes what was planned and claimed. ``EnvironmentFault`` when it cannot be made; then nothing of it is left
    behind. Uncommitted work in the repository's own checkout stays there and is not part of it."""
    run = _bound(checkout.repository)
    root, path, commit = checkout.repository.root, checkout.path, checkout.base_commit
    try:
        run(root, "worktree", "add", "--quiet", "--detach", "--no-checkout", str(path), commit)
        run(path, "read-tree", commit)
        run(path, "checkout-index", "--all", "--index", "--quiet", "--force")
    except (GitFailed, OSError) as error:
        remove_worktree(checkout)
        raise EnvironmentFault(
            Code.GIT_FAILED, f"the worktree cannot be made: {error}", remedy="free space or check rights"
        ) from None
    except BaseException:
        remove_worktree(checkout)
        raise


def in_place(repository: Repository, *, include_dirty: bool) -> Checkout:
    """The repository's own checkout as it is. ``CallerError`` (``worktree-dirty``) listing what is changed, unless
    ``include_dirty`` says that it belongs to the Delivery; unfinished merges are refused always."""
    commit, tree = _resolved(repository, repository.head)
    checkout = Checkout(
        repository=repository, path=repository.root, base_commit=commit, base_tree=tree, include_dirty=include_dirty
    )
    _refuse_filtered(partial(_bound(repository), repository.root))
    changed = changed_paths(checkout)
    unmerged = [path for state, path in changed if state == "unmerged"]
    if unmerged:
        raise _dirty(repository, changed, "finish or abort the merge first")
    if changed and not include_dirty:
        raise _dirty(repository, changed, "commit or stash it, or pass --include-dirty to make it part of the Delivery")
    return checkout


def changed_paths(checkout: Checkout) -> list[tuple[str, str]]:
    """What differs from the commit in a checkout, untracked files included, ignored ones not: (``changed`` or ``new`` or
    ``unmerged``, path)."""
    try:
        output = _bound(checkout.repository)(
            checkout.path,
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=none",
        )
    except GitFailed as error:
        raise EnvironmentFault(Code.GIT_FAILED, f"git status failed: {error}", remedy="check the repository") from None
    kinds = {"1": ("changed", 8), "u": ("unmerged", 10), "?": ("new", 1)}
    return [(kinds[line[0]][0], line.split(" ", kinds[line[0]][1])[-1]) for line in split0(output) if line[0] in kinds]


def remove_worktree(checkout: Checkout) -> None:
    """Removes a worktree that ``make_worktree`` made, with everything in it. Idempotent. The repository's own checkout is
    never removed."""
    if not checkout.fresh or checkout.path == checkout.repository.root:
        return
    try:
        _bound(checkout.repository)(
            checkout.repository.root, "worktree", "remove", "--force", "--force", str(checkout.path)
        )
    except GitFailed:
        shutil.rmtree(checkout.path, ignore_errors=True)
        try:
            run_git(checkout.repository.root, "worktree", "prune")
        except GitFailed as error:
            raise EnvironmentFault(
                Code.GIT_FAILED, f"the worktree cannot be removed: {error}", remedy="git worktree prune"
            ) from None


def _resolved(repository: Repository, base: str) -> tuple[ObjectId, ObjectId]:
    """The commit that ``base`` names and its tree."""
    ids = []
    for peel in ("commit", "tree"):
        try:
            found = run_git(
                repository.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{{peel}}}"
            )
        except GitFailed:
            raise _invalid(repository.root, f"has no commit {base!r:.200}", "name a branch, tag or commit") from None
        ids.append(ObjectId(found.decode().strip()))
    return ids[0], ids[1]


def _refuse_filtered(run: Callable[..., bytes]) -> None:
    """Files under a filter hold something else in the worktree than in git, and turning one into the other runs programs."""
    try:
        names = run("ls-files", "-z")
        answer = run("check-attr", "--cached", "-z", "--stdin", "filter", data=names)
    except GitFailed as error:
        raise EnvironmentFault(
            Code.GIT_FAILED, f"git check-attr failed: {error}", remedy="check the repository"
        ) from None
    fields = split0(answer)
    filtered = [
        (fields[n], fields[n + 2])
        for n in range(0, len(fields) - 2, 3)
        if fields[n + 2] not in ("unspecified", "unset")
    ]
    if filtered:
        path, name = filtered[0]
        raise CallerError(
            Code.REPOSITORY_INVALID,
            f"{len(filtered)} files of this repository go through a git filter, which is not supported yet",
            remedy="use a repository without git-lfs and other filters",
            findings=[Finding(place=path, problem=f"is under the filter {name!r:.80}", fix="see .gitattributes")],
        )


def _dirty(repository: Repository, changed: Sequence[tuple[str, str]], remedy: str) -> CallerError:
    shown = [Finding(place=repr(path)[1:-1], problem=state, fix="") for state, path in changed[:PATHS_SHOWN_MAX]]
    more = f" (the first {PATHS_SHOWN_MAX} are listed)" if len(changed) > PATHS_SHOWN_MAX else ""
    return CallerError(
        Code.WORKTREE_DIRTY,
        f"{str(repository.root)!r} has {len(changed)} uncommitted paths{more}",
        remedy=remedy,
        findings=shown,
    )


# --- running git -----------------------------------------------------------------------------------------------------


class GitFailed(Exception):
    """A git command ended with another status than zero; the message is its error output."""


def required_git() -> str:
    """What ``git --version`` says. ``EnvironmentFault`` (``git-missing``) when there is none that is new enough."""
    oldest = ".".join(map(str, OLDEST_GIT))
    try:
        said = run_git(Path("/"), "--version").decode("utf-8", "replace").strip()
    except GitFailed as error:
        raise EnvironmentFault(
            Code.GIT_MISSING,
            f"git does not work: {error or 'it says nothing'}",
            remedy=f"install git {oldest} or newer",
        ) from None
    numbers = re.match(r"git version (\d+)\.(\d+)", said)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_GIT:
        problem = f"{said.splitlines()[0] if said else 'this git'!r:.80} is too old, or no git"
        raise EnvironmentFault(Code.GIT_MISSING, problem, remedy=f"install git {oldest} or newer")
    return said


def run_git(
    directory: Path,
    *arguments: str,
    config: Mapping[str, str] | None = None,
    data: bytes | None = None,
    index: Path | None = None,
    remote: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """The standard output of ``git -C directory arguments``. ``GitFailed`` when git says no; ``EnvironmentFault`` when it is not
    there or does not end. ``config`` is added to the overrides; ``index`` is used in place of the repository's own. With
    ``remote`` it talks to a repository elsewhere, in no repository of its own and by the rules of ``contract.remotes``."""
    if shutil.which("git") is None:
        raise EnvironmentFault(Code.GIT_MISSING, "git is not installed", remedy="install git 2.36 or newer")
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            input=data if data is not None else b"",
            capture_output=True,
            env=_remote_environment() if remote else _environment({**NO_EFFECTS, **(config or {})}, index),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(Code.GIT_FAILED, f"git {arguments[0]} did not end in {timeout_s:g} s") from None
    except OSError as error:
        raise EnvironmentFault(Code.GIT_FAILED, f"git {arguments[0]} cannot be run: {error}") from None
    if done.returncode != 0:
        raise GitFailed(_shown(done.stderr))
    return done.stdout


def split0(output: bytes) -> list[str]:
    """NUL-separated output as text; names that are not UTF-8 keep their bytes as surrogates."""
    return [os.fsdecode(part) for part in output.split(b"\0") if part]


def _bound(repository: Repository) -> Callable[..., bytes]:
    """``run_git`` with the repository's filters switched off."""
    return partial(run_git, config=repository.config)


def _environment(config: Mapping[str, str], index: Path | None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    pairs: Sequence[tuple[str, str]] = tuple(config.items())
    numbered = {f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(pairs)}
    numbered |= {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(pairs)}
    return {
        **kept,
        **numbered,
        **({"GIT_INDEX_FILE": str(index)} if index else {}),
        "GIT_CONFIG_COUNT": str(len(pairs)),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


def _remote_environment() -> dict[str, str]:
    path = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {
        **path,
        **_environment({**NO_EFFECTS, **REMOTE_CONFIG}, None),
        **remote_environment(os.environ),
        "GIT_DIR": os.devnull,
    }


def _shown(stderr: bytes) -> str:
    text = stderr.decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)[-500:]
