"""What write and edit do: whole files, inside the scope, or nothing."""

import stat
from pathlib import Path

import pytest

from runner.contract.limits import FILE_READ_BYTES_MAX
from runner.contract.scope import READ_ONLY, Scope
from tests.workspace_tools.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_write_makes_directories_and_says_what_changed(desk: Desk) -> None:
    """A new file is there whole, and no temporary one stays."""
    outcome = desk("write", path="./a//b/c.txt", content="héllo\n")
    assert outcome.ok
    assert outcome.changed == ("a/b/c.txt",)
    assert (desk.root / "a/b/c.txt").read_bytes() == "héllo\n".encode()
    assert [p.name for p in (desk.root / "a/b").iterdir()] == ["c.txt"]


def test_an_existing_file_keeps_its_mode_and_loses_its_other_names(desk: Desk) -> None:
    """The permission bits stay; set-id bits do not; a hard link to the old content keeps the old content."""
    path = desk.root / "run.sh"
    path.write_text("old")
    path.chmod(0o4750)
    (desk.root.parent / f"{desk.root.name}-other").hardlink_to(path)
    desk.ok("write", path="run.sh", content="new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert (desk.root.parent / f"{desk.root.name}-other").read_text() == "old"


def test_a_write_outside_the_scope_has_no_effect(tmp_path: Path) -> None:
    """Neither the file nor its directories appear, and the answer names the rule."""
    desk = Desk(tmp_path, Scope(kind="patterns", patterns=("src/*.py",)))
    for path in ("other/x.py", "src/deep/x.py", "src/x.txt"):
        assert "src/*.py" in desk.refused("write", path=path, content="x")
        assert "may not write" in desk.refused("edit", path=path, old="a", new="b")
    assert list(tmp_path.iterdir()) == []
    assert desk.ok("write", path="src/x.py", content="x") == "wrote src/x.py"
    assert "may not write" in Desk(tmp_path, READ_ONLY).refused("write", path="src/x.py", content="y")
    assert (tmp_path / "src/x.py").read_text() == "x"


def test_edit_replaces_exactly_one_place(desk: Desk) -> None:
    """Nothing happens unless the text stands there exactly once, or all places are meant."""
    path = desk.root / "f"
    path.write_text("a b a\n")
    assert "2 times" in desk.refused("edit", path="f", old="a", new="c")
    assert "does not stand there" in desk.refused("edit", path="f", old="x", new="c")
    assert "another one" in desk.refused("edit", path="f", old="b", new="b")
    assert path.read_text() == "a b a\n"
    assert desk.ok("edit", path="f", old="b", new="$&\\1") == "edited f: 1 place"
    assert desk.ok("edit", path="f", old="a", new="c", replace_all=True) == "edited f: 2 places"
    assert path.read_text() == "c $&\\1 c\n"


def test_edit_in_a_file_with_dos_line_ends_keeps_them(desk: Desk) -> None:
    """The model writes line feeds; the file stays what it is."""
    (desk.root / "f").write_bytes(b"a\r\nb\r\nc\r\n")
    desk.ok("edit", path="f", old="a\nb", new="x\ny\nz")
    assert (desk.root / "f").read_bytes() == b"x\r\ny\r\nz\r\nc\r\n"


def test_too_much_is_refused(desk: Desk) -> None:
    """Neither one call nor the growth of one edit is unbounded."""
    (desk.root / "f").write_text("a" * 100_000)
    assert "larger than" in desk.refused("write", path="g", content="é" * FILE_READ_BYTES_MAX)
    assert "larger than" in desk.refused("edit", path="f", old="a", new="b" * 100_000, replace_all=True)
    assert (desk.root / "f").read_text() == "a" * 100_000
    assert not (desk.root / "g").exists()


def test_what_stands_in_the_way_stays(desk: Desk) -> None:
    """A directory is not replaced, and a file is not made a directory."""
    (desk.root / "d").mkdir()
    (desk.root / "f").write_text("x")
    assert "is a directory" in desk.refused("write", path="d", content="y")
    assert "not a directory" in desk.refused("write", path="f/g", content="y")
    assert "name a file" in desk.refused("write", path=".", content="y")
    assert (desk.root / "f").read_text() == "x"
