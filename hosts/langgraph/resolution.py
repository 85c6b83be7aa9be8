"""Templates to values: what a step's expressions see, and its action with everything filled in.

Only the steps that a template names are looked up, each by one indexed read of the ledger, so that a step's cost does not
grow with what ran before it. ``steps`` holds only steps that have run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hosts.langgraph.readiness import Snapshot
from runner.contract import limits
from runner.contract.activation import (
    AgentAction,
    ApprovalAction,
    CommandAction,
    DecisionAction,
    EffectClass,
    GenerateAction,
)
from runner.contract.canonical import FrozenJson, digest, freeze
from runner.contract.config import Isolation
from runner.contract.effects import process_effect
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepCompleted, StepFailed
from runner.contract.ids import Digest, SiteId, StepRef
from runner.contract.plan import Plan, Site
from runner.contract.ports import Artifacts, CommandRequest, LedgerReader
from runner.contract.records import Record
from runner.interpreter.expressions import (
    ExpressionError,
    Reference,
    Template,
    TemplateError,
    evaluate_json,
    strings,
    text_of,
)
from runner.interpreter.prompts import render_input, render_prompt, untrusted_sites

RAN: Final = frozenset({StepCompleted.KIND, StepFailed.KIND})
ATTEMPT: Final = 1
Unresolved = (ExpressionError, TemplateError)
"""What is raised when an expression has no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a step's expressions are evaluated: now, or for an attempt that goes on as it was at ledger sequence ``before``,
    since steps beside it in a loop may have run again meanwhile."""

    now: Snapshot
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What a model is told."""

    system: str
    prompt: str

    @property
    def digest(self) -> Digest:
        return digest({"system": self.system, "prompt": self.prompt})


class Resolver:
    """Evaluates a plan's templates against what the ledger holds."""

    def __init__(
        self, *, plan: Plan, reader: LedgerReader, artifacts: Artifacts, worktree: Path, isolation: Isolation
    ) -> None:
        self._plan: Final = plan
        self._reader: Final = reader
        self._artifacts: Final = artifacts
        self._worktree: Final = worktree
        self._isolation: Final[Isolation] = isolation
        self._untrusted: Final = untrusted_sites(plan.sites)

    def roots(self, at: Moment, references: Iterable[Reference]) -> Mapping[str, FrozenJson]:
        """The roots of ARCHITECTURE.md; of the steps only those that ``references`` name and that have run."""
        named = sorted({r.step for r in references if r.step is not None})
        records = ((name, self._ran(at, SiteId(name))) for name in named)
        steps = {name: self._seen(record) for name, record in records if record is not None}
        return {"input": self._plan.input, "steps": steps, "delivery": {"id": self._plan.delivery}}

    def _ran(self, at: Moment, site: SiteId) -> Record | None:
        """The end of the last visit of ``site`` that had run at that moment."""
        mark = at.now.st.get(site)
        for visit in range(mark.ran if mark else 0, 0, -1):
            step = StepRef(site=site, visit=visit)
            record = self._reader.last(RAN, step)
            if record is not None and (at.before is None or record.seq < at.before):
                return record
            if record is None and at.before is None:
                raise IntegrityError(
                    Code.CHECKPOINT_CORRUPT,
                    f"the graph says that {step} has run, but the ledger does not know it",
                    remedy="delete the Delivery's checkpoints.sqlite*: they only save time, the ledger has everything",
                )
        return None

    def _seen(self, record: Record) -> FrozenJson:
        if record.step is None or not isinstance(record.event, StepCompleted | StepFailed):
            raise TypeError(f"ledger record {record.seq} is not the end of a step that ran")
        seen: dict[str, FrozenJson] = {"outcome": record.event.outcome, "visit": record.step.visit}
        if record.event.output is not None:
            seen["output"] = self._artifacts.get(record.event.output)
        return seen

    # --- one value ---------------------------------------------------------------------------------------------------

    def value(self, at: Moment, template: str) -> FrozenJson:
        """The value of one template; ``ExpressionError``."""
        parsed = Template.parse(template)
        return parsed.evaluate(self.roots(at, parsed.references))

    def json(self, at: Moment, value: FrozenJson) -> FrozenJson:
        """``value`` with every string in it evaluated; ``ExpressionError``."""
        references = [r for _, text in strings(value, "") for r in Template.parse(text).references]
        return evaluate_json(value, self.roots(at, references))

    def condition(self, at: Moment, site: Site) -> bool:
        """Whether the step's ``when`` allows it; ``ExpressionError`` for anything but a boolean."""
        if site.when is None:
            return True
        value = self.value(at, site.when)
        if not isinstance(value, bool):
            raise ExpressionError(site.when, f"'when' must be true or false, not {text_of(value)[:80]}")
        return value

    # --- one action --------------------------------------------------------------------------------------------------

    def decision(self, at: Moment, action: DecisionAction, cases: Iterable[str]) -> str:
        """The case whose key is the value as text, else the default; ``ExpressionError`` when there is neither."""
        text = text_of(self.value(at, action.on))
        if text in cases:
            return text
        if action.default is None:
            raise ExpressionError(action.on, f"no case is {text[:80]!r}, and there is no default")
        return action.default

    def agent(self, at: Moment, action: AgentAction) -> Texts:
        """The prompt; foreign text in it is fenced."""
        return Texts(system="", prompt=self._prompt(at, action.prompt))

    def generate(self, at: Moment, action: GenerateAction) -> Texts:
        """System and prompt, with the input behind it."""
        prompt = self._prompt(at, action.prompt)
        if action.input is not None:
            references = [r for _, text in strings(action.input, "") for r in Template.parse(text).references]
            shown = render_input(action.input, self.roots(at, references), self._untrusted)
            prompt = f"{prompt}\n\nInput:\n{shown}"
        return Texts(system=self._prompt(at, action.system), prompt=prompt)

    def approval(self, at: Moment, action: ApprovalAction) -> str:
        """What a person is asked; foreign text in it is fenced, so that it cannot pass for the author's."""
        return self._prompt(at, action.prompt)

    def _prompt(self, at: Moment, text: str) -> str:
        template = Template.parse(text)
        return render_prompt(template, self.roots(at, template.references), self._untrusted)

    def effect(self, action: CommandAction) -> EffectClass:
        """What is known of a command whose end nobody saw."""
        return process_effect(action.effect, self._isolation)

    def command(self, at: Moment, site: Site, action: CommandAction, step: StepRef) -> CommandRequest:
        """The process to run. That ``cwd`` stays inside the worktree is judged when it starts."""
        argv = tuple(text_of(self.value(at, part)) for part in action.run)
        env = self.json(at, action.env)
        return CommandRequest(
            step=step,
            attempt=ATTEMPT,
            argv=("/bin/sh", "-c", *argv) if action.shell else argv,
            cwd=str(self._worktree / text_of(self.value(at, action.cwd))),
            env={k: text_of(v) for k, v in env.items()} if isinstance(env, Mapping) else {},
            timeout_s=site.timeout_s or limits.COMMAND_TIMEOUT_S_DEFAULT,
            effect=self.effect(action),
            scope=action.scope,
            output_bytes_max=action.output_bytes_max,
        )


def request_digest(request: CommandRequest) -> Digest:
    """Of what the process is given; values of ``env`` count without being stored."""
    return digest(
        freeze(
            {"argv": list(request.argv), "cwd": request.cwd, "env": dict(request.env), "timeout_s": request.timeout_s}
        )
    )
