"""Files of ours that must survive a power cut: written whole under a temporary name, synced, renamed, directory synced."""

import errno
import os
from pathlib import Path
from typing import Final

from runner.contract.errors import Code, EnvironmentFault

TEMP_SUFFIX: Final = ".new"


def write_synced(path: Path, data: bytes) -> None:
    """``data`` at ``path``, atomically and durably: temp, fsync, rename, fsync directory. ``DISK_FULL`` or
    ``STATE_UNWRITABLE`` when it cannot be; then ``path`` is what it was."""
    temp = path.with_name(path.name + TEMP_SUFFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temp.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        temp.unlink(missing_ok=True)
        raise EnvironmentFault(
            Code.DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else Code.STATE_UNWRITABLE,
            f"{path} cannot be written: {error.strerror}",
            remedy="free space or mend its permissions, then run the same command again",
        ) from None


def remove_synced(path: Path) -> None:
    """``path`` is gone, durably."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_names(git_dir: Path, ref: str) -> None:
    """The names of ``ref`` and of every object are on the disk: git fsyncs the files that it writes, but no directory.
    ``STATE_UNWRITABLE`` when the disk refuses."""
    place, objects = (git_dir / ref).parent, git_dir / "objects"
    above = (directory for directory in (place, *place.parents) if directory.is_relative_to(git_dir))
    try:
        for directory in (*above, objects, *objects.iterdir()):
            if directory.is_dir():
                sync_directory(directory)
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"{git_dir} cannot be synced: {error.strerror}",
            remedy="look after its disk, then run the same command again",
        ) from None


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
