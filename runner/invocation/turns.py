"""What follows from a turn's answer. Pure: decides, never acts."""

from dataclasses import dataclass

from runner.contract.canonical import FrozenJson
from runner.contract.ports import Invalid
from runner.contract.provider import Completion, ToolRequest
from runner.invocation.completion import (
    CORRECTIONS_MAX,
    NO_RESULT,
    NO_TOOLS,
    SEVERAL_RESULTS,
    JsonContract,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnswer:
    """What one turn that did not fail came to; secrets are already redacted."""

    requests: tuple[ToolRequest, ...] = ()
    completions: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UseTools:
    """A completion that came together with tool requests is not taken: it was given without knowing their results."""

    requests: tuple[ToolRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct:
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    value: FrozenJson


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    disposition: Invalid


Move = UseTools | Correct | Accept | GiveUp


def next_move(answer: TurnAnswer, *, offers_tools: bool, contract: JsonContract, corrections: int) -> Move:
    """The one thing to do next; ``corrections`` counts the corrective turns in a row that led to this answer."""
    if answer.requests and offers_tools:
        return UseTools(requests=answer.requests)
    findings = _findings(answer, contract)
    if not findings:
        return Accept(value=answer.completions[0].value)
    if corrections >= CORRECTIONS_MAX:
        return GiveUp(disposition=Invalid(findings=findings))
    return Correct(findings=findings)


def _findings(answer: TurnAnswer, contract: JsonContract) -> tuple[str, ...]:
    if answer.requests:
        return (NO_TOOLS,)
    match answer.completions:
        case ():
            return (NO_RESULT,)
        case (completion,):
            return contract.findings(completion.value)
        case _:
            return (SEVERAL_RESULTS,)
