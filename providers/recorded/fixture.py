"""A directory of recordings, read whole and checked before anything is replayed."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from runner.contract.canonical import digest, digest_bytes
from runner.contract.errors import Code, ProviderError
from runner.contract.ids import Digest
from runner.contract.recording import FILE_BYTES_MAX, SUFFIX, Recording, read
from runner.contract.text import excerpt

FILES_MAX: Final = 10_000
TOTAL_BYTES_MAX: Final = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """All recordings of a directory. ``digest`` is over file names and bytes, so that a binding can freeze the content."""

    place: str
    digest: Digest
    recordings: Mapping[str, Recording]
    """By step key."""
    files: Mapping[str, str]
    """The file name of each step key."""


def read_fixture(directory: str, bound: Digest | None = None) -> Fixture:
    """Every ``*.jsonl`` file directly in ``directory`` (relative to the working directory, or absolute); other files are
    ignored. ``ProviderError(recording-invalid)`` for the first thing wrong: no such directory, nothing in it, a link, a
    file too large, a line that does not hold, two recordings of one step. ``ProviderError(binding-drift)`` when ``bound``
    is given and is not the digest; that is looked at before any line, so that every changed byte is drift."""
    contents = _contents(directory)
    found = digest({name: digest_bytes(data) for name, data in contents.items()})
    check_bound(directory, found, bound)
    recordings: dict[str, Recording] = {}
    files: dict[str, str] = {}
    for name, data in contents.items():
        recording = read(data, excerpt(name, 200))
        step = recording.header.step
        if step in files:
            raise _invalid(directory, f"{files[step]} and {name} both record step {step}", "remove one of them")
        recordings[step], files[step] = recording, name
    return Fixture(
        place=directory,
        digest=found,
        recordings=MappingProxyType(recordings),
        files=MappingProxyType(files),
    )


def absolute(directory: str) -> str:
    """The directory's canonical path; ``ProviderError(recording-invalid)`` for one that no JSON can hold."""
    try:
        path = str(Path(directory).resolve())
        path.encode()
    except UnicodeEncodeError:
        raise _invalid(directory, "its path is not UTF-8", "rename it") from None
    return path


def check_bound(directory: str, found: Digest, bound: Digest | None) -> None:
    """``ProviderError(binding-drift)`` when another content was bound than was found; nothing bound fits everything."""
    if bound not in (None, found):
        raise ProviderError(
            Code.BINDING_DRIFT,
            f"the recordings in {excerpt(directory, 300)} are not the ones that were bound: {found} instead of {bound}",
            remedy="put the recordings back, or admit the workflow again",
        )


def _contents(directory: str) -> dict[str, bytes]:
    """Name and bytes of each recording, by name."""
    try:
        names = sorted(p.name for p in Path(directory).iterdir() if p.name.endswith(SUFFIX))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a path cannot hold a NUL byte"
        raise _invalid(directory, f"cannot be read: {reason}", "name a directory of recordings") from None
    if not names:
        raise _invalid(directory, f"holds no recording (*{SUFFIX})", "record into it first: --record DIR")
    if len(names) > FILES_MAX:
        raise _invalid(directory, f"holds more than {FILES_MAX} recordings", "split it")
    contents: dict[str, bytes] = {}
    left = TOTAL_BYTES_MAX
    for name in names:
        contents[name] = _file(directory, name)
        left -= len(contents[name])
        if left < 0:
            raise _invalid(directory, f"holds more than {TOTAL_BYTES_MAX} bytes of recordings", "split it")
    return contents


def _file(directory: str, name: str) -> bytes:
    try:
        name.encode()
        fd = os.open(Path(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except UnicodeEncodeError:
        raise _invalid(directory, f"the file name {name!a} is not UTF-8", "rename it") from None
    except OSError as error:
        raise _invalid(directory, f"{name} cannot be opened: {error.strerror}", "it must be a plain file") from None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _invalid(directory, f"{name} is not a regular file", "it must be a plain file")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise _invalid(directory, f"{name} is larger than {FILE_BYTES_MAX} bytes", "record shorter sessions")
    return data


def _invalid(directory: str, problem: str, remedy: str) -> ProviderError:
    message = f"recordings in {excerpt(directory, 300)}: {excerpt(problem, 500)}"
    return ProviderError(Code.RECORDING_INVALID, message, remedy=remedy)
