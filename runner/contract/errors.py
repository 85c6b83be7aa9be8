"""Errors by whose fault they are, each with a stable code, the place, and what to do.

Expected outcomes (conflict, scope violation, cancelled, unknown, busy) are values in ``outcomes``, never exceptions.
A message is safe to show: whoever raises has redacted secrets and escaped control characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """Stable codes: they are part of the public interface and are only ever added."""

    # caller
    CONFIG_INVALID = "config-invalid"
    CONFIG_NOT_FOUND = "config-not-found"
    CONFIG_UNTRUSTED = "config-untrusted"
    PROVIDER_UNKNOWN = "provider-unknown"
    PROVIDER_DUPLICATE = "provider-duplicate"
    TOOL_SERVER_UNKNOWN = "tool-server-unknown"
    SECRET_UNREADABLE = "secret-unreadable"
    PACKAGE_INVALID = "package-invalid"
    INPUT_INVALID = "input-invalid"
    BINDING_INVALID = "binding-invalid"
    REPOSITORY_INVALID = "repository-invalid"
    WORKTREE_DIRTY = "worktree-dirty"
    TARGET_INVALID = "target-invalid"
    ACTIVATION_INVALID = "activation-invalid"
    ACTIVATION_TAMPERED = "activation-tampered"
    DELIVERY_ID_INVALID = "delivery-id-invalid"
    DELIVERY_UNKNOWN = "delivery-unknown"
    DELIVERY_OPEN = "delivery-open"
    DELIVERY_COLLECTED = "delivery-collected"
    SAVEPOINT_UNKNOWN = "savepoint-unknown"
    CORRELATION_MISMATCH = "correlation-mismatch"
    MEANING_CHANGED = "meaning-changed"
    KIND_NOT_BUILT = "kind-not-built"
    FEATURE_MISSING = "feature-missing"
    CALL_UNKNOWN = "call-unknown"
    WAIT_UNKNOWN = "wait-unknown"
    ANSWER_INVALID = "answer-invalid"
    TAKEOVER_REFUSED = "takeover-refused"
    ORIGIN_INVALID = "origin-invalid"
    USAGE = "usage"
    # provider
    PROVIDER_NOT_IMPLEMENTED = "provider-not-implemented"
    PROVIDER_START_FAILED = "provider-start-failed"
    BINDING_DRIFT = "binding-drift"
    RECORDING_MISS = "recording-miss"
    RECORDING_INVALID = "recording-invalid"
    # environment
    PLATFORM_UNSUPPORTED = "platform-unsupported"
    STATE_UNWRITABLE = "state-unwritable"
    DISK_FULL = "disk-full"
    GIT_MISSING = "git-missing"
    GIT_FAILED = "git-failed"
    REMOTE_UNREACHABLE = "remote-unreachable"
    WORKTREE_MISSING = "worktree-missing"
    WORKTREE_LEASED = "worktree-leased"
    CAPTURE_FAILED = "capture-failed"
    CAPTURE_BUDGET = "capture-budget"
    RESTORE_BLOCKED = "restore-blocked"
    FENCE_LOST = "fence-lost"
    SETUP_FAILED = "setup-failed"
    PROCESS_NOT_STARTED = "process-not-started"
    ISOLATION_UNAVAILABLE = "isolation-unavailable"
    TOOL_SERVER_UNREACHABLE = "tool-server-unreachable"
    # integrity
    LEDGER_CORRUPT = "ledger-corrupt"
    LEDGER_VERSION = "ledger-version"
    LEDGER_ORDER = "ledger-order"
    ARTIFACT_CORRUPT = "artifact-corrupt"
    SAVEPOINT_MISSING = "savepoint-missing"
    CHECKPOINT_AHEAD = "checkpoint-ahead"
    CHECKPOINT_CORRUPT = "checkpoint-corrupt"
    WORKFLOW_STUCK = "workflow-stuck"
    GRANT_INVALID = "grant-invalid"
    AUTHORIZATION_FOREIGN = "authorization-foreign"
    ILLEGAL_TRANSITION = "illegal-transition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with what somebody wrote: where, what, and how to mend it."""

    place: str
    """``file:line`` for packages, a dotted field path for configs and activations."""
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" + (f" ({self.fix})" if self.fix else "")


class RunnerError(Exception):
    """The root. ``code`` is stable, ``remedy`` says what to do next, ``findings`` lists every problem found in one pass."""

    family: str = "runner"

    def __init__(self, code: Code, message: str, *, remedy: str = "", findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message
        self.remedy: Final = remedy
        self.findings: Final = tuple(findings)


class CallerError(RunnerError):
    """What was asked cannot be: refused before any effect. Exit code 2."""

    family = "caller"


class ProviderError(RunnerError):
    """A provider cannot be started or does not keep its contract."""

    family = "provider"


class EnvironmentFault(RunnerError):
    """The machine does not allow it now; the Delivery stays open and the same call may succeed later. Exit code 5."""

    family = "environment"


class IntegrityError(RunnerError):
    """A stored fact does not hold: stop, never retry, never repair silently. Exit code 4."""

    family = "integrity"
