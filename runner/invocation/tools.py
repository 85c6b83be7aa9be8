"""Runs what a model asks for: only admitted tools, only with arguments that fit, every call journaled on both sides."""

from collections.abc import Callable
from typing import Final

from runner.contract import limits
from runner.contract.canonical import FrozenJson
from runner.contract.grant import WorkspaceGrant
from runner.contract.ports import Clock
from runner.contract.provider import Toolbox, ToolOutcome, ToolRequest, ToolResult, ToolSpec
from runner.contract.text import excerpt, visible
from runner.invocation.completion import JsonContract
from runner.invocation.journal import Journal
from runner.invocation.redaction import Redactor
from runner.invocation.rest import to_rest

MESSAGE_CHARS_MAX: Final = 4_000
"""Of a tool's failure."""


class ToolCalls:
    """The tools of one episode under one grant."""

    def __init__(
        self,
        *,
        toolbox: Toolbox,
        grant: WorkspaceGrant,
        specs: tuple[ToolSpec, ...],
        journal: Journal,
        redactor: Redactor,
        clock: Clock,
        progress: Callable[[str], None],
    ) -> None:
        self._toolbox = toolbox
        self._grant = grant
        self._specs = {spec.name: spec for spec in specs}
        self._contracts = {spec.name: JsonContract(spec.parameters) for spec in specs}
        self._journal = journal
        self._redactor = redactor
        self._clock = clock
        self._progress = progress

    async def run(self, request: ToolRequest) -> ToolResult:
        """What the model is told about its request. A tool that does not exist, arguments that do not fit and a tool's own
        failure are results. When cancelled, a tool at work gets ``TERM_GRACE_S`` to end and be journaled."""
        self._progress(f"\n{visible(request.name[:80])}\n")
        return await to_rest(self._run(request), self._clock, limits.TERM_GRACE_S)

    async def _run(self, request: ToolRequest) -> ToolResult:
        spec = self._specs.get(request.name)
        named = spec or ToolSpec(name=excerpt(request.name, 80), description="", parameters=None, effect="read")
        call = await self._journal.tool_called(named, request.arguments)
        if spec is None:
            outcome = ToolOutcome(ok=False, text=f"there is no tool {named.name}; {self._offer()}")
        else:
            outcome = await self._act(spec, request.arguments)
        text = self._redactor.text(outcome.text)
        if not outcome.ok:
            text = excerpt(text, MESSAGE_CHARS_MAX)
        await self._journal.tool_ended(call, ok=outcome.ok, text=text)
        return ToolResult(id=request.id, ok=outcome.ok, text=text)

    async def _act(self, spec: ToolSpec, arguments: FrozenJson) -> ToolOutcome:
        findings = self._contracts[spec.name].findings(arguments)
        if findings:
            told = "\n".join(findings)
            return ToolOutcome(ok=False, text=f"the arguments do not fit the parameters of {spec.name}:\n{told}")
        return await self._toolbox.call(self._grant, spec, arguments)

    def _offer(self) -> str:
        return f"the tools are: {', '.join(self._specs)}" if self._specs else "this step has no tools"
