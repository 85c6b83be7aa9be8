"""The door: runs one command step as a supervised process, journaled before and after."""

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, assert_never

from hosts.operations.environment import clean_environment, environment_problem
from hosts.operations.output import OutputText, redact
from hosts.operations.process import End, Ended, Lost, NotStarted, ProcessSpec, Sink, supervise
from runner.contract import limits
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.effects import effect_key, tool_call_id
from runner.contract.events import ArtifactStored, Event, ToolCalled, ToolFailed, ToolSucceeded, ValueRef
from runner.contract.ids import CallId
from runner.contract.ports import Case, Clock, CommandRequest, CommandResult, LedgerWriter
from runner.contract.records import Draft

TOOL: Final = "command"
PROGRESS_CHARS_MAX: Final = 200
KILLED: Final = int(signal.SIGKILL)


@dataclass(slots=True)
class _Stop:
    """Why the process is asked to end. The first cause stands."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    cause: str = ""

    def ask(self, cause: str) -> None:
        self.cause = self.cause or cause
        self.event.set()


class CommandRunner:
    """``ports.Operations`` with ``isolation = "none"``: the process has the user's rights.

    One call is one process. ``tool.called`` (caller ``workflow``) is durable before it exists; ``tool.succeeded`` holds how
    it ended, whatever its exit status, signal or timeout; ``tool.failed`` stands for one that did not start or that our
    own cancellation ended. A crash between the two leaves the intent alone: the process is dead, what it did is unknown.
    Raises what the ledger raises (``fence-lost``, ``disk-full``), and ``CancelledError`` once nothing runs any more.
    """

    def __init__(self, *, case: Case, writer: LedgerWriter, clock: Clock, grace_s: float = limits.TERM_GRACE_S) -> None:
        self._case: Final = case
        self._writer: Final = writer
        self._clock: Final = clock
        self._grace_s: Final = grace_s

    async def command(self, request: CommandRequest) -> CommandResult:
        """See ``ports.Operations``. A second cancellation changes nothing: the end is bounded by the grace."""
        stop = _Stop()
        work = asyncio.create_task(self._run(request, stop), name=f"command {request.step.key}")
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                # Unlike awaiting the task, this never hands our cancellation down to it.
                await asyncio.wait({work})
            except asyncio.CancelledError as error:
                cancelled = error
                stop.ask("cancelled")
        if cancelled is not None:
            # A ledger that could not be written says so as the cause; the cancellation itself always travels on.
            raise cancelled from (None if work.cancelled() else work.exception())
        return work.result()

    async def _run(self, request: CommandRequest, stop: _Stop) -> CommandResult:
        call = tool_call_id(request.step, request.attempt, 1)
        await self._intend(request, call)
        began = self._clock.monotonic()
        out, err = (OutputText(request.output_bytes_max, request.secrets) for _ in range(2))
        problem = self._problem(request)
        end: End = NotStarted(why=problem) if problem else await self._supervise(request, stop, out, err)
        if isinstance(end, NotStarted):
            end = NotStarted(why=redact(end.why, request.secrets))
        duration_s = max(0.0, self._clock.monotonic() - began)
        result = result_of(end, timed_out=stop.cause == "timeout", out=out, err=err, duration_s=duration_s)
        await self._conclude(request, call, result, cancelled=stop.cause == "cancelled" and _was_asked(end))
        return result

    def _problem(self, request: CommandRequest) -> str | None:
        """What forbids the start. The directory is looked at now: the step before may have replaced it by a link."""
        worktree = Path(self._case.activation.workspace.worktree).resolve()
        if not Path(request.cwd).resolve().is_relative_to(worktree):
            return "the working directory leads out of the worktree"
        return environment_problem(request.env)

    async def _supervise(self, request: CommandRequest, stop: _Stop, out: OutputText, err: OutputText) -> End:
        env = clean_environment(os.environ, request.env)
        spec = ProcessSpec(argv=request.argv, cwd=request.cwd, env=env, grace_s=self._grace_s)
        timer = asyncio.create_task(self._expire(request.timeout_s, stop))
        try:
            return await supervise(spec, self._sink(request, out), self._sink(request, err), stop.event)
        finally:
            timer.cancel()

    async def _expire(self, seconds: float, stop: _Stop) -> None:
        await self._clock.sleep(seconds)
        stop.ask("timeout")

    def _sink(self, request: CommandRequest, output: OutputText) -> Sink:
        """Keeps one stream and shows the last line of what is new."""

        def take(chunk: bytes, final: bool) -> None:
            lines = output.feed(chunk, final=final).strip().splitlines()
            if lines:
                self._case.progress.progress(request.step, lines[-1][-PROGRESS_CHARS_MAX:])

        return take

    # --- journal -----------------------------------------------------------------------------------------------------

    async def _intend(self, request: CommandRequest, call: CallId) -> None:
        value = intent_of(request, self._case.activation.workspace.worktree)
        key = effect_key(self._case.plan.delivery, request.step, TOOL, value, 0)

        def write() -> None:
            ref = self._case.ledger.artifacts.put(value)
            event = ToolCalled(call=call, tool=TOOL, caller="workflow", effect=request.effect, key=key, input=ref)
            self._append(request, *_stored(ref), event)

        await asyncio.to_thread(write)

    async def _conclude(self, request: CommandRequest, call: CallId, result: CommandResult, *, cancelled: bool) -> None:
        def write() -> None:
            if cancelled:
                self._append(request, ToolFailed(call=call, message="cancelled: the process was ended"))
            elif result.end == "not-started":
                self._append(request, ToolFailed(call=call, message=result.message))
            else:
                ref = self._case.ledger.artifacts.put(value_of(result))
                self._append(request, *_stored(ref), ToolSucceeded(call=call, value=ref))

        await asyncio.to_thread(write)

    def _append(self, request: CommandRequest, *events: Event) -> None:
        self._writer.append(*(Draft(event=e, step=request.step, attempt=request.attempt) for e in events))


def _stored(ref: ValueRef) -> tuple[ArtifactStored, ...]:
    return (ArtifactStored(digest=ref.digest, bytes=ref.bytes),) if ref.stored else ()


def _was_asked(end: End) -> bool:
    return not isinstance(end, Ended) or end.asked


# --- pure ------------------------------------------------------------------------------------------------------------


def intent_of(request: CommandRequest, worktree: str) -> FrozenJson:
    """What the ledger keeps of a request: argv (redacted), cwd inside the worktree, names but no values of ``env``."""
    cwd = os.path.relpath(request.cwd, worktree)
    argv = [redact(part, request.secrets) for part in request.argv]
    return freeze({"argv": argv, "cwd": cwd, "env": sorted(request.env)})


def value_of(result: CommandResult) -> FrozenJson:
    """What the ledger keeps of a result. Without the duration, so that equal runs give equal digests."""
    return freeze({name: getattr(result, name) for name in CommandResult.__slots__ if name != "duration_s"})


def result_of(end: End, *, timed_out: bool, out: OutputText, err: OutputText, duration_s: float) -> CommandResult:
    """The supervisor's word as the step's result. A timeout is one only if the process still ran when it struck."""
    kind: Literal["exit", "signal", "timeout", "not-started"]
    match end:
        case NotStarted(why=why):
            kind, status, message = "not-started", -1, why
        case Lost():
            kind, status, message = "signal", KILLED, "its supervisor was killed; its process group was ended"
        case Ended(status=status, by_signal=by_signal, asked=asked, left=left):
            kind = "timeout" if asked and timed_out else "signal" if by_signal else "exit"
            message = f"not even SIGKILL ended process {', '.join(map(str, left))}" if left else ""
        case _:
            assert_never(end)
    return CommandResult(
        end=kind,
        status=status,
        stdout=out.text(),
        stderr=err.text(),
        truncated=out.truncated or err.truncated,
        duration_s=duration_s,
        message=message,
    )
