"""Runs what a model asks for: only admitted tools, only with arguments that fit, every call journaled on both sides.

A call whose result is recorded is not made again: the recorded result is the answer. One that was begun and has none is made
again under the same id and key where its effect class allows that, over the files of the last mid-step savepoint; otherwise
what a person said decides, and without that it is ``Uncertain``.

Crash behaviour: the savepoint of what a call changed becomes durable in one transaction with its result. Killed between the
effect and that, the files go back and the call is made again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from runner.contract import limits
from runner.contract.activation import DeclaredTool
from runner.contract.canonical import FrozenJson, canonical, freeze
from runner.contract.errors import CallerError, Code, EnvironmentFault, ProviderError, RunnerError
from runner.contract.events import InterventionResolved, ToolFailed, ToolSucceeded
from runner.contract.grant import WorkspaceGrant
from runner.contract.ports import AwaitingInput, Clock, DeclaredTools, Failed, Savepoint, ToolUnknown, Uncertain
from runner.contract.provider import Toolbox, ToolOutcome, ToolRequest, ToolResult, ToolResults, ToolSpec
from runner.contract.redaction import Redactor
from runner.contract.text import excerpt, screened, visible
from runner.invocation.asking import ASK, Questions
from runner.invocation.command_tool import COMMAND, CommandTool
from runner.invocation.completion import JsonContract
from runner.invocation.history import PastTool
from runner.invocation.journal import Journal, PlannedTool
from runner.invocation.rest import in_thread, to_rest
from runner.invocation.verdicts import failure_by

MESSAGE_CHARS_MAX: Final = 4_000
"""Of a tool's failure."""
NAME_CHARS_MAX: Final = 80
"""Of a tool that does not exist."""

Stop = Failed | Uncertain | AwaitingInput
"""Why a turn's tools have no results."""


