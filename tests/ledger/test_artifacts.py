"""Values by content: inline or a file, verified when read."""

from pathlib import Path

import pytest

from runner.contract import limits
from runner.contract.canonical import canonical, freeze
from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.events import ValueRef
from runner.ledger import FileArtifacts


@pytest.mark.parametrize("extra", [-3, -2, -1, 0, 500])
def test_a_value_comes_back(tmp_path: Path, extra: int) -> None:
    """At, below and above the inline bound the value is the same; only above it is a file written."""
    value = "x" * (limits.INLINE_BYTES_MAX + extra)
    artifacts = FileArtifacts(tmp_path / "artifacts")
    ref = artifacts.put(value)
    assert artifacts.get(ref) == value
    assert ref.bytes == len(canonical(value))
    assert ref.stored == (ref.bytes > limits.INLINE_BYTES_MAX) == (tmp_path / "artifacts").exists()
    assert artifacts.get(ValueRef.model_validate_json(ref.model_dump_json())) == value


def test_equal_values_are_one_file(tmp_path: Path) -> None:
    """Content-addressed: the order of keys does not matter and nothing temporary stays."""
    artifacts = FileArtifacts(tmp_path)
    big = "x" * 4_000
    assert artifacts.put(freeze({"a": 1, "b": big})) == artifacts.put(freeze({"b": big, "a": 1}))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize("content", [b"", b"{}", b'"' + b"y" * 3_000 + b'"', b"x" * 100_000])
def test_an_altered_file_is_refused_and_mended_by_putting_again(tmp_path: Path, content: bytes) -> None:
    """Reading never returns other content; the same value put again is whole again."""
    artifacts = FileArtifacts(tmp_path)
    value = "x" * 3_000
    ref = artifacts.put(value)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(content)
    with pytest.raises(IntegrityError) as caught:
        artifacts.get(ref)
    assert caught.value.code is Code.ARTIFACT_CORRUPT
    assert artifacts.get(artifacts.put(value)) == value


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link in place of an artifact is refused, whatever it leads to."""
    artifacts = FileArtifacts(tmp_path / "artifacts")
    ref = artifacts.put("x" * 3_000)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.raises(IntegrityError):
        artifacts.get(ref)


def test_an_inline_value_with_another_digest_is_refused(tmp_path: Path) -> None:
    """The digest decides, also for what stands in the record itself."""
    artifacts = FileArtifacts(tmp_path)
    ref = artifacts.put("a").model_copy(update={"inline": "b"})
    with pytest.raises(IntegrityError):
        artifacts.get(ref)


def test_leftovers_of_a_kill_are_swept(tmp_path: Path) -> None:
    """Unfinished files go, finished ones stay."""
    artifacts = FileArtifacts(tmp_path)
    ref = artifacts.put("x" * 3_000)
    (folder,) = tmp_path.iterdir()
    (folder / ".new-left").write_bytes(b"half")
    artifacts.sweep()
    assert len(list(folder.iterdir())) == 1
    assert artifacts.get(ref) == "x" * 3_000


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A refusing file system is an environment fault with the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="file"):
        FileArtifacts(tmp_path / "file").put("x" * 3_000)
