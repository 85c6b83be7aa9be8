"""Reading objects of any repository, the user's or the private one."""

from collections.abc import Callable, Iterable, Iterator

from custody.git import Conversation, Git, Place


def read_blobs(
    git: Git, place: Place, oids: Iterable[str], missing: Callable[[str, str], Exception]
) -> Iterator[bytes]:
    """The content of each blob in turn, from any repository."""
    talk: Conversation | None = None
    try:
        for oid in oids:
            talk = talk or git.talk(place, "cat-file", "--batch")
            talk.write(oid.encode() + b"\n")
            header = talk.read_line().split(b" ")
            if len(header) != 3:
                raise missing(oid, header[-1].decode("utf-8", "replace"))
            yield talk.read(int(header[2]) + 1)[:-1]
    finally:
        if talk is not None:
            talk.kill()


def missing_objects(git: Git, place: Place, oids: Iterable[str]) -> tuple[str, ...]:
    """Those of ``oids`` that a repository does not have."""
    asked = b"".join(oid.encode() + b"\n" for oid in oids)
    if not asked:
        return ()
    listing = git.run(place, "cat-file", "--batch-check", stdin=asked).stdout.decode()
    return tuple(line.split(" ")[0] for line in listing.splitlines() if line.endswith(" missing"))


def commit_trees(git: Git, place: Place, commits: Iterable[str]) -> dict[str, str]:
    """The tree of the work files of each savepoint; the tree without entries where it has no such files."""
    known = tuple(commits)
    asked = b"".join(f"{commit}:work\n".encode() for commit in known)
    lines = git.run(place, "cat-file", "--batch-check", stdin=asked).stdout.decode().splitlines()
    found = {}
    for commit, line in zip(known, lines, strict=True):
        oid, kind, *_ = [*line.split(" "), ""]
        found[commit] = oid if kind == "tree" else empty_tree("sha256" if len(commit) == 64 else "sha1")
    return found


def empty_tree(object_format: str) -> str:
    """The id of a tree without entries."""
    return {
        "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }[object_format]
