"""What other processes may ask of a Delivery, and whether it fits what is open now. Pure.

The same judgement is made twice: by whoever leaves a wish in the inbox, so that a person hears at once why not, and by the
driver that takes it, because things may have moved on; there, what does not fit any more is only ignored.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from runner.contract.canonical import FrozenJson, canonical, freeze, parse
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.outcomes import OpenWait
from runner.contract.text import excerpt
from runner.coordinator.recovery import Effect, Remaining
from runner.coordinator.waiting import Waiting
from runner.interpreter.schemas import value_findings

CANCEL: Final = "cancel"
RESOLUTION: Final = "resolution"
ANSWER: Final = "answer"
"""The kinds of inbox items that a driver takes."""

Said = Literal["happened", "did-not-happen", "abandon", "adopt", "discard"]
OF_EFFECT: Final[tuple[Said, ...]] = ("happened", "did-not-happen", "abandon")
OF_WORKTREE: Final[tuple[Said, ...]] = ("adopt", "discard", "abandon")
EXIT_STATUS_MAX: Final = 255
SAID_CHARS_MAX: Final = 100
SCHEMA_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What somebody says of an uncertain effect, or (without one) of an edited worktree; fits what is open."""

    said: Said
    effect: Effect | None = None
    value: FrozenJson = None
    """The call's result, in the form in which the call itself would have recorded it; only for ``happened``."""

    @property
    def body(self) -> str:
        call = self.effect.call if self.effect else ""
        return canonical({"call": call, "resolution": self.said, "value": self.value}).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A valid answer to an open wait."""

    waiting: Waiting
    value: FrozenJson

    @property
    def body(self) -> str:
        return canonical({"wait": self.waiting.wait.wait, "value": self.value}).decode()


def resolution(left: Remaining, call: str, said: str, value: FrozenJson) -> Resolution:
    """The resolution, or ``CallerError``: ``call-unknown`` when nothing like that is uncertain, ``answer-invalid`` when
    it does not fit."""
    choices = OF_EFFECT if call else OF_WORKTREE
    fitting = next((choice for choice in choices if choice == said), None)
    if fitting is None:
        what = f"call {call}" if call else "an edited worktree"
        raise _invalid(f"{said!r:.40} says nothing about {what}", f"say one of: {', '.join(choices)}")
    if not call:
        if left.foreign is None:
            raise _no_call("no edited worktree waits for a decision", left)
        return Resolution(said=fitting)
    effect = next((effect for effect in left.asked if effect.call == call), None)
    if effect is None:
        raise _no_call(f"call {call[:200]!r} is not uncertain", left)
    told = _result(effect, value) if fitting == "happened" else None
    return Resolution(said=fitting, effect=effect, value=told)


def reply(left: Remaining, wait: str | None, value: FrozenJson, now: dt.datetime | None) -> Reply:
    """The answer, or ``CallerError``: ``wait-unknown`` when no such question is open, or one that is not named cannot be
    the only one; ``answer-invalid`` with the findings. With ``now``, a wait whose time is over takes no answer."""
    waiting = _only(left) if wait is None else _named(left, wait)
    asked = waiting.wait
    if now is not None and asked.expires_at is not None and now >= dt.datetime.fromisoformat(asked.expires_at):
        raise CallerError(
            Code.WAIT_UNKNOWN,
            f"wait {asked.wait} expired at {asked.expires_at}",
            remedy="execute the Delivery: what then happens, its step says",
        )
    given = freeze({asked.outcome: value}) if asked.outcome is not None and isinstance(value, str) else value
    found = value_findings(asked.answer_schema, given, "answer")
    if found:
        raise _no_answer(asked, value, found)
    return Reply(waiting=waiting, value=given)


def fields_of(body: str, *names: str) -> tuple[FrozenJson, ...] | None:
    """The named fields of an item's body; None when it is not an object with exactly those."""
    try:
        found = parse(body)
    except ValueError:
        return None
    if not isinstance(found, Mapping) or found.keys() != set(names):
        return None
    return tuple(found[name] for name in names)


