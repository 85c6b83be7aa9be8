"""What came of a step, as the entry that the ledger gets. Pure."""

from collections.abc import Mapping
from typing import Final, Literal

from hosts.langgraph.readiness import ENVIRONMENT_CHANGED
from runner.contract import plan as words
from runner.contract.activation import CommandAction
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import Code, IntegrityError
from runner.contract.events import StepFailed, ValueRef
from runner.contract.ids import ObjectId, StepRef
from runner.contract.ports import (
    CommandResult,
    EnvironmentChanged,
    Failed,
    HostIntervention,
    Invalid,
    Violation,
)

STEP_TIMEOUT: Final = "step-timeout"
"""The code of a step that the host's own limit ended; what invocation calls a timeout is one call's."""
SHOWN_PATHS_MAX: Final = 20
MESSAGE_CHARS_MAX: Final = 2_000


def failed(
    code: str,
    message: str,
    at: ObjectId,
    *,
    outcome: Literal["failure", "timeout", "cancelled", "wait-expired"] = "failure",
    retriable: bool = False,
    paths: tuple[str, ...] = (),
    output: ValueRef | None = None,
) -> StepFailed:
    """A failed step; ``at`` is the savepoint that the worktree is at now."""
    return StepFailed(
        outcome=outcome,
        code=code,
        message=message[:MESSAGE_CHARS_MAX],
        retriable=retriable,
        paths=paths,
        output=output,
        savepoint=at,
    )


def not_completed(said: Failed | Invalid, at: ObjectId) -> StepFailed:
    """An episode that gave no result."""
    match said:
        case Failed(code=code, message=message, retriable=retriable):
            return failed(
                code, message, at, outcome="timeout" if code == STEP_TIMEOUT else "failure", retriable=retriable
            )
        case Invalid(findings=findings):
            return failed("result-invalid", "; ".join(findings), at)


def scope_violated(verdict: Violation, output: ValueRef | None) -> StepFailed:
    """The attempt wrote where it may not; the worktree is what it was before."""
    # Before the paths: those may be cut.
    rule = f" with {', '.join(verdict.allowed_by)}" if verdict.allowed_by else ""
    advice = f"all it wrote is undone. Let the step's 'scope' allow what follows{rule}, or keep it from writing that"
    message = f"wrote outside its scope ({verdict.rule}); {advice}: {shown(verdict.paths)}"
    return failed("scope-violation", message, verdict.savepoint.commit, paths=verdict.paths, output=output)


def environment_changed(verdict: EnvironmentChanged, output: ValueRef | None = None) -> StepFailed:
    """Hooks or shared git config changed: the Delivery cannot go on."""
    message = f"hooks or shared git config changed meanwhile: {shown(verdict.what)}"
    return failed(ENVIRONMENT_CHANGED, message, verdict.savepoint.commit, paths=verdict.what, output=output)


def shown(paths: tuple[str, ...]) -> str:
    """Some of ``paths`` for people."""
    return ", ".join(paths[:SHOWN_PATHS_MAX]) + (" …" if len(paths) > SHOWN_PATHS_MAX else "")


def uncertain(step: StepRef, call: str, why: str) -> HostIntervention:
    """An effect whose end nobody observed."""
    return HostIntervention(reason="uncertain-effect", detail=f"{call}: {why}", step=step)


# --- commands --------------------------------------------------------------------------------------------------------


def output_of(result: CommandResult) -> FrozenJson:
    """A command's output as expressions see it."""
    return freeze(
        {
            "exit": result.status if result.end == "exit" else None,
            "signal": result.status if result.end == "signal" else None,
            "timed_out": result.end == "timeout",
            "stdout": result.stdout,
            "stderr": result.stderr,
            "truncated": result.truncated,
        }
    )


def command_failure(
    result: CommandResult, action: CommandAction, timeout_s: float, at: ObjectId, output: ValueRef
) -> StepFailed | None:
    """How the process failed, or None."""
    match result.end:
        case "exit" if result.status in action.ok_exit_codes:
            return None
        case "exit":
            return failed("exit-status", f"ended with exit status {result.status}", at, output=output)
        case "signal":
            return failed("signal", f"was ended by signal {result.status}", at, output=output)
        case "timeout":
            message = f"did not finish within {timeout_s:g} s"
            return failed(STEP_TIMEOUT, message, at, outcome="timeout", output=output)
        case "not-started":
            return failed("not-started", result.message or "the process could not be started", at, output=output)


def result_from(value: FrozenJson) -> CommandResult:
    """A recorded result as it was; ``IntegrityError`` (ledger-corrupt) when it is not one."""
    fields = dict(value) if isinstance(value, Mapping) else {}
    match fields:
        case {
            "end": "exit" | "signal" | "timeout" | "not-started" as end,
            "status": int(status),
            "stdout": str(stdout),
            "stderr": str(stderr),
            "truncated": bool(truncated),
        }:
            message = fields.get("message", "")
            return CommandResult(
                end=end,
                status=status,
                stdout=stdout,
                stderr=stderr,
                truncated=truncated,
                duration_s=0.0,
                message=message if isinstance(message, str) else "",
            )
        case _:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                "the recorded result of a command is not one",
                remedy="restore the Delivery's directory from a backup",
            )


def cancelled(at: ObjectId) -> StepFailed:
    """An open step when the Delivery is cancelled."""
    return failed(words.CANCELLED, "the Delivery was cancelled", at, outcome="cancelled")
