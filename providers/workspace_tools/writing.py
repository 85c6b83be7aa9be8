"""The tools that change a file: write, edit. Whole or not at all: a temporary file in the same directory, then a rename.

Crash behaviour: a process that dies in between leaves the old file and perhaps a temporary one (``.runner-write-...``), which
goes when custody puts the worktree back for the attempt that was interrupted.
"""

import os
import secrets
import stat
from typing import Final

from providers.workspace_tools.bounds import FILE_BYTES_MAX
from providers.workspace_tools.paths import Refused, parts_of
from providers.workspace_tools.reading import is_crlf, text_of
from providers.workspace_tools.tree import directory, look, refuse_other, told
from runner.contract.limits import FILE_READ_BYTES_MAX
from runner.contract.scope import Scope
from runner.contract.text import visible

TEMPORARY: Final = ".runner-write-"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write(root: int, scope: Scope, path: str, content: str) -> str:
    """Makes or replaces one file; missing directories are made, an existing file keeps its mode. Returns its path."""
    parts = _writable(scope, path)
    _bounded("content", content)
    _replace(root, parts, content.encode())
    return "/".join(parts)


def edit(root: int, scope: Scope, path: str, old: str, new: str, *, replace_all: bool) -> tuple[str, int]:
    """Replaces ``old``, which must stand there exactly once unless ``replace_all``. Returns the path and the count. In a file
    whose lines end with CR LF, the line feeds of ``old`` and ``new`` stand for that."""
    parts = _writable(scope, path)
    shown = visible("/".join(parts))
    _bounded("new", new)
    text = text_of(root, path)
    if is_crlf(text):
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    if not old or old == new:
        raise Refused(f"{shown}: 'old' must be some text, and 'new' another one")
    count = text.count(old)
    if count == 0:
        raise Refused(f"{shown}: 'old' does not stand there; read the file and copy the text exactly")
    if count > 1 and not replace_all:
        raise Refused(f"{shown}: 'old' stands there {count} times; give more of the text around it, or replace_all")
    if len(text) + count * (len(new) - len(old)) > FILE_BYTES_MAX:
        raise Refused(f"{shown}: would become larger than {FILE_BYTES_MAX} bytes")
    _replace(root, parts, text.replace(old, new).encode())
    return "/".join(parts), count


def _writable(scope: Scope, path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts:
        raise Refused("name a file")
    if not scope.allows("/".join(parts)):
        raise Refused(f"{visible('/'.join(parts))}: this step may not write there; it may write: {scope}")
    return parts


def _bounded(name: str, text: str) -> None:
    if len(text.encode()) > FILE_READ_BYTES_MAX:
        raise Refused(f"{name}: is larger than the {FILE_READ_BYTES_MAX} bytes that one call may write")


def _replace(root: int, parts: tuple[str, ...], data: bytes) -> None:
    path, name = "/".join(parts), parts[-1]
    with directory(root, parts[:-1], create=True) as parent, told(path):
        found = look(parent, name)
        if found is not None:
            refuse_other(found, visible(path))
        temporary = TEMPORARY + secrets.token_hex(8)
        fd = os.open(temporary, _NEW, 0o666, dir_fd=parent)
        try:
            _fill(fd, data, None if found is None else stat.S_IMODE(found.st_mode) & 0o777)
            # A rename replaces a link that was swapped in meanwhile, it does not follow it.
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise


def _fill(fd: int, data: bytes, mode: int | None) -> None:
    with os.fdopen(fd, "wb", closefd=True) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
