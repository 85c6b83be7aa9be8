"""Reading a file that somebody named: bounded, and never waiting for one that is none."""

import os
import stat
from pathlib import Path


def read_regular(path: Path, bytes_max: int) -> bytes:
    """A regular file's bytes; ``OSError`` for anything else (a pipe would hang, a device would not end) or more of them."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a regular file")
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(f"it is larger than {bytes_max} bytes")
    return data
