"""Content-addressed values of one Delivery: small ones inside the reference, larger ones as files ``artifacts/ab/<hex>``.

A file appears whole or not at all and is durable before its reference is handed out. What is read is checked against its
digest, so an edited file is never used. Not covered: removal; artifacts go only with their Delivery.
"""

import os
from pathlib import Path

from runner.contract import limits
from runner.contract.canonical import FrozenJson, canonical, digest_bytes, freeze, parse
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import ValueRef
from runner.ledger.files import TEMPORARY_PREFIX, make_private, sync_directory, write_atomically, written_at


class FileArtifacts:
    """``ports.Artifacts`` over one directory. Threads may share it: files are only ever added."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, value: FrozenJson) -> ValueRef:
        """``value`` by reference. A ``ValueError`` for what is not canonical JSON; an ``EnvironmentFault`` when it
        cannot be written. Killed midway, nothing but a temporary file is left; putting it again finishes."""
        data = canonical(value)
        name = digest_bytes(data)
        if len(data) <= limits.INLINE_BYTES_MAX:
            return ValueRef(digest=name, bytes=len(data), inline=freeze(value))
        path = self._path(name)
        make_private(path.parent)
        if self._holds(path, data):
            # An earlier put may have been killed between its rename and its fsync of the directory.
            with written_at(path):
                sync_directory(path.parent)
        else:
            write_atomically(path, data)
        return ValueRef(digest=name, bytes=len(data), stored=True)

    def get(self, ref: ValueRef) -> FrozenJson:
        """The value, verified. ``IntegrityError`` (``artifact-corrupt``) when it is missing, altered or not JSON."""
        if not ref.stored:
            value = freeze(ref.inline)
            if digest_bytes(canonical(value)) != ref.digest:
                raise _corrupt(f"the inline value of {ref.digest} does not have that digest")
            return value
        path = self._path(ref.digest)
        data = self._read(path, ref.bytes)
        if digest_bytes(data) != ref.digest:
            raise _corrupt(f"{path}: the content does not have the digest in its name")
        try:
            return parse(data)
        except ValueError as error:
            raise _corrupt(f"{path}: {error}") from None

    def sweep(self) -> None:
        """Removes what a killed ``put`` left. Only for whoever holds the Delivery's fence."""
        for left in self._directory.glob(f"*/{TEMPORARY_PREFIX}*"):
            left.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        hexdigits = name.removeprefix("sha256:")
        return self._directory / hexdigits[:2] / hexdigits

    def _holds(self, path: Path, data: bytes) -> bool:
        try:
            return self._read(path, len(data)) == data
        except IntegrityError:
            return False

    def _read(self, path: Path, size: int) -> bytes:
        """At most ``size`` + 1 bytes, so that a swapped file cannot exhaust memory; a link is not followed."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                return file.read(size + 1)
        except OSError as error:
            raise _corrupt(f"{path}: {error.strerror}") from None


def _corrupt(message: str) -> IntegrityError:
    return IntegrityError(
        Code.ARTIFACT_CORRUPT,
        message,
        remedy="a stored value was lost or altered: restore the Delivery's directory from a backup",
    )