def _named(left: Remaining, wait: str) -> Waiting:
    found = next((waiting for waiting in left.waits if waiting.wait.wait == wait), None)
    if found is None:
        raise CallerError(Code.WAIT_UNKNOWN, f"no wait {wait[:200]!r} is open", remedy=_which(left))
    return found


def _only(left: Remaining) -> Waiting:
    if len(left.waits) == 1:
        return left.waits[0]
    problem = f"{len(left.waits)} waits are open, and the answer names none" if left.waits else "no wait is open"
    raise CallerError(Code.WAIT_UNKNOWN, problem, remedy=_which(left))


def _which(left: Remaining) -> str:
    return "; ".join(map(_question, (waiting.wait for waiting in left.waits))) or "see what inspect says"


def _question(wait: OpenWait) -> str:
    """Its name and how it begins; what a fence of untrusted text encloses is never shown in part."""
    first = wait.prompt.strip().partition("\n")[0]
    return wait.wait if not first or first.startswith("<<<") else f"{wait.wait}: {excerpt(first, 100)}"


def _no_answer(asked: OpenWait, value: FrozenJson, found: tuple[Finding, ...]) -> CallerError:
    words = " or ".join(_choices(asked))
    schema = f"an answer fits {excerpt(canonical(asked.answer_schema).decode(), SCHEMA_CHARS_MAX)}"
    if words and isinstance(value, Mapping):
        remedy = f"'{asked.outcome}' is {words}; {schema}"
    else:
        remedy = f"say {words}; a whole answer is a JSON object" if words else schema
    said = f"{excerpt(canonical(value).decode(), SAID_CHARS_MAX)} does not answer wait {asked.wait}"
    return CallerError(Code.ANSWER_INVALID, said, remedy=remedy, findings=found)


def _choices(asked: OpenWait) -> tuple[str, ...]:
    """The words that the property that routes may be; empty when they are not listed."""
    schema: FrozenJson = asked.answer_schema
    for name in ("properties", asked.outcome):
        schema = schema.get(name) if isinstance(schema, Mapping) and name is not None else None
    words = schema.get("enum") if isinstance(schema, Mapping) else None
    return tuple(word for word in words if isinstance(word, str)) if isinstance(words, tuple) else ()


def _no_call(problem: str, left: Remaining) -> CallerError:
    named = ", ".join(effect.call for effect in left.asked)
    return CallerError(
        Code.CALL_UNKNOWN, problem, remedy=f"uncertain is: {named}" if named else "see what inspect says is uncertain"
    )


def _invalid(problem: str, remedy: str) -> CallerError:
    return CallerError(Code.ANSWER_INVALID, problem, remedy=remedy)


# --- the result of a call that happened ------------------------------------------------------------------------------


def _result(effect: Effect, value: FrozenJson) -> FrozenJson:
    """``value`` as the call would have recorded it: text for a tool that a model called, how a process ended for a command,
    any JSON for the rest. Never made up: without a value nothing is known."""
    called = effect.called
    if value is None or called is None:
        raise _invalid(f"call {effect.call} happened: with which result?", "give the value that it answered")
    if called.caller == "model":
        return value if isinstance(value, str) else canonical(value).decode()
    return _ended(effect, value) if called.tool == "command" else value


def _ended(effect: Effect, value: FrozenJson) -> FrozenJson:
    said = value if isinstance(value, Mapping) else {"exit": value}
    status, stdout, stderr = said.get("exit", said.get("status")), said.get("stdout", ""), said.get("stderr", "")
    match status, stdout, stderr:
        case int(), str(), str() if not isinstance(status, bool) and 0 <= status <= EXIT_STATUS_MAX:
            ended = {"end": "exit", "status": status, "stdout": stdout, "stderr": stderr}
            return freeze({**ended, "truncated": False, "message": ""})
        case _:
            raise _invalid(
                f"{canonical(value).decode()[:100]} does not say how the command of call {effect.call} ended",
                'give its exit status, or {"exit": 0, "stdout": "...", "stderr": "..."}',
            )
