"""The command tool: a shell line that a model asks for, run like a step's command, inside the same boundary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from runner.contract import limits
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.config import Isolation
from runner.contract.effects import process_effect
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import CallId, StepRef
from runner.contract.ports import CommandRequest, CommandResult, Operations
from runner.contract.provider import ToolOutcome, ToolSpec

COMMAND: Final = "command"
OUTPUT_BYTES_MAX: Final = 16_384
"""Of each of its two outputs: what a model is shown, half from the beginning and half from the end."""
PARAMETERS: Final = freeze(
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "One line for /bin/sh."},
            "cwd": {
                "type": "string",
                "description": "A directory relative to the worktree's root; the root by default.",
            },
            "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.COMMAND_TIMEOUT_S_DEFAULT},
        },
        "required": ["command"],
        "additionalProperties": False,
    }
)
CONTAINED: Final = "There is no network, and nothing outside the worktree can be written."


class CommandTool:
    """Holds nothing between calls."""

    def __init__(self, *, operations: Operations, isolation: Isolation) -> None:
        self._operations: Final = operations
        self._contained: Final = isolation == "bubblewrap"
        told = "Runs a shell command in the worktree and shows how it ended. What it leaves running is ended."
        self.spec: Final = ToolSpec(
            name=COMMAND,
            description=f"{told} {CONTAINED}" if self._contained else told,
            parameters=PARAMETERS,
            effect=process_effect(None, isolation),
        )

    async def call(self, grant: WorkspaceGrant, call: CallId, arguments: FrozenJson) -> ToolOutcome:
        """How the command ended; an exit status other than 0 is no failure of the tool. ``arguments`` fit the parameters, and
        the intent of ``call`` is staged. Cancelled, it is ended first and has no outcome. What it changed nobody knows, unless
        it could not change anything."""
        given = arguments if isinstance(arguments, Mapping) else {}
        timeout_s = given.get("timeout_s", limits.COMMAND_TIMEOUT_S_DEFAULT)
        request = CommandRequest(
            step=StepRef.parse(grant.step),
            attempt=grant.attempt,
            argv=("/bin/sh", "-c", str(given.get("command"))),
            cwd=str(Path(grant.worktree) / str(given.get("cwd", "."))),
            env={},
            timeout_s=float(timeout_s) if isinstance(timeout_s, int | float) else limits.COMMAND_TIMEOUT_S_DEFAULT,
            effect=self.spec.effect,
            scope=grant.scope,
            output_bytes_max=OUTPUT_BYTES_MAX,
            call=call,
        )
        result = await self._operations.command(request)
        unchanged = result.end == "not-started" or (self._contained and not grant.scope.writable)
        return ToolOutcome(ok=result.end != "not-started", text=told(result), changed=() if unchanged else None)


def told(result: CommandResult) -> str:
    """How it ended, then what it said."""
    match result.end:
        case "not-started":
            return result.message
        case "timeout":
            ended = "it was ended because its time was over"
        case end:
            ended = f"{end} {result.status}" + (f" ({result.message})" if result.message else "")
    streams = (("output", result.stdout), ("errors", result.stderr))
    return "\n".join([ended, *(f"--- {name} ---\n{text}" for name, text in streams if text)])
