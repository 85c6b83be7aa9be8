"""Deterministic host operations: one supervised process each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from runner.contract.activation import EffectClass
from runner.contract.ids import CallId, StepRef
from runner.contract.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """One process, everything resolved. Its effect key follows from it and is computed by whoever runs it."""

    step: StepRef
    attempt: int
    argv: tuple[str, ...]
    cwd: str
    """Absolute, inside the worktree."""
    env: Mapping[str, str]
    """Added to the clean base environment."""
    timeout_s: float
    effect: EffectClass
    scope: Scope
    """Contained, it cannot write where this allows nothing at all; everything finer is judged afterwards."""
    output_bytes_max: int
    call: CallId | None = None
    """Of a tool call that somebody else journals: its staged intent becomes durable together with who the process is, and
    its end is for them to record. None: the step's only call, journaled here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a process ended. ``end`` tells exit, signal and timeout apart; output is UTF-8 text, control characters escaped."""

    end: Literal["exit", "signal", "timeout", "not-started"]
    status: int
    """Exit status or signal number; -1 when it did not start."""
    stdout: str
    stderr: str
    truncated: bool
    duration_s: float
    message: str = ""


class Operations(Protocol):
    """Deterministic host operations."""

    async def command(self, request: CommandRequest) -> CommandResult:
        """Runs one supervised process: intent journaled before, result after. Nothing it started outlives the call, a
        cancelled one included."""
        ...
