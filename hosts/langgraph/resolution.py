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
from runner.contract.activation import AgentAction, CommandAction, DecisionAction, GenerateAction
from runner.contract.canonical import FrozenJson, digest, freeze
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepCompleted, StepFailed
from runner.contract.ids import Digest, SiteId, StepRef
from runner.contract.plan import Plan, Site
from runner.contract.ports import Artifacts, CommandRequest, LedgerReader
from runner.interpreter.expressions import ExpressionError, Reference, Template, evaluate_json, strings, text_of
from runner.interpreter.prompts import render_input, render_prompt, untrusted_sites

RAN: Final = frozenset({StepCompleted.KIND, StepFailed.KIND})
ATTEMPT: Final = 1


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

    def __init__(self, *, plan: Plan, reader: LedgerReader, artifacts: Artifacts, worktree: Path) -> None:
        self._plan: Final = plan
        self._reader: Final = reader
        self._artifacts: Final = artifacts
        self._worktree: Final = worktree
        self._untrusted: Final = untrusted_sites(plan.sites)

    def roots(self, now: Snapshot, references: Iterable[Reference]) -> Mapping[str, FrozenJson]:
        """The roots of ARCHITECTURE.md; of the steps only those that ``references`` name and that have run."""
        named = sorted({r.step for r in references if r.step is not None})
        steps = {name: self._step(now, SiteId(name)) for name in named if self._ran(now, SiteId(name))}
        return {"input": self._plan.input, "steps": steps, "delivery": {"id": self._plan.delivery}}

    def _ran(self, now: Snapshot, site: SiteId) -> int:
        mark = now.st.get(site)
        return mark.ran if mark else 0

    def _step(self, now: Snapshot, site: SiteId) -> FrozenJson:
        step = StepRef(site=site, visit=self._ran(now, site))
        record = self._reader.last(RAN, step)
        if record is None or not isinstance(record.event, StepCompleted | StepFailed):
            raise IntegrityError(
                Code.CHECKPOINT_CORRUPT,
                f"the graph says that {step} has run, but the ledger does not know it",
                remedy="delete the Delivery's checkpoints.sqlite*: they only save time, the ledger has everything",
            )
        seen: dict[str, FrozenJson] = {"outcome": record.event.outcome, "visit": step.visit}
        if record.event.output is not None:
            seen["output"] = self._artifacts.get(record.event.output)
        return seen

    # --- one value ---------------------------------------------------------------------------------------------------

    def value(self, now: Snapshot, template: str) -> FrozenJson:
        """The value of one template; ``ExpressionError``."""
        parsed = Template.parse(template)
        return parsed.evaluate(self.roots(now, parsed.references))

    def json(self, now: Snapshot, value: FrozenJson) -> FrozenJson:
        """``value`` with every string in it evaluated; ``ExpressionError``."""
        references = [r for _, text in strings(value, "") for r in Template.parse(text).references]
        return evaluate_json(value, self.roots(now, references))

    def condition(self, now: Snapshot, site: Site) -> bool:
        """Whether the step's ``when`` allows it; ``ExpressionError`` for anything but a boolean."""
        if site.when is None:
            return True
        value = self.value(now, site.when)
        if not isinstance(value, bool):
            raise ExpressionError(site.when, f"'when' must be true or false, not {text_of(value)[:80]}")
        return value

    # --- one action --------------------------------------------------------------------------------------------------

    def decision(self, now: Snapshot, action: DecisionAction, cases: Iterable[str]) -> str:
        """The case whose key is the value as text, else the default; ``ExpressionError`` when there is neither."""
        text = text_of(self.value(now, action.on))
        if text in cases:
            return text
        if action.default is None:
            raise ExpressionError(action.on, f"no case is {text[:80]!r}, and there is no default")
        return action.default

    def agent(self, now: Snapshot, action: AgentAction) -> Texts:
        """The prompt; foreign text in it is fenced."""
        return Texts(system="", prompt=self._prompt(now, action.prompt))

    def generate(self, now: Snapshot, action: GenerateAction) -> Texts:
        """System and prompt, with the input behind it."""
        prompt = self._prompt(now, action.prompt)
        if action.input is not None:
            references = [r for _, text in strings(action.input, "") for r in Template.parse(text).references]
            shown = render_input(action.input, self.roots(now, references), self._untrusted)
            prompt = f"{prompt}\n\nInput:\n{shown}"
        return Texts(system=self._prompt(now, action.system), prompt=prompt)

    def _prompt(self, now: Snapshot, text: str) -> str:
        template = Template.parse(text)
        return render_prompt(template, self.roots(now, template.references), self._untrusted)

    def command(self, now: Snapshot, site: Site, action: CommandAction, step: StepRef) -> CommandRequest:
        """The process to run. That ``cwd`` stays inside the worktree is judged when it starts."""
        argv = tuple(text_of(self.value(now, part)) for part in action.run)
        env = self.json(now, action.env)
        return CommandRequest(
            step=step,
            attempt=ATTEMPT,
            argv=("/bin/sh", "-c", *argv) if action.shell else argv,
            cwd=str(self._worktree / text_of(self.value(now, action.cwd))),
            env={k: text_of(v) for k, v in env.items()} if isinstance(env, Mapping) else {},
            timeout_s=site.timeout_s or limits.COMMAND_TIMEOUT_S_DEFAULT,
            effect=action.effect,
            output_bytes_max=action.output_bytes_max,
        )


def request_digest(request: CommandRequest) -> Digest:
    """Of what the process is given; values of ``env`` count without being stored."""
    return digest(
        freeze(
            {"argv": list(request.argv), "cwd": request.cwd, "env": dict(request.env), "timeout_s": request.timeout_s}
        )
    )
