"""The door: runs one command step as a supervised process, journaled before and after."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, assert_never

from hosts.operations.boundary import HOME, TEMPORARY, Containment, Enclosure, Unbounded, enclosure
from hosts.operations.environment import clean_environment, environment_problem
from hosts.operations.journal import CommandJournal
from hosts.operations.output import OutputText, redact
from hosts.operations.process import End, Ended, Identity, Lost, NotStarted, ProcessSpec, Sink, supervise
from runner.contract import limits
from runner.contract.ports import Case, Clock, CommandRequest, CommandResult, LedgerWriter

PROGRESS_CHARS_MAX: Final = 200
KILLED: Final = int(signal.SIGKILL)
INSIDE: Final = {"HOME": HOME, "TMPDIR": TEMPORARY}
EXCEEDED: Final = {
    "memory": "all its processes together used more memory than boundary.memory_bytes allows",
    "cpu": "all its processes together used more CPU time than boundary.cpu_s allows",
    "processes": "it ran more processes at once than boundary.processes allows",
}


class _Watch:
    """How long a command runs, and why it is asked to end. The first cause stands."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self.stop: Final = asyncio.Event()
        self.cause = ""
        self._clock: Final = clock
        self._timeout_s: Final = timeout_s
        self._began: float | None = None
        self._timer: asyncio.Task[None] | None = None

    def ask(self, cause: str) -> None:
        self.cause = self.cause or cause
        self.stop.set()

    def start(self) -> None:
        self._began = self._clock.monotonic()
        self._timer = asyncio.create_task(self._expire())

    def end(self) -> float:
        """Seconds since ``start``; 0 if it never started."""
        if self._timer is not None:
            self._timer.cancel()
        return 0.0 if self._began is None else max(0.0, self._clock.monotonic() - self._began)

    async def _expire(self) -> None:
        await self._clock.sleep(self._timeout_s)
        self.ask("timeout")


