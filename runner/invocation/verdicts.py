"""What follows from a model call that failed, live or read from the ledger: the same judgement for both. Pure."""

from dataclasses import dataclass
from typing import Final

from runner.contract.errors import CallerError, Code, ProviderError
from runner.contract.ports import Failed
from runner.contract.provider import Failure
from runner.invocation.backoff import WAIT_S_MAX, delay_s
from runner.invocation.classify import REACTIONS, classify

_OURS: Final = f"{ProviderError.__module__}."

SUSPENDING: Final[dict[str, float]] = {Code.SECRET_UNREADABLE.value: 300.0, Code.PROVIDER_START_FAILED.value: 60.0}
"""Refusals that a person or time can mend, and how long to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``failed`` is None when the call is to be made again. Nobody calls the provider before ``pause_s`` are over, if
    ``shared`` in no other process either."""

    failed: Failed | None
    pause_s: float
    shared: bool = False


def judge(failure: Failure, *, tries: int, tries_max: int, provider: str) -> Verdict:
    """The verdict on the ``tries``-th failed try in a row."""
    if failure.exception.startswith(_OURS):
        code = failure.error_code or ""
        failed = Failed(code=code, message=failure.message, retriable=False, suspend_s=SUSPENDING.get(code))
        return Verdict(failed=failed, pause_s=0.0)
    kind = classify(failure)
    reaction = REACTIONS[kind]
    retried = reaction.action == "retry"
    pause_s = delay_s(tries, failure.retry_after_s) if retried else 0.0
    if retried and pause_s <= WAIT_S_MAX and tries < tries_max:
        return Verdict(failed=None, pause_s=pause_s, shared=reaction.shared)
    suspend_s = reaction.suspend_s
    if suspend_s is not None:
        suspend_s = max(suspend_s, failure.retry_after_s or 0.0)
    failed = Failed(
        code=kind.value,
        message=f"{provider}: {_told(failure)}" + (f" (tried {tries} times)" if tries > 1 else ""),
        retriable=reaction.retriable,
        suspend_s=suspend_s,
    )
    return Verdict(failed=failed, pause_s=pause_s, shared=reaction.shared)


def failure_by(error: CallerError | ProviderError) -> Failure:
    """A refusal with a code of ours; its remedy stays with it. Not redacted."""
    text = f"{error.message} ({error.remedy})" if error.remedy else error.message
    kind = type(error)
    return Failure(exception=f"{kind.__module__}.{kind.__qualname__}", error_code=error.code.value, message=text)


def _told(failure: Failure) -> str:
    """A failure for people: its message and the signals that classified it."""
    signals = [
        failure.error_code or "",
        f"HTTP {failure.http_status}" if failure.http_status is not None else "",
        failure.exception,
    ]
    told = ", ".join(s for s in signals if s)
    return f"{failure.message} ({told})" if failure.message and told else failure.message or told or "failed"
