"""``docs/events.md`` is made from the vocabulary, so that it cannot say something else: ``make docs`` writes it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from runner.contract.events import STEP_ENDS, VOCABULARY, Event
from tests.house.source import PROJECT, Breach

PAGE: Final = "docs/events.md"

SEED_NAMES: Final = {
    "delivery.accepted": "`WorkflowVersionRegistered`, `RunStarted`",
    "step.scheduled": "`StepScheduled`",
    "step.attempt_started": "`StepAttemptStarted`",
    "session.started": "`harness.session.started`; for code `harness.execute_step.started`",
    "model.called": "`harness.model.called`",
    "model.responded": "`harness.model.responded`",
    "tool.called": "`harness.tool_call.started`",
    "tool.succeeded": "`harness.tool_call.succeeded`",
    "tool.failed": "`harness.tool_call.failed`",
    "session.completed": "`harness.session.completed`; for code `harness.execute_step.succeeded`",
    "session.failed": "`harness.session.failed`",
    "artifact.stored": "`ArtifactCreated`",
    "output.validated": "`StepOutputValidated`",
    "savepoint.taken": "M02: savepoint",
    "step.completed": "`StepCompleted`",
    "step.failed": "`StepFailed`",
    "decision.taken": "the decision's `{ chosen }`",
    "cancel.requested": "`cancel(delivery)`; `CancellationController`",
    "terminal.proposed": "M02: proposal",
    "result.preserved": "M02: preserve result",
    "publication.asked": "M02: publication",
    "publication.known": "M02: known publication",
    "retirement.authorized": "M02: one retirement authorization",
    "owner.retired": "M02: owner-scoped retirement",
    "delivery.settled": "M02: settlement; `RunCompleted`, `RunFailed`",
}
"""The names that the source documents use for the same fact, where they have one."""

HEAD: Final = """\
# Events

The ledger's vocabulary. One append-only ledger per Delivery holds these facts and nothing else; each kind has exactly the
owners named here, and the store refuses it from anybody else. Every record also carries a dense sequence from 1, the time (for
people, never for order), the fence's generation, and where it applies the step and the attempt.

A reader that meets a kind or a version that it does not know stops with `ledger-version`: it never skips what it cannot
understand. Fields are only added with a new version of the kind.

This page is made from `runner/contract/events.py` by `make docs`; a check compares them.

| kind | version | written by | payload | what the sources call it |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page as it must stand in the project."""
    return HEAD + "".join(_row(event) for event in VOCABULARY.values()) + _notes()


def _row(event: type[Event]) -> str:
    payload = ", ".join(f"`{name}`" for name in event.model_fields) or "-"
    owners = ", ".join(event.OWNER)
    return f"| `{event.KIND}` | {event.VERSION} | {owners} | {payload} | {SEED_NAMES.get(event.KIND, '-')} |\n"


def _notes() -> str:
    ends = ", ".join(f"`{kind}`" for kind in sorted(STEP_ENDS))
    documented = "".join(f"- `{e.KIND}`: {_first_line(e)}\n" for e in VOCABULARY.values() if _first_line(e))
    return f"\nExactly one of {ends} ends a step; the store refuses a second.\n\n{documented}"


def _first_line(event: Any) -> str:
    own = event.__dict__.get("__doc__") or ""
    return own.strip().partition("\n")[0]


def breaches(tree: Path) -> Iterator[Breach]:
    """One breach when the page in ``tree`` is not the one that the vocabulary makes."""
    file = tree / PAGE
    if not file.is_file() or file.read_text("utf-8") != page():
        yield Breach(place=PAGE, rule="is not what runner/contract/events.py says", fix="make docs")


if __name__ == "__main__":
    (PROJECT / PAGE).write_text(page(), "utf-8")
