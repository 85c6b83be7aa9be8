"""What agents, people and their tools do to a worktree, at random. An edit that cannot be done is not done."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.custody.fakes import Repo

PATHS = [
    *(
        "a.txt",
        "src/b.py",
        "src",
        "src/n.py",
        "d",
        "d/e",
        "d/e/f.txt",
        "x",
        ".gitignore",
        "d/.gitignore",
        "app.log",
        "d/z.log",
    ),
    *(
        "build/o",
        "build",
        "sub",
        "sub/in.txt",
        "sub/deep/er",
        "d/\udcff\udcfe",
        "d/line\nbreak",
        "-n",
        ":(glob)x",
        "d/git~1",
    ),
    *("d/%41", 'd/quote"s', "d/e\u0301", "y" * 255, " lead "),
]
CONTENTS = [b"", b"1\n", b"2\n", b"a\n", b"*\n", b"!*.log\n", b"mixed\r\nends\n", b"x" * 70_000, b"\0\xff"]
FILE_MODES = [0o600, 0o644, 0o755, 0o700, 0o444, 0o640, 0o100]
DIRECTORY_MODES = [0o755, 0o700, 0o750, 0o555]
TARGETS = ["a.txt", "../outside", "nowhere", ".", "src", "/dev/null"]


@dataclass(frozen=True)
class Edit:
    """One thing done to ``path``; ``other`` is a second path, ``choice`` picks among contents, modes or targets."""

    what: str
    path: str
    other: str
    choice: int

    def apply(self, repo: Repo) -> None:
        with suppress(OSError):  # the worktree is not such that this can be done
            EDITS[self.what](repo, self)


def clear(place: Path) -> Path:
    """Nothing is at ``place`` any more."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    return place


def made_room(repo: Repo, path: str) -> Path:
    place = repo.path / path
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def write(repo: Repo, edit: Edit) -> None:
    place = made_room(repo, edit.path)
    if not place.is_fifo():  # nobody reads it
        place.write_bytes(CONTENTS[edit.choice % len(CONTENTS)])


def forge(repo: Repo, edit: Edit) -> None:
    """The same size, and the time put back."""
    place = repo.path / edit.path
    status = place.lstat()
    if place.is_symlink() or not place.is_file() or not status.st_size:
        return
    with place.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


def truncate(repo: Repo, edit: Edit) -> None:
    place = repo.path / edit.path
    if place.is_file() and not place.is_symlink():
        os.truncate(place, edit.choice % 3)


def rename(repo: Repo, edit: Edit) -> None:
    made_room(repo, edit.other)
    (repo.path / edit.path).rename(repo.path / edit.other)


def exchange(repo: Repo, edit: Edit) -> None:
    """Two paths change places, a directory and a file among them."""
    one, two, spare = repo.path / edit.path, repo.path / edit.other, repo.path / ".spare"
    one.rename(spare)
    try:
        two.rename(one)
    finally:
        spare.rename(two if not os.path.lexists(two) else one)


def remove(repo: Repo, edit: Edit) -> None:
    clear(repo.path / edit.path)


def chmod(repo: Repo, edit: Edit) -> None:
    place = repo.path / edit.path
    if not place.is_symlink():
        modes = DIRECTORY_MODES if place.is_dir() else FILE_MODES
        place.chmod(modes[edit.choice % len(modes)])


def symlink(repo: Repo, edit: Edit) -> None:
    clear(made_room(repo, edit.path)).symlink_to(TARGETS[edit.choice % len(TARGETS)])


def directory(repo: Repo, edit: Edit) -> None:
    place = made_room(repo, edit.path)
    if not place.is_dir() or place.is_symlink():
        clear(place).mkdir()


def hard_link(repo: Repo, edit: Edit) -> None:
    if not (repo.path / edit.path).is_symlink():
        os.link(repo.path / edit.path, made_room(repo, edit.other))


def fifo(repo: Repo, edit: Edit) -> None:
    os.mkfifo(clear(made_room(repo, edit.path)))


def nested(repo: Repo, edit: Edit) -> None:
    """A repository, with or without a commit, in a directory that may hold files already."""
    place = repo.path / edit.path
    place.mkdir(parents=True, exist_ok=True)
    if not (place / ".git").exists():
        repo.git("init", "-q", cwd=place)
        if edit.choice % 2:
            repo.git("commit", "-q", "--allow-empty", "-m", "nested", cwd=place)


def git(*args: str, many: bool = False) -> Callable[[Repo, Edit], None]:
    """A git command of the user's or the agent's; what it refuses is not done."""

    def run(repo: Repo, edit: Edit) -> None:
        if not waits(repo):
            repo.git(*args, *([] if many else ["--", f":(literal){edit.path}"]), ok=False)

    return run


def waits(repo: Repo) -> bool:
    """Whether the user's git might read a FIFO, and wait for somebody to write."""
    return any(place.is_fifo() for place in repo.path.rglob("*"))


def plumbing(flag: str) -> Callable[[Repo, Edit], None]:
    def run(repo: Repo, edit: Edit) -> None:
        if not waits(repo):
            repo.git("update-index", flag, "--", edit.path, ok=False)

    return run


def conflict(repo: Repo, edit: Edit) -> None:
    """Two or three stages of a path."""
    oids = [repo.git("hash-object", "-w", "--stdin", stdin=b"%d\n" % (n + edit.choice)) for n in range(3)]
    name = os.fsencode(edit.path)
    stages = [(n + 1, oid) for n, oid in enumerate(oids) if (edit.choice + n) % 3 or edit.choice % 2]
    lines = [b"0 %s\t%s\0" % (b"0" * 40, name), *(b"100644 %s %d\t%s\0" % (o.encode(), n, name) for n, o in stages)]
    repo.git("update-index", "-z", "--index-info", stdin=b"".join(lines), ok=False)


def collect(repo: Repo, edit: Edit) -> None:
    """The user tidies up: nothing that nobody refers to stays."""
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now", ok=False)


EDITS: dict[str, Callable[[Repo, Edit], None]] = {
    "write": write,
    "forge": forge,
    "truncate": truncate,
    "rename": rename,
    "exchange": exchange,
    "remove": remove,
    "chmod": chmod,
    "symlink": symlink,
    "directory": directory,
    "hard link": hard_link,
    "fifo": fifo,
    "nested": nested,
    "add": git("add", "-A"),
    "add forced": git("add", "-f"),
    "add all": git("add", "-A", many=True),
    "forget": git("rm", "-q", "--cached", "-r"),
    "unstage": git("reset", "-q"),
    "reset": git("reset", "-q", "--hard", many=True),
    "commit": git("commit", "-q", "-m", "theirs", many=True),
    "assume unchanged": plumbing("--assume-unchanged"),
    "skip worktree": plumbing("--skip-worktree"),
    "conflict": conflict,
    "collect": collect,
}

edits = st.builds(
    Edit,
    what=st.sampled_from(sorted(EDITS)),
    path=st.sampled_from(PATHS),
    other=st.sampled_from(PATHS),
    choice=st.integers(0, 9),
)
