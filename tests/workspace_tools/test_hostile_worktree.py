"""Nothing outside the worktree is reached and nothing special is opened, whatever stands in the worktree."""

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.workspace_tools.desk import Desk

READING = ("read", "list", "search")


def arguments(tool: str, path: str) -> dict[str, str]:
    more = {"search": {"text": "secret"}, "write": {"content": "x"}, "edit": {"old": "secret", "new": "x"}}
    return {"path": path, **more.get(tool, {})}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """``outside`` holds a secret beside the worktree."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret\n")
    (tmp_path / "w").mkdir()
    return Desk(tmp_path / "w")


ALL = (*READING, "write", "edit")


@pytest.mark.parametrize("tool", ALL)
@pytest.mark.parametrize(
    "path",
    ["../outside/file", "a/../../outside/file", "/etc/passwd", "nul\x00", "x" * 300, "d/" * 3000 + "f", "..", "a/.."],
)
def test_paths_that_leave_are_refused(desk: Desk, tool: str, path: str) -> None:
    """Absolute paths, '..', NUL and over-long names are told to the model as a failure."""
    text = desk.refused(tool, **arguments(tool, path))
    assert "secret" not in text
    assert "\x00" not in text
    assert (desk.root.parent / "outside" / "file").read_text() == "secret\n"


@pytest.mark.parametrize("tool", ALL)
@pytest.mark.parametrize("name", [".git", ".GIT", ".Git", ".git.", ".git ", "GIT~1", "sub/.git", "./.git"])
def test_git_is_out_of_bounds_in_every_spelling(desk: Desk, tool: str, name: str) -> None:
    """No tool reaches .git, folded or nested."""
    for folded in (".git", ".GIT", "sub/.git"):
        (desk.root / folded).mkdir(parents=True, exist_ok=True)
        (desk.root / folded / "config").write_text("secret\n")
    assert "out of bounds" in desk.refused(tool, **arguments(tool, f"{name}/config"))
    assert (desk.root / ".git" / "config").read_text() == "secret\n"


def test_git_is_neither_listed_nor_searched(desk: Desk) -> None:
    """What may not be read does not show up either."""
    for name in (".git", ".GIT", "sub/.git"):
        (desk.root / name).mkdir(parents=True)
        (desk.root / name / "config").write_text("secret\n")
    assert desk.ok("list") == "sub/"
    assert desk.ok("list", glob="**") == "sub/"
    assert desk.ok("search", text="secret") == "[not found]"


@pytest.mark.parametrize("tool", ALL)
def test_a_link_is_not_followed(desk: Desk, tool: str) -> None:
    """Neither as the file nor as a directory on the way, to outside, inside, dangling or itself."""
    outside = desk.root.parent / "outside"
    (desk.root / "real").mkdir()
    (desk.root / "real" / "file").write_text("secret\n")
    for name, target in {
        "dir": str(outside),
        "inner": "real",
        "file": str(outside / "file"),
        "dangling": str(outside / "new"),
        "loop": "loop",
    }.items():
        (desk.root / name).symlink_to(target)
    for path in ("dir/file", "dir/new", "inner/file", "file", "dangling", "loop", "loop/file"):
        outcome = desk(tool, **arguments(tool, path))
        assert not outcome.ok or outcome.text == "[not found]", path
        assert "secret" not in outcome.text
    assert sorted(p.name for p in outside.iterdir()) == ["file"]
    assert (outside / "file").read_text() == (desk.root / "real" / "file").read_text() == "secret\n"
    assert (desk.root / "file").is_symlink()


def test_links_show_in_a_list_and_are_not_walked(desk: Desk) -> None:
    """A list says that a link is one."""
    (desk.root / "dir").symlink_to(desk.root.parent / "outside")
    assert desk.ok("list") == "dir (symbolic link)"
    assert desk.ok("list", glob="**") == "dir (symbolic link)"
    assert desk.ok("search", text="secret") == "[not found]"


@pytest.mark.parametrize("tool", ALL)
def test_a_fifo_is_refused_and_nobody_waits(desk: Desk, tool: str) -> None:
    """Opening a FIFO would hang; it is refused before."""
    os.mkfifo(desk.root / "pipe")
    outcome = desk(tool, **arguments(tool, "pipe"))
    assert not outcome.ok or outcome.text == "[not found]"
    assert desk.ok("list") == "pipe (special file)"
    assert desk.ok("search", text="x") == "[not found]"


def test_a_directory_swapped_for_a_link_is_never_a_way_out(desk: Desk) -> None:
    """While another thread swaps a directory and a link to outside, every write lands inside or fails."""
    outside = desk.root.parent / "outside"
    real, link, place = desk.root / "real", desk.root / "link", desk.root / "place"
    real.mkdir()
    link.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            # A write may have made 'place' in between; then it is in the way of this round.
            with suppress(OSError):
                real.rename(place)
                place.rename(real)
                link.rename(place)
                place.rename(link)
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place, ignore_errors=True)
                real.mkdir(exist_ok=True)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(60):
            desk("write", path=f"place/file{number}", content="mine")
            outcome = desk("read", path="place/file")
            assert "secret" not in outcome.text
    finally:
        stop.set()
        thread.join()
    assert sorted(p.name for p in outside.iterdir()) == ["file"]


def test_control_characters_in_content_and_names_are_visible(desk: Desk) -> None:
    """Nothing that a model or a terminal is shown can steer either."""
    (desk.root / "e\x1b[31m\u202e.txt").write_text("a\x1b[2Jb\r\x07\u202ec\n")
    shown = desk.ok("list") + desk.ok("search", text="b") + desk.ok("read", path="e\x1b[31m\u202e.txt")
    assert not set(shown) & set("\x1b\r\x07\u202e")
    assert "a\\x1b[2Jb\\x0d\\x07\\u202ec" in shown


def test_a_name_that_is_not_utf8_is_shown_and_not_reachable(desk: Desk) -> None:
    """Such a file does not break a list or a search."""
    Path(os.fsdecode(os.fsencode(desk.root) + b"/bad\xff")).write_text("secret\n")
    assert "bad" in desk.ok("list")
    assert desk.ok("search", text="secret").startswith("bad")
