"""The pause that a provider asked for, as every Delivery and process under one state root keeps it: one small file per
provider, replaced as a whole.

It is a courtesy to the provider and no fact of any Delivery: what cannot be written or read costs at most one more refused
call. A damaged file, and one whose time the clock was set back from, say nothing.
"""

import datetime as dt
import json
import math
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

SHARED_S_MAX: Final = 3_600.0
"""Whatever an endpoint asked for: others are not kept from trying for longer."""
SKEW_S: Final = 60.0
"""How far ahead of this process's clock the one that wrote may have been."""
FILE_BYTES_MAX: Final = 1_024


class SharedBackoff:
    """One provider's file. Synchronous: call it in a thread."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def extend(self, pause_s: float, now: dt.datetime) -> None:
        """Nobody calls the provider for ``pause_s`` from ``now``. A pause that ends later stands. Of two that are written at
        the same moment one may be lost."""
        pause_s = min(pause_s, SHARED_S_MAX)
        if pause_s <= self.left_s(now):
            return
        until = now.astimezone(dt.UTC) + dt.timedelta(seconds=pause_s)
        text = json.dumps({"until": until.isoformat(), "pause_s": pause_s}) + "\n"
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):  # a full or read-only disk must not fail a step that only has to wait
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            temporary.write_text(text)
            temporary.replace(self._path)

    def left_s(self, now: dt.datetime) -> float:
        """What is left of the pause, 0.0 for none; never more than the pause was."""
        try:
            found = json.loads(self._read())
            pause_s, until = float(found["pause_s"]), dt.datetime.fromisoformat(found["until"])
            left = (until - now).total_seconds()
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return 0.0
        if not math.isfinite(pause_s) or left > min(pause_s, SHARED_S_MAX) + SKEW_S:
            return 0.0
        return max(0.0, min(left, pause_s, SHARED_S_MAX))

    def _read(self) -> bytes:
        fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(fd, FILE_BYTES_MAX) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        finally:
            os.close(fd)