class CommandRunner:
    """``ports.Operations``. Without a ``containment`` (``isolation = "none"``) the process has the user's rights.

    One call is one process. ``tool.called`` (caller ``workflow``) and ``process.started`` are durable, in one transaction,
    when the process exists and before it executes anything; ``tool.succeeded`` holds how it ended, whatever its exit status,
    signal or timeout; ``tool.failed`` means that it did not start. What is known of an ``external`` effect is durable at
    once; any other result is staged and becomes durable with the savepoint of the files that belong to it, never before. A
    crash leaves no entry (nothing ran), or intent and identity alone: what it did is unknown, and whoever goes on can see
    that it is dead. So does a cancellation that ended it. Raises what the ledger raises (``fence-lost``, ``disk-full``;
    before the start, nothing has run then), ``EnvironmentFault`` (process-not-started), and ``CancelledError`` once
    nothing runs any more. The timeout counts from the moment it is let go.
    """

    def __init__(
        self,
        *,
        case: Case,
        writer: LedgerWriter,
        clock: Clock,
        secrets: Callable[[], tuple[str, ...]],
        containment: Callable[[], Containment] | None = None,
        grace_s: float = limits.TERM_GRACE_S,
    ) -> None:
        """``secrets``: every text that no ledger, artifact or prompt may hold, as known when a command begins.
        ``containment`` is asked for every command; what it raises, ``command`` raises before anything is recorded."""
        self._containment: Final = containment
        self._secrets: Final = secrets
        self._case: Final = case
        self._writer: Final = writer
        self._clock: Final = clock
        self._grace_s: Final = grace_s

    async def command(self, request: CommandRequest) -> CommandResult:
        """See ``ports.Operations``. A second cancellation changes nothing: the end is bounded by the grace."""
        watch = _Watch(self._clock, request.timeout_s)
        work = asyncio.create_task(self._run(request, watch), name=f"command {request.step.key}")
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                # Unlike awaiting the task, this never hands our cancellation down to it.
                await asyncio.wait({work})
            except asyncio.CancelledError as error:
                cancelled = error
                watch.ask("cancelled")
        if cancelled is not None:
            # A ledger that could not be written says so as the cause; the cancellation itself always travels on.
            raise cancelled from (None if work.cancelled() else work.exception())
        return work.result()

    async def _run(self, request: CommandRequest, watch: _Watch) -> CommandResult:
        secrets = self._secrets()
        journal = CommandJournal(self._case, self._writer, request, secrets)
        out, err = (OutputText(request.output_bytes_max, secrets) for _ in range(2))
        try:
            end = await self._end(request, watch, journal, (out, err))
        finally:
            duration_s = watch.end()
        if isinstance(end, NotStarted):
            end = NotStarted(why=redact(end.why, secrets))
        result = result_of(end, timed_out=watch.cause == "timeout", out=out, err=err, duration_s=duration_s)
        if not (watch.cause == "cancelled" and was_cut_short(end)):
            await asyncio.to_thread(journal.concluded, result)
        return result

    async def _end(
        self, request: CommandRequest, watch: _Watch, journal: CommandJournal, outputs: tuple[OutputText, OutputText]
    ) -> End:
        if problem := self._problem(request):
            return NotStarted(why=problem)
        try:
            around = await asyncio.to_thread(self._enclosure, request)
        except Unbounded as error:
            return NotStarted(why=str(error))
        return await self._supervise(request, watch, journal, outputs, around)

    def _enclosure(self, request: CommandRequest) -> Enclosure | None:
        if self._containment is None:
            return None
        worktree = self._case.activation.workspace.worktree
        return enclosure(self._containment(), worktree, writable=request.scope.writable)

    def _problem(self, request: CommandRequest) -> str | None:
        """What forbids the start. The directory is looked at now: the step before may have replaced it by a link."""
        if any("\x00" in part for part in request.argv):
            return "an argument holds a NUL byte"
        worktree = Path(self._case.activation.workspace.worktree).resolve()
        if not Path(request.cwd).resolve().is_relative_to(worktree):
            return "the working directory leads out of the worktree"
        return environment_problem(request.env)

    async def _supervise(
        self,
        request: CommandRequest,
        watch: _Watch,
        journal: CommandJournal,
        outputs: tuple[OutputText, OutputText],
        around: Enclosure | None,
    ) -> End:
        async def record(identity: Identity) -> None:
            await asyncio.to_thread(journal.started, identity)
            watch.start()

        env = clean_environment(os.environ, request.env, instead=None if around is None else INSIDE)
        spec = ProcessSpec(argv=request.argv, cwd=request.cwd, env=env, grace_s=self._grace_s, enclosure=around)
        out, err = (self._sink(request, output) for output in outputs)
        return await supervise(spec, out, err, watch.stop, record)

    def _sink(self, request: CommandRequest, output: OutputText) -> Sink:
        """Keeps one stream and shows the last line of what is new."""

        def take(chunk: bytes, final: bool) -> None:
            lines = output.feed(chunk, final=final).strip().splitlines()
            if lines:
                self._case.progress.progress(request.step, lines[-1][-PROGRESS_CHARS_MAX:])

        return take


# --- pure ------------------------------------------------------------------------------------------------------------


def was_cut_short(end: End) -> bool:
    """Whether it ran and would have gone on."""
    return isinstance(end, Lost) or (isinstance(end, Ended) and end.asked)


def result_of(end: End, *, timed_out: bool, out: OutputText, err: OutputText, duration_s: float) -> CommandResult:
    """The supervisor's word as the step's result. A timeout is one only if the process still ran when it struck."""
    kind: Literal["exit", "signal", "timeout", "not-started"]
    match end:
        case NotStarted(why=why):
            kind, status, message = "not-started", -1, why
        case Lost():
            kind, status, message = (
                "signal",
                KILLED,
                "its supervisor was killed, then everything that it supervised was ended",
            )
        case Ended(status=status, by_signal=by_signal, asked=asked, left=left, excess=excess):
            kind = "timeout" if asked and timed_out else "signal" if by_signal else "exit"
            message = (
                f"not even SIGKILL ended process {', '.join(map(str, left))}" if left else EXCEEDED.get(excess, "")
            )
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
