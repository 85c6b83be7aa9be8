"""An activation as a file: reading it, writing it, and what the printed commands need to know of it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.program import program
from runner.cli.where import Where
from runner.contract import limits
from runner.contract.canonical import FrozenJson, parse
from runner.contract.errors import CallerError, Code, EnvironmentFault
from runner.contract.ids import DELIVERY_ID_PATTERN, DeliveryId, delivery_id

if TYPE_CHECKING:
    from runner.records import Records


def read_activation(file: Path) -> bytes:
    """The bytes, bounded; whether they are an activation is for the Runner to say."""
    from runner.admission.regular_file import read_regular

    try:
        return read_regular(file, limits.ACTIVATION_BYTES_MAX)
    except OSError as error:
        raise CallerError(
            Code.ACTIVATION_INVALID,
            f"{file} cannot be read: {error.strerror or error}",
            remedy="name the file that 'runner admit' wrote",
        ) from None


def find_activation(word: str, records: "Records") -> tuple[bytes, Path | None]:
    """What ``execute`` was given, and its file where there is one: the id of a Delivery that is known here, else a file."""
    if re.fullmatch(DELIVERY_ID_PATTERN, word):
        delivery, kept = DeliveryId(word), kept_file(records.state_root, word)
        file = kept if kept.exists() else None
        accepted = records.activation(delivery)
        if accepted is not None:
            return accepted, file
        if file is not None:
            return read_activation(file), file
        if not Path(word).exists():
            raise CallerError(
                Code.DELIVERY_UNKNOWN,
                f"{word} is no Delivery under {records.state_root}, and no file",
                remedy="name the file that 'runner admit' wrote, or a Delivery that 'runner inspect' lists",
            )
    return read_activation(Path(word)), Path(word)


def where_of(document: bytes, file: Path | None, named_config: Path | None) -> Where:
    """What the printed commands need. Trusts nothing: only the Delivery id must be one."""
    try:
        value = parse(document)
    except ValueError as error:
        raise CallerError(
            Code.ACTIVATION_INVALID,
            f"{file or 'this'} is not an activation: {error}",
            remedy="name the file that 'runner admit' wrote",
        ) from None
    worktree = _text(value, "workspace", "worktree")
    return Where(
        delivery=delivery_id(_text(value, "delivery")),
        worktree=worktree,
        base_commit=_text(value, "workspace", "base_commit"),
        activation_file=file,
        config=named_config,
        repository=repository_of(Path(worktree)),
        remote=_text(value, "target", "remote") or None,
        worktree_kept=Path(worktree).is_dir(),
        program=program(),
        here=Path.cwd(),
    )


def where_in(records: "Records", delivery: DeliveryId, named_config: Path | None) -> Where:
    """The same for a Delivery of which records are kept. A file that ``admit`` wrote elsewhere is not known here."""
    kept = kept_file(records.state_root, delivery)
    file = kept if kept.exists() else None
    document = records.activation(delivery)
    if document is not None:
        return where_of(document, file, named_config)
    return Where(
        delivery=delivery,
        worktree="",
        base_commit="",
        activation_file=file or Path("ACTIVATION"),
        config=named_config,
        program=program(),
        here=Path.cwd(),
    )


def repository_of(worktree: Path) -> str | None:
    """The checkout that a linked worktree belongs to, or the worktree itself when it is no linked one; None when it is gone
    or does not say. For people only: what stands in the worktree is not trusted."""
    link = worktree / ".git"
    if link.is_dir():
        return str(worktree)
    try:
        text = link.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    git_dir = Path(text.removeprefix("gitdir:").strip())
    return str(git_dir.parents[2]) if git_dir.is_absolute() and git_dir.parent.name == "worktrees" else None


def _text(value: FrozenJson, *path: str) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def kept_file(state_root: Path, delivery: str) -> Path:
    """Where ``run`` keeps the activation of a Delivery."""
    return state_root / "activations" / f"{delivery}.json"


def write_activation(file: Path, document: bytes) -> None:
    """A new file that only its owner may read; an existing one is never overwritten."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(document)
    except FileExistsError:
        raise CallerError(
            Code.USAGE, f"{file} exists already", remedy="nothing was written; name another file"
        ) from None
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE, f"{file} cannot be written: {error.strerror}", remedy="check rights and space"
        ) from None
