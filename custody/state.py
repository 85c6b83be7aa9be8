"""What a worktree is at one moment, as a value; and its manifest, the part of it that a git tree cannot say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from custody.paths import decode, encode, parents
from runner.contract.canonical import canonical, parse, thaw

FORMAT: Final = "runner.savepoint/1"
SYMLINK: Final = 0o120000
EXECUTABLE: Final = 0o100755
REGULAR: Final = 0o100644
GITLINK: Final = 0o160000
FIFO: Final = "fifo"
_MODES: Final = attrgetter("mode", "perm")


@dataclass(frozen=True, slots=True)
class File:
    """A captured file or symlink: git's mode, the blob of its raw bytes, and all permission bits (0 for symlinks)."""

    mode: int
    oid: str
    perm: int


@dataclass(frozen=True, slots=True)
class Directory:
    perm: int
    empty: bool


@dataclass(frozen=True, slots=True)
class Special:
    kind: str


@dataclass(frozen=True, slots=True)
class Uncaptured:
    why: str


At = File | Directory | Special | Uncaptured | None
"""What is at one path; None: nothing."""


@dataclass(frozen=True, slots=True)
class Staged:
    """An index entry. ``tag`` is ``H``, ``S`` for skip-worktree; lower case when assumed unchanged."""

    mode: int
    oid: str
    tag: str = "H"


Index = Mapping[tuple[bytes, int], Staged]
"""By path and stage; stage 0 unless there is a conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is around the files: never restored, only compared and reported."""

    head: str
    """The text of the worktree's HEAD: a branch or an object id."""
    operations: Mapping[str, str]
    """Merge, rebase and the like in progress, by file name and digest."""
    environment: Mapping[str, str]
    """Digests of config, hooks, attributes and excludes of the repository, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Equal states are equal worktrees, as far as custody looks."""

    files: Mapping[bytes, File]
    dirs: Mapping[bytes, int]
    """Every directory that was looked into (not the root) and its permission bits."""
    empty: frozenset[bytes]
    """Directories with nothing in them at all."""
    specials: Mapping[bytes, str]
    """FIFOs, sockets and devices, by kind: never opened."""
    index: Index
    not_captured: Mapping[bytes, str]
    """Paths whose bytes no savepoint has, and why."""
    surroundings: Surroundings
    ignore: str = ""
    """Digest of the frozen ignore rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A savepoint in the private store."""

    commit: str
    tree: str
    """Of the work files."""
    root: str
    """The commit's whole tree."""
    state: State
    touched: Mapping[bytes, At] = field(default_factory=dict)
    """Of a mid-step savepoint: what its manifest does not say."""
    exact: bool = True
    """Whether ``state`` is what the commit says, too. A worktree that is at a savepoint may hold more that no savepoint has
    the bytes of."""


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The commonest permission bits, so that a manifest lists only exceptions."""

    modes: Mapping[int, int] = field(default_factory=dict)
    odd: bool = False
    """Whether a file has others."""
    directory: int = 0o755


def manifest(state: State) -> bytes:
    """Canonical JSON: equal states have equal manifests."""
    usual = _usual(state)
    holding = _holding(state.files)
    files = state.files.items() if usual.odd else ()
    odd = {encode(p): f.perm for p, f in files if f.perm != usual.modes[f.mode]}
    return canonical(
        {
            "format": FORMAT,
            "modes": {f"{m:o}": p for m, p in usual.modes.items()},
            "odd_modes": odd,
            "directory": usual.directory,
            "odd_directories": {encode(d): p for d, p in state.dirs.items() if p != usual.directory},
            "empty": sorted(encode(d) for d in state.empty),
            "hollow": sorted(encode(d) for d in state.dirs if d not in holding and d not in state.empty),
            "specials": {encode(p): k for p, k in state.specials.items()},
            "index_tags": {f"{s}:{encode(p)}": e.tag for (p, s), e in state.index.items() if e.tag != "H"},
            "not_captured": {encode(p): why for p, why in state.not_captured.items()},
            "head": state.surroundings.head,
            "operations": dict(state.surroundings.operations),
            "environment": dict(state.surroundings.environment),
            "ignore": state.ignore,
        }
    )


def from_manifest(data: bytes, files: Mapping[bytes, tuple[int, str]], index: Index) -> State:
    """The inverse of ``manifest``, given the tree's work files and index entries. ``ValueError`` for anything else."""
    value: Any = thaw(parse(data))
    if value.get("format") != FORMAT:
        raise ValueError(f"not a {FORMAT} manifest")
    modes = {int(m, 8): p for m, p in value["modes"].items()}
    odd = {decode(p): perm for p, perm in value["odd_modes"].items()}
    empty = frozenset(decode(d) for d in value["empty"])
    hollow = [decode(d) for d in value["hollow"]]
    odd_directories = {decode(d): p for d, p in value["odd_directories"].items()}
    tags = {(decode(k.partition(":")[2]), int(k.partition(":")[0])): t for k, t in value["index_tags"].items()}
    return State(
        files={p: File(mode, oid, odd.get(p, modes.get(mode, 0))) for p, (mode, oid) in files.items()},
        dirs={d: odd_directories.get(d, value["directory"]) for d in {*_holding(files), *empty, *hollow}},
        empty=empty,
        specials={decode(p): k for p, k in value["specials"].items()},
        index={key: Staged(e.mode, e.oid, tags.get(key, "H")) for key, e in index.items()},
        not_captured={decode(p): why for p, why in value["not_captured"].items()},
        surroundings=Surroundings(head=value["head"], operations=value["operations"], environment=value["environment"]),
        ignore=value["ignore"],
    )


def _usual(state: State) -> _Defaults:
    counts: dict[int, Counter[int]] = {}
    for (mode, perm), count in Counter(map(_MODES, state.files.values())).items():
        counts.setdefault(mode, Counter())[perm] = count
    directories = Counter(state.dirs.values())
    return _Defaults(
        modes={mode: _commonest(count) for mode, count in counts.items()},
        odd=any(len(count) > 1 for count in counts.values()),
        directory=_commonest(directories) if directories else 0o755,
    )


def _commonest(count: Counter[int]) -> int:
    """Ties go to the smaller number: a manifest must not depend on the order of a scan."""
    return min(count, key=lambda perm: (-count[perm], perm))


def _holding(files: Iterable[bytes]) -> set[bytes]:
    """Every directory above one of ``files``."""
    found = {path.rpartition(b"/")[0] for path in files}
    for directory in [*found]:
        for above in parents(directory):
            if above in found:
                break
            found.add(above)
    return found - {b""}


def directories_of(paths: Iterable[bytes]) -> frozenset[bytes]:
    """Every directory above one of ``paths``."""
    return frozenset(_holding(paths))
