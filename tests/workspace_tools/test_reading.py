"""What read, list and search show: text, bounded, in a fixed order."""

from pathlib import Path

import pytest

from providers.workspace_tools import bounds
from runner.contract.limits import FILE_READ_BYTES_MAX, SEARCH_MATCHES_MAX
from tests.workspace_tools.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_read_shows_lines_from_an_offset_and_says_what_is_left(desk: Desk) -> None:
    """Paging reaches every line exactly once."""
    (desk.root / "f").write_text("one\ntwo\n\nfour")
    assert desk.ok("read", path="./f") == "one\ntwo\n\nfour"
    assert desk.ok("read", path="f", offset=2, limit=1) == "two\n[... 2 more lines; go on with offset 3]"
    assert desk.ok("read", path="f", offset=3) == "\nfour"
    assert "only 4 lines" in desk.refused("read", path="f", offset=5)


def test_what_read_returns_is_bounded_by_bytes(desk: Desk) -> None:
    """A large file comes in pages, a huge line cut with a marker, a huge file not at all."""
    (desk.root / "large").write_text(("é" * 99 + "\n") * 5_000)
    page = desk.ok("read", path="large")
    assert len(page.encode()) <= FILE_READ_BYTES_MAX + 200
    assert "more lines; go on with offset" in page.splitlines()[-1]
    (desk.root / "line").write_text("é" * FILE_READ_BYTES_MAX + "\nend\n")
    assert "this line was cut" in desk.ok("read", path="line")
    assert desk.ok("read", path="line", offset=2) == "end"
    with (desk.root / "huge").open("wb") as file:
        file.truncate(bounds.FILE_BYTES_MAX + 1)
    assert "larger than" in desk.refused("read", path="huge")


def test_files_that_are_not_text_are_told_so(desk: Desk) -> None:
    """Binary, other encodings, an empty file, a directory and nothing at all each have their own answer."""
    (desk.root / "b").write_bytes(b"\x7fELF\0\0")
    (desk.root / "latin").write_bytes("é".encode("latin-1"))
    (desk.root / "empty").write_bytes(b"")
    (desk.root / "d").mkdir()
    assert "binary file of 6 bytes" in desk.refused("read", path="b")
    assert "0xe9 at 0 is not UTF-8" in desk.refused("read", path="latin")
    assert desk.ok("read", path="empty") == "[the file is empty]"
    assert "is a directory" in desk.refused("read", path="d")
    assert "no such file" in desk.refused("read", path="none")
    assert "name a file" in desk.refused("read", path=".")


def test_line_ends_of_dos_are_shown_as_lines_and_said(desk: Desk) -> None:
    """CR LF throughout is a property of the file, not of each line."""
    (desk.root / "f").write_bytes(b"a\r\nb\r\n")
    assert desk.ok("read", path="f") == "a\nb\n[lines end with CR LF]"


def test_list_is_sorted_and_a_glob_goes_below(desk: Desk) -> None:
    """The same tree always lists the same."""
    for name in ("src/b.py", "src/a.py", "src/deep/c.py", "z.py", "a.md"):
        path = desk.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert desk.ok("list") == "a.md\nsrc/\nz.py"
    assert desk.ok("list", path="src") == "a.py\nb.py\ndeep/"
    assert desk.ok("list", glob="**/*.py") == "src/a.py\nsrc/b.py\nsrc/deep/c.py\nz.py"
    assert desk.ok("list", path="src", glob="*/*.py") == "deep/c.py"
    assert desk.ok("list", glob="*.txt") == "[nothing fits the glob]"
    assert "not part of the language" in desk.refused("list", glob="!x")
    assert "not a directory" in desk.refused("list", path="a.md")


def test_a_long_list_is_cut_with_a_marker(desk: Desk) -> None:
    """Bounded, and it says so."""
    for number in range(bounds.ENTRIES_MAX + 5):
        (desk.root / f"f{number:05}").touch()
    lines = desk.ok("list").splitlines()
    assert len(lines) == bounds.ENTRIES_MAX + 1
    assert "more entries" in lines[-1]


def test_search_finds_text_literally(desk: Desk) -> None:
    """No character is special; case only where asked; a file can be named directly."""
    (desk.root / "a.txt").write_text("x = (a+)+$\nX = (A+)+$\n")
    (desk.root / "b.md").write_text("(a+)+$\r\n")
    (desk.root / "bin").write_bytes(b"(a+)+$\0")
    skipped = "[1 files were skipped: binary, too large or unreadable]"
    assert desk.ok("search", text="(a+)+$").splitlines() == ["a.txt:1: x = (a+)+$", "b.md:1: (a+)+$", skipped]
    assert desk.ok("search", text="(a+)+$", glob="*.md") == "b.md:1: (a+)+$"
    assert desk.ok("search", text="(A+)+", path="a.txt", ignore_case=True).count("\n") == 1
    assert "within one line" in desk.refused("search", text="a\nb")


def test_many_matches_and_long_lines_are_cut_with_a_marker(desk: Desk) -> None:
    """Bounded by matches and by line."""
    (desk.root / "f").write_text(("needle" + "x" * 1_000 + "\n") * (SEARCH_MATCHES_MAX + 1))
    lines = desk.ok("search", text="needle").splitlines()
    assert len(lines) == SEARCH_MATCHES_MAX + 1
    assert "more characters" in lines[0]
    assert "more matches" in lines[-1]


def test_a_deep_tree_is_walked_to_a_bound(desk: Desk) -> None:
    """Depth costs handles; where it ends, the answer says so."""
    path = desk.root
    for _ in range(bounds.DEPTH_MAX + 10):
        path /= "d"
        path.mkdir()
    (path / "f").write_text("needle")
    assert "cut short" in desk.ok("search", text="needle")
