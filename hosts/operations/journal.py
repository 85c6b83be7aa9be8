"""One command's entries in the ledger: intent and identity together, then how it ended."""

import os
from pathlib import Path
from typing import Final

from hosts.operations.output import redact
from hosts.operations.process import Identity
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.effects import effect_key, tool_call_id
from runner.contract.events import (
    ArtifactStored,
    Event,
    ProcessStarted,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
    ValueRef,
)
from runner.contract.ports import Case, CommandRequest, CommandResult, LedgerWriter
from runner.contract.records import Draft

TOOL: Final = "command"


class CommandJournal:
    """``started`` at most once, then ``concluded`` at most once. Synchronous: each is one durable transaction; but a result
    that may be had again is only staged.

    A call that somebody else journals has only the identity from here.

    A command that was never started has its intent and its failure in one transaction: no crash can leave an intent behind
    that nothing stands for.
    """

    def __init__(self, case: Case, writer: LedgerWriter, request: CommandRequest, secrets: tuple[str, ...]) -> None:
        self._secrets: Final = secrets
        self._case: Final = case
        self._writer: Final = writer
        self._request: Final = request
        self._call: Final = request.call or tool_call_id(request.step, request.attempt, 1)
        self._intended = request.call is not None

    def started(self, identity: Identity) -> None:
        """The process exists and waits. When this raises, nothing was recorded and it must not be let go."""
        process = ProcessStarted(
            call=self._call,
            pid=identity.pid,
            start_time=start_text(identity.start_time),
            group=identity.group,
            guard=identity.guard,
            guard_start_time=start_text(identity.guard_start_time),
        )
        self._writer.append(*self._drafts(*(() if self._intended else self._intent()), process))
        self._intended = True

    def concluded(self, result: CommandResult) -> None:
        """How it ended, or that it did not start.

        The files that a command wrote are kept by the savepoint at the end of its step. A result that was durable before
        them would have to be used with whatever is in the worktree then; so the two are recorded together, and a crash in
        between goes back and runs it again. What happened outside cannot be run again: that is recorded at once.
        """
        if self._request.call is not None:
            return
        end: tuple[Event, ...]
        if result.end == "not-started":
            end = (ToolFailed(call=self._call, message=result.message),)
        else:
            ref = self._case.ledger.artifacts.put(value_of(result))
            end = (*_stored(ref), ToolSucceeded(call=self._call, value=ref))
        record = self._writer.append if self._request.effect == "external" else self._writer.stage
        record(*self._drafts(*(() if self._intended else self._intent()), *end))

    def _intent(self) -> tuple[Event, ...]:
        request = self._request
        value = intent_of(request, self._case.activation.workspace.worktree, self._secrets)
        ref = self._case.ledger.artifacts.put(value)
        key = effect_key(self._case.plan.delivery, request.step, TOOL, value, 0)
        called = ToolCalled(call=self._call, tool=TOOL, caller="workflow", effect=request.effect, key=key, input=ref)
        return (*_stored(ref), called)

    def _drafts(self, *events: Event) -> tuple[Draft, ...]:
        return tuple(Draft(event=e, step=self._request.step, attempt=self._request.attempt) for e in events)


def _stored(ref: ValueRef) -> tuple[ArtifactStored, ...]:
    return (ArtifactStored(digest=ref.digest, bytes=ref.bytes),) if ref.stored else ()


def start_text(ticks: int) -> str:
    """``BOOT:TICKS``; empty where the system does not say, which matches no process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
    return f"{boot}:{ticks}" if ticks else ""


# --- pure ------------------------------------------------------------------------------------------------------------


def intent_of(request: CommandRequest, worktree: str, secrets: tuple[str, ...]) -> FrozenJson:
    """What the ledger keeps of a request: argv (redacted), cwd inside the worktree, names but no values of ``env``."""
    cwd = os.path.relpath(request.cwd, worktree)
    argv = [redact(part, secrets) for part in request.argv]
    return freeze({"argv": argv, "cwd": cwd, "env": sorted(request.env)})


def value_of(result: CommandResult) -> FrozenJson:
    """What the ledger keeps of a result. Without the duration, so that equal runs give equal digests."""
    return freeze({name: getattr(result, name) for name in CommandResult.__slots__ if name != "duration_s"})
