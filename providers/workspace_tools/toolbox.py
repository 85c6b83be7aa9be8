"""The toolbox: what the tools are called, what they take, and under which grant they act."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from providers.workspace_tools import reading, writing
from providers.workspace_tools.paths import Refused
from providers.workspace_tools.tree import open_root
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import CallerError, Code, IntegrityError
from runner.contract.grant import GrantKey, WorkspaceGrant, verify
from runner.contract.ids import Digest
from runner.contract.ports import Clock
from runner.contract.provider import ToolOutcome, ToolSpec
from runner.contract.text import visible

_PATH: Final = {"type": "string", "description": "Relative to the worktree's root, with '/'."}
_GLOB: Final = {
    "type": "string",
    "description": "Whole paths relative to the searched place's root; '*' and '?' inside a name, '**' for directories.",
}


def _spec(name: str, effect: Any, description: str, required: list[str], **properties: dict[str, Any]) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name=name, description=description, parameters=freeze(parameters), effect=effect)


TOOLS: Final[tuple[ToolSpec, ...]] = (
    _spec(
        "read",
        "read",
        "Shows a text file, by lines.",
        ["path"],
        path=_PATH,
        offset={"type": "integer", "minimum": 1, "description": "The first line to show; 1 by default."},
        limit={"type": "integer", "minimum": 1, "description": "How many lines; as many as fit by default."},
    ),
    _spec(
        "list",
        "read",
        "Lists a directory, or with a glob everything below it that fits.",
        [],
        path={**_PATH, "description": "A directory relative to the worktree's root; the root by default."},
        glob={**_GLOB, "description": "Paths relative to 'path'; '*' and '?' inside a name, '**' for directories."},
    ),
    _spec(
        "search",
        "read",
        "Finds lines that contain a text exactly as given (no regular expression).",
        ["text"],
        text={"type": "string", "minLength": 1, "description": "The text to find, within one line."},
        path={**_PATH, "description": "A file or directory relative to the worktree's root; the root by default."},
        glob={**_GLOB, "description": "Only files whose path from the root fits, such as 'src/**/*.py' or '**/*.md'."},
        ignore_case={"type": "boolean"},
    ),
    _spec(
        "write",
        "workspace",
        "Makes a file, or replaces the whole content of one.",
        ["path", "content"],
        path=_PATH,
        content={"type": "string"},
    ),
    _spec(
        "edit",
        "workspace",
        "Replaces a text in a file. The old text must stand there exactly once, unless replace_all is true.",
        ["path", "old", "new"],
        path=_PATH,
        old={"type": "string", "minLength": 1},
        new={"type": "string"},
        replace_all={"type": "boolean"},
    ),
)
_BY_NAME: Final = {spec.name: spec for spec in TOOLS}


class WorkspaceToolbox:
    """``provider.Toolbox`` over the worktree that each grant names. Holds nothing between calls."""

    def __init__(self, *, key: GrantKey, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def specs(self, names: tuple[str, ...], writable: bool) -> tuple[ToolSpec, ...]:
        """See ``provider.Toolbox``; ``CallerError(activation-invalid)`` for a tool that does not exist."""
        unknown = sorted(set(names) - set(_BY_NAME))
        if unknown:
            message = f"there is no tool {', '.join(unknown)}"
            raise CallerError(Code.ACTIVATION_INVALID, message, remedy=f"choose from: {', '.join(_BY_NAME)}")
        return tuple(s for s in TOOLS if s.name in names and (writable or s.effect == "read"))

    async def call(self, grant: WorkspaceGrant, spec: ToolSpec, arguments: FrozenJson, *, key: Digest) -> ToolOutcome:
        """See ``provider.Toolbox``; nothing here has effects that would need ``key``. Runs in a thread; a cancelled call ends
        its walk early and is waited for."""
        stop = threading.Event()
        task = asyncio.ensure_future(asyncio.to_thread(self._call, grant, spec, arguments, stop.is_set))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.set()
            while not task.done():
                # A further cancellation changes nothing: the thread is bounded, and the first one is raised below.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # marked as seen: a cancelled caller reports the cancellation
            raise

    def _call(
        self, grant: WorkspaceGrant, spec: ToolSpec, arguments: FrozenJson, stopped: Callable[[], bool]
    ) -> ToolOutcome:
        root = self._root(grant)
        try:
            if spec.effect == "workspace" and not grant.scope.writable:
                raise Refused("this step may not write")
            return _run(root, grant, spec.name, arguments if isinstance(arguments, Mapping) else {}, stopped)
        except Refused as refusal:
            return ToolOutcome(ok=False, text=str(refusal))
        finally:
            os.close(root)

    def _root(self, grant: WorkspaceGrant) -> int:
        """A handle of the very directory that the grant was signed for."""
        try:
            root = open_root(grant.worktree)
        except OSError as error:
            message = f"workspace grant for {grant.step} refused: the worktree cannot be opened ({error.strerror})"
            raise IntegrityError(Code.GRANT_INVALID, message, remedy="put the worktree back where it was") from None
        found = os.fstat(root)
        try:
            verify(
                self._key,
                grant,
                delivery=grant.delivery,
                step=grant.step,
                device=found.st_dev,
                inode=found.st_ino,
                now=self._clock.monotonic(),
            )
        except BaseException:
            os.close(root)
            raise
        return root


def _run(
    root: int, grant: WorkspaceGrant, name: str, given: Mapping[str, FrozenJson], stopped: Callable[[], bool]
) -> ToolOutcome:
    match name:
        case "read":
            limit = _integer(given, "limit")
            return _shown(reading.read(root, _text(given, "path"), _integer(given, "offset") or 1, limit))
        case "list":
            return _shown(reading.list_entries(root, _text(given, "path", "."), _optional(given, "glob"), stopped))
        case "search":
            found = reading.search(
                root,
                _text(given, "text"),
                _text(given, "path", "."),
                glob=_optional(given, "glob"),
                ignore_case=given.get("ignore_case") is True,
                stopped=stopped,
            )
            return _shown(found)
        case "write":
            path = writing.write(root, grant.scope, _text(given, "path"), _text(given, "content"))
            return ToolOutcome(ok=True, text=f"wrote {visible(path)}", changed=(path,))
        case "edit":
            old, new, every = _text(given, "old"), _text(given, "new"), given.get("replace_all") is True
            path, count = writing.edit(root, grant.scope, _text(given, "path"), old, new, replace_all=every)
            told = f"edited {visible(path)}: {count} {'place' if count == 1 else 'places'}"
            return ToolOutcome(ok=True, text=told, changed=(path,))
        case _:
            raise Refused(f"there is no tool {visible(name[:80])}")


def _shown(text: str) -> ToolOutcome:
    return ToolOutcome(ok=True, text=text)


def _text(given: Mapping[str, FrozenJson], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise Refused(f"{name}: give a text")
    return value


def _optional(given: Mapping[str, FrozenJson], name: str) -> str | None:
    return _text(given, name) if given.get(name) is not None else None


def _integer(given: Mapping[str, FrozenJson], name: str) -> int | None:
    """A positive whole number; JSON Schema also takes 2.0 for one."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        raise Refused(f"{name}: give a whole number from 1")
    return int(value)
