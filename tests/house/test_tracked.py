"""No tracked file names a package registry or a path of one machine."""

import subprocess
from pathlib import Path

import pytest

from tests.house import style, tracked
from tests.house.source import PROJECT

HOSTS = [".".join(parts) for parts in tracked._HOSTS]


def repository(tree: Path, files: dict[str, str]) -> Path:
    """A git repository under ``tree`` that tracks exactly ``files``."""
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, "utf-8")
        subprocess.run(["git", "add", "--force", name], cwd=tree, check=True)
    return tree


def test_the_project_names_neither() -> None:
    """Every tracked file, the locked requirements included."""
    assert not list(tracked.breaches(PROJECT))


@pytest.mark.parametrize("host", HOSTS)
def test_a_planted_registry_is_found(tmp_path: Path, host: str) -> None:
    """In any tracked file, in any case, with its line."""
    tree = repository(tmp_path, {"docs/x.md": f"one\nsee https://{host.upper()}/simple/x\n"})
    assert [b.place for b in tracked.breaches(tree)] == ["docs/x.md:2"]


@pytest.mark.parametrize("option", ["--index-" + "url X", "--extra-index-" + "url X", "--find-" + "links X"])
def test_a_planted_index_option_in_a_lock_is_found(tmp_path: Path, option: str) -> None:
    """A locked file must install from whatever index the machine uses."""
    tree = repository(tmp_path, {"requirements/dev.txt": f"{option}\na==1\n"})
    assert [b.place for b in tracked.breaches(tree)] == ["requirements/dev.txt:1"]


@pytest.mark.parametrize("path", ["/" + "root/x", "/" + "home/ann/x", "/" + "Users/ann/x"])
def test_a_planted_machine_path_is_found(tmp_path: Path, path: str) -> None:
    """Somebody's home directory is wrong on every other machine."""
    tree = repository(tmp_path, {"a.py": f"X = '{path}'\n"})
    assert [b.place for b in tracked.breaches(tree)] == ["a.py:1"]


def test_the_place_of_the_checkout_is_found(tmp_path: Path) -> None:
    """The directory that the checkout stands in is a machine path too."""
    tree = repository(tmp_path, {"a.py": f"X = '{tmp_path.resolve()}/a'\n"})
    assert [b.place for b in tracked.breaches(tree)] == ["a.py:1"]


def test_what_is_not_tracked_does_not_matter(tmp_path: Path) -> None:
    """An ignored note or a build directory may say anything."""
    tree = repository(tmp_path, {"a.py": "x = 1\n"})
    (tree / "note.txt").write_text(f"https://{HOSTS[0]}\n", "utf-8")
    assert not list(tracked.breaches(tree))


def test_the_project_keeps_the_house_style() -> None:
    """Sizes, names and unfinished work, over the four packages."""
    assert not list(style.breaches(PROJECT))


@pytest.mark.parametrize(
    ("where", "code", "rule"),
    [
        ("runner/x.py", "x = 1\n" * 501, "501 lines"),
        ("runner/x.py", "def f():\n" + "    x = 1\n" * 70, "f has 71 lines"),
        ("runner/x.py", "async def f():\n" + "    x = 1\n" * 70, "f has 71 lines"),
        ("runner/utils.py", "", "says nothing"),
        ("custody/helpers/x.py", "", "says nothing"),
        ("runner/x.py", "# TO" + "DO: later\n", "unfinished"),
        ("runner/x.py", "try:\n    f()\nexcept OSError:\n    pass\n", "swallowed"),
        ("runner/x.py", "raise NotImplementedError\n", "a stub"),
        ("runner/x.py", "raise NotImplementedError('x')\n", "a stub"),
        ("runner/x.py", "x = 1  # type: ig" + "nore\n", "silences everything"),
        ("runner/x.py", "x = 1  # no" + "qa\n", "silences everything"),
    ],
)
def test_a_planted_breach_of_style_is_found(tmp_path: Path, where: str, code: str, rule: str) -> None:
    """Each rule refuses what it is for."""
    file = tmp_path / where
    file.parent.mkdir(parents=True)
    file.write_text(code, "utf-8")
    assert [rule in breach.rule for breach in style.breaches(tmp_path)] == [True]


def test_an_exception_that_is_left_alone_for_a_reason_is_allowed(tmp_path: Path) -> None:
    """The reason stands inside the handler."""
    (tmp_path / "runner").mkdir()
    code = "try:\n    f()\nexcept OSError:\n    pass  # it is gone already\n"
    (tmp_path / "runner" / "x.py").write_text(code, "utf-8")
    assert not list(style.breaches(tmp_path))


def test_the_limits_themselves_are_allowed(tmp_path: Path) -> None:
    """500 lines and 70 lines pass."""
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "x.py").write_text("def f():\n" + "    x = 1\n" * 69 + "x = 1\n" * 430, "utf-8")
    assert not list(style.breaches(tmp_path))