class ToolCalls:
    """The tools of one episode: the worktree's under one grant, and the ``declared`` ones of tool servers. ``past`` are the calls of its earlier life, by id; ``mark`` takes a
    savepoint of what a call changed."""

    def __init__(
        self,
        *,
        toolbox: Toolbox,
        command: CommandTool,
        servers: DeclaredTools,
        declared: Mapping[str, DeclaredTool],
        grant: WorkspaceGrant,
        specs: tuple[ToolSpec, ...],
        past: Mapping[str, PastTool],
        mark: Callable[[tuple[str, ...] | None], Savepoint] | None,
        questions: Questions,
        journal: Journal,
        redactor: Redactor,
        clock: Clock,
        progress: Callable[[str], None],
    ) -> None:
        self._toolbox = toolbox
        self._command = command
        self._servers = servers
        self._declared = declared
        self._grant = grant
        self._specs = {spec.name: spec for spec in specs}
        self._contracts = {spec.name: JsonContract(spec.parameters) for spec in specs}
        self._past = past
        self._mark = mark
        self._questions = questions
        self._journal = journal
        self._redactor = redactor
        self._clock = clock
        self._progress = progress

    async def run(self, requests: tuple[ToolRequest, ...]) -> ToolResults | Stop:
        """What the model is told about its requests. They run in the order asked, one at a time, because a later one may
        rely on an earlier one's effect; questions to a person come last, so that nothing waits behind one."""
        results: dict[int, ToolResult] = {}
        for place in sorted(range(len(requests)), key=lambda n: requests[n].name == ASK):
            result = await self._run(requests[place])
            if not isinstance(result, ToolResult):
                return result
            results[place] = result
        return ToolResults(results=tuple(results[place] for place in range(len(requests))))

    async def _run(self, request: ToolRequest) -> ToolResult | Stop:
        """A tool that does not exist, arguments that do not fit and a tool's own failure are results. When cancelled, a
        tool at work gets ``TERM_GRACE_S`` to end and be journaled; a question ends at once; a command is told to end, and what
        it did is as unknown as after a crash."""
        spec = self._specs.get(request.name) or _no_such(request.name)
        refusal = self._refusal(spec, request.arguments)
        planned = self._journal.plan(spec.name, request.arguments)
        past = self._past.get(planned.call)
        if past is not None and (past.called.tool, past.called.key) != (planned.tool, planned.key):
            return _drifted(planned, past)
        if past is not None and past.result is not None:
            return await self._recorded(request, past.result)
        if past is not None and past.happened is not None:
            return await self._told_by_a_person(request, planned, past.happened)
        if past is not None and past.is_uncertain:
            return Uncertain(call=planned.call, why=f"{planned.tool} was begun and its end was not recorded")
        self._progress(f"\n{visible(request.name[:NAME_CHARS_MAX])}\n")
        if spec.name == ASK and refusal is None:
            return await self._questions.run(request, planned, past)
        if spec.name == COMMAND and refusal is None:
            return await self._run_command(request, planned, spec)
        return await to_rest(self._make(request, planned, spec, refusal), self._clock, limits.TERM_GRACE_S)

    # --- results that are known --------------------------------------------------------------------------------------

    async def _recorded(self, request: ToolRequest, result: ToolSucceeded | ToolFailed) -> ToolResult:
        if isinstance(result, ToolFailed):
            return ToolResult(id=request.id, ok=False, text=result.message)
        return ToolResult(id=request.id, ok=True, text=as_text(await self._journal.value(result.value)))

    async def _told_by_a_person(
        self, request: ToolRequest, planned: PlannedTool, said: InterventionResolved
    ) -> ToolResult:
        value = await self._journal.value(said.value)
        text = "" if value is None else self._screened(as_text(value))
        await self._journal.tool_ended(planned.call, ok=True, text=text)
        return ToolResult(id=request.id, ok=True, text=text)

    # --- calls that are made -----------------------------------------------------------------------------------------

    async def _make(
        self, request: ToolRequest, planned: PlannedTool, spec: ToolSpec, refusal: ToolOutcome | None
    ) -> ToolResult | Stop:
        tool = self._declared.get(spec.name) if refusal is None else None
        if tool is not None:
            try:
                await self._servers.ready(tool)
            except (CallerError, ProviderError) as error:
                told = visible(self._redactor.text(failure_by(error).message))
                return Failed(code=error.code.value, message=told, retriable=False)
        # What is refused has no effect, whatever the tool would have had.
        await self._journal.tool_called(planned, spec.effect if refusal is None else "read")
        outcome = refusal or await self._act(spec, planned, tool)
        if isinstance(outcome, ToolUnknown):
            why = excerpt(self._redactor.text(outcome.why), MESSAGE_CHARS_MAX)
            return Uncertain(call=planned.call, why=f"{planned.tool} was begun and nobody saw its end: {why}")
        return await self._ended(request, planned, outcome)

    async def _run_command(self, request: ToolRequest, planned: PlannedTool, spec: ToolSpec) -> ToolResult:
        """The intent becomes durable together with who the process is, before it executes anything."""
        await self._journal.tool_staged(planned, spec.effect)
        outcome = await self._command.call(self._grant, planned.call, planned.arguments)
        return await self._ended(request, planned, outcome)

    async def _ended(self, request: ToolRequest, planned: PlannedTool, outcome: ToolOutcome) -> ToolResult:
        mark, changed = self._mark, outcome.changed
        if mark is not None and changed != ():
            await in_thread(lambda: mark(changed))
        text = self._screened(outcome.text)
        if not outcome.ok:
            text = excerpt(text, MESSAGE_CHARS_MAX)
        await self._journal.tool_ended(planned.call, ok=outcome.ok, text=text)
        return ToolResult(id=request.id, ok=outcome.ok, text=text)

    async def _act(self, spec: ToolSpec, planned: PlannedTool, tool: DeclaredTool | None) -> ToolOutcome | ToolUnknown:
        try:
            if tool is not None:
                return await self._ask_server(tool, planned)
            outcome = await self._toolbox.call(self._grant, spec, planned.arguments, key=planned.key)
            return _storable(spec, outcome)
        except RunnerError:
            raise
        except Exception as error:  # a tool that broke has ended: repeating it is the model's decision, not a restart's
            return ToolOutcome(ok=False, text=f"{spec.name} broke with {type(error).__qualname__}")

    async def _ask_server(self, tool: DeclaredTool, planned: PlannedTool) -> ToolOutcome | ToolUnknown:
        try:
            return await self._servers.call(
                tool, planned.arguments, key=planned.key, timeout_s=limits.TOOL_CALL_TIMEOUT_S
            )
        except (ProviderError, EnvironmentFault) as error:
            # It changed or went away since it was looked at; nothing was called.
            return ToolOutcome(ok=False, text=error.message)

    def _screened(self, text: str) -> str:
        return screened(text, self._redactor.text, limits.TOOL_RESULT_BYTES_MAX)

    def _refusal(self, spec: ToolSpec, arguments: FrozenJson) -> ToolOutcome | None:
        """Why the call is not made."""
        if spec.name not in self._specs:
            offer = f"the tools are: {', '.join(self._specs)}" if self._specs else "this step has no tools"
            return ToolOutcome(ok=False, text=f"there is no tool {spec.name}; {offer}")
        findings = self._contracts[spec.name].findings(arguments)
        if not findings:
            return None
        told = "\n".join(findings)
        return ToolOutcome(ok=False, text=f"the arguments do not fit the parameters of {spec.name}:\n{told}")


def spec_of(tool: DeclaredTool) -> ToolSpec:
    """A declared tool as the model sees it."""
    return ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters, effect=tool.effect)


def _no_such(name: str) -> ToolSpec:
    """A tool that a model made up. It is never run."""
    return ToolSpec(name=excerpt(name, NAME_CHARS_MAX), description="", parameters=None, effect="read")


def as_text(value: FrozenJson) -> str:
    """A recorded result as the model sees it."""
    return value if isinstance(value, str) else canonical(value).decode()


def _storable(spec: ToolSpec, outcome: ToolOutcome) -> ToolOutcome:
    """``outcome``, or a failure where its text is none that a ledger can hold: recorded as such, it is not tried for ever."""
    try:
        if isinstance(freeze(outcome.text), str):
            return outcome
        problem = f"{type(outcome.text).__qualname__} is not text"
    except ValueError as error:
        problem = str(error)
    told = f"{spec.name} ran, but what it gave cannot be stored: {problem}"
    return ToolOutcome(ok=False, text=told, changed=outcome.changed)


def _drifted(planned: PlannedTool, past: PastTool) -> Failed:
    message = (
        f"not what was begun: tool call {planned.call} was {visible(past.called.tool)} ({past.called.key}), "
        f"now it is {visible(planned.tool)} ({planned.key})"
    )
    return Failed(code=Code.BINDING_DRIFT.value, message=message, retriable=False)
