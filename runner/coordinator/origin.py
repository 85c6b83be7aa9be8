"""May this Delivery start where it says? Everything about its origin is checked here before any effect.

Reads the source beside whoever drives it, and changes nothing there.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from runner.contract.activation import Activation, AgentAction, Executor, GenerateAction, Origin, Step
from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.events import (
    DeliveryForked,
    ModelResponded,
    SavepointTaken,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
    ValueRef,
)
from runner.contract.ids import DeliveryId, ObjectId, StepRef
from runner.contract.layout import DeliveryLayout, delivery_layout
from runner.contract.outcomes import TakenOver
from runner.contract.plan import Plan
from runner.contract.ports import Assembly, Ledger
from runner.contract.records import Draft, Record
from runner.coordinator.journal import accepted_in
from runner.coordinator.selection import Selection, rekeyed, select
from runner.coordinator.settled import reading
from runner.ledger import FileArtifacts, has_ledger, open_reader
from runner.ledger.inbox import unknown_delivery

Fitting = Callable[[Plan, tuple[Record, ...], StepRef | None], tuple[Finding, ...]]
"""See ``ports.Assembly.fitting``."""

_NAMES_DELIVERY: Final = re.compile(r"\{\{[^}]*\bdelivery\b")
_ANOTHER: Final = "'runner savepoints' lists the places to start from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The Delivery that another one starts from, as its ledger is now."""

    layout: DeliveryLayout
    activation: Activation
    records: tuple[Record, ...]

    @property
    def artifacts(self) -> FileArtifacts:
        return FileArtifacts(self.layout.artifacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is taken over, fit to be recorded."""

    source: Source
    selection: Selection
    records: tuple[Record, ...]

    def drafts(self, origin: Origin) -> tuple[Draft, ...]:
        """The facts behind the acceptance. The attempt that goes on has taken no time here yet."""
        forked = Draft(event=DeliveryForked(origin=origin, records=len(self.records)))
        return (forked, *(self._draft(record) for record in self.records))

    def _draft(self, record: Record) -> Draft:
        at = "" if record.step is not None and record.step == self.selection.inside else record.at
        return Draft(event=record.event, step=record.step, attempt=record.attempt, at=at)

    def values(self) -> tuple[ValueRef, ...]:
        """Every value that is a file."""
        found = {ref.digest: ref for record in self.records for ref in values_in(record.event)}
        return tuple(ref for ref in found.values() if ref.stored)


def values_in(model: BaseModel) -> tuple[ValueRef, ...]:
    """Every value that ``model`` names."""
    if isinstance(model, ValueRef):
        return (model,)
    fields = (getattr(model, name) for name in type(model).model_fields)
    return tuple(ref for field in fields if isinstance(field, BaseModel) for ref in values_in(field))


def read_source(state_root: Path, delivery: str) -> Source:
    """``CallerError`` (``delivery-unknown``, ``origin-invalid``) when nothing can start from it."""
    layout = _layout(state_root, delivery)
    with open_reader(layout) as reader:
        records = tuple(reader.read())
        found = accepted_in(reader)
    if found is None:
        raise refused(f"{delivery} was never accepted", "start it with 'runner execute'")
    document = canonical(FileArtifacts(layout.artifacts).get(found[0].document))
    return Source(layout=layout, activation=Activation.model_validate_json(document), records=records)


def past_of(state_root: Path, activation: Activation, plan: Plan, fitting: Fitting) -> Past:
    """What ``activation``, which has an origin, takes over. ``CallerError`` when it cannot start there."""
    origin = activation.origin
    assert origin is not None  # noqa: S101 - asked only about a Delivery with an origin
    source = read_source(state_root, origin.delivery)
    _check_place(source, origin, activation)
    selection = select(source.records, origin)
    _check_savepoint(source, origin, selection)
    problem = unable(source, activation, selection)
    if problem:
        raise refused(
            f"{selection.inside} of {origin.delivery} cannot go on in its middle: {problem}",
            "start at a savepoint between steps",
        )
    findings = fitting(plan, selection.records, selection.inside)
    if findings:
        told = f"what {origin.delivery} had done at record {origin.position} does not fit this workflow"
        raise CallerError(Code.ORIGIN_INVALID, told, remedy=_ANOTHER, findings=findings)
    records = rekeyed(selection.records, plan.delivery, source.artifacts.get)
    return Past(source=source, selection=selection, records=records)


def take_over(
    *, state_root: Path, activation: Activation, plan: Plan, layout: DeliveryLayout, ledger: Ledger, assembly: Assembly
) -> tuple[Draft, ...]:
    """Brings what ``activation`` takes over into the Delivery's directory, synced, and answers with the facts to be recorded
    behind its acceptance; nothing for one without an origin. Idempotent. ``CallerError`` when it cannot start there."""
    origin = activation.origin
    if origin is None:
        return ()
    with reading(_layout(state_root, origin.delivery)):
        past = past_of(state_root, activation, plan, assembly.fitting)
        for ref in past.values():
            ledger.artifacts.put(past.source.artifacts.get(ref))
        needed = dict.fromkeys((*past.selection.savepoints, ObjectId(origin.savepoint)))
        assembly.bring(activation, past.source.layout, layout, tuple(needed))
    return past.drafts(origin)


def _layout(state_root: Path, delivery: str) -> DeliveryLayout:
    """``CallerError`` (``delivery-unknown``) when nothing is recorded of it."""
    layout = delivery_layout(state_root, DeliveryId(delivery))
    if not has_ledger(layout):
        raise unknown_delivery(layout)
    return layout


def refused(problem: str, remedy: str) -> CallerError:
    return CallerError(Code.ORIGIN_INVALID, problem, remedy=remedy)


def _check_place(source: Source, origin: Origin, activation: Activation) -> None:
    if origin.delivery == activation.delivery:
        raise refused(f"{origin.delivery} cannot start from itself", "give the new Delivery an id of its own")
    with open_reader(source.layout) as reader:
        found = reader.digest_at(origin.position)
    if found != origin.record:
        told = f"is {found}" if found else "does not exist"
        raise refused(
            f"record {origin.position} of {origin.delivery} {told}; the activation was made over {origin.record}",
            "make the activation anew: 'runner fork' or 'runner retry'",
        )
    was, now = source.activation.workspace, activation.workspace
    if (was.base_commit, was.include_dirty) != (now.base_commit, now.include_dirty):
        raise refused(
            f"{origin.delivery} began at commit {was.base_commit}, this activation at {now.base_commit}",
            "admit it over a worktree at the commit that its origin began at, with the same --include-dirty",
        )


def _check_savepoint(source: Source, origin: Origin, selection: Selection) -> None:
    if selection.inside is not None or selection.boundary == origin.savepoint:
        return
    if selection.records and _is_edit(selection, origin):
        return
    taken = [r for r in source.records if isinstance(r.event, SavepointTaken) and r.event.savepoint == origin.savepoint]
    if not any(record.seq <= origin.position for record in taken):
        raise refused(f"{origin.delivery} had no savepoint {origin.savepoint} at record {origin.position}", _ANOTHER)
    raise refused(
        f"at record {origin.position} the files of {origin.delivery} were those of {selection.boundary}, "
        f"not of {origin.savepoint}",
        _ANOTHER,
    )


def _is_edit(selection: Selection, origin: Origin) -> bool:
    """Whether the savepoint is the newest one and holds edits of a person's: they are adopted by starting there."""
    taken = [r.event for r in selection.records if isinstance(r.event, SavepointTaken)]
    return bool(taken) and taken[-1].role == "foreign" and taken[-1].savepoint == origin.savepoint


# --- in the middle of a step -----------------------------------------------------------------------------------------


def unable(source: Source, activation: Activation, selection: Selection) -> str:
    """Why the step in whose middle the savepoint lies cannot go on there under ``activation``; empty when it can, or when
    there is no such step. What it said and was told so far must be what it would say and be told again."""
    step = selection.inside
    if step is None:
        return ""
    was, now = _bound(source.activation, step), _bound(activation, step)
    if now is None or was is None:
        return "the workflow has no such step any more"
    if was != now:
        return "its action, executor or tools are others now"
    if source.activation.input != activation.input:
        return "the input is another now"
    action, executor, _ = now
    text = canonical(action.to_json()).decode() + (executor.instructions if executor else "")
    if _NAMES_DELIVERY.search(text):
        return "its prompt names the Delivery's id"
    if source.activation.workspace.worktree in _told(source, selection, step):
        return "what it was told names the worktree's path"
    return ""


def _bound(activation: Activation, step: StepRef) -> tuple[AgentAction, Executor | None, tuple[object, ...]] | None:
    found = next((s for s in activation.workflow.steps if s.id == step.site), None)
    if found is None or not isinstance(found.action, AgentAction):
        return None
    executor = next((e for e in activation.executors if e.role == found.action.executor), None)
    return found.action, executor, tuple(t for t in activation.tools if t.name in found.action.tools)


def _told(source: Source, selection: Selection, step: StepRef) -> str:
    """Everything that was said in the session so far."""
    said: list[str] = []
    for record in selection.records:
        if record.step != step:
            continue
        match record.event:
            case ModelResponded(response=ValueRef() as ref) | ToolSucceeded(value=ref):
                said.append(canonical(source.artifacts.get(ref)).decode())
            case ToolFailed(message=message):
                said.append(message)
            case _:
                pass
    return "\n".join(said)


# --- for people ------------------------------------------------------------------------------------------------------


def told_of(past: Past, activation: Activation) -> TakenOver:
    """What is taken over and what is done again, in words."""
    kept, selection = past.selection.kept, past.selection
    before = {s.id: _defined(past.source.activation, s) for s in past.source.activation.workflow.steps}
    now = {s.id: _defined(activation, s) for s in activation.workflow.steps}
    seqs = {record.seq for record in selection.records}
    outside = [r.event for r in past.source.records if isinstance(r.event, ToolCalled) and r.seq not in seqs]
    return TakenOver(
        kept=tuple(step.key for step in kept),
        inside=None if selection.inside is None else selection.inside.key,
        again=tuple(step.key for step in selection.again),
        changed=tuple(s.key for s in kept if canonical(before.get(s.site)) != canonical(now.get(s.site))),
        repeated=tuple(dict.fromkeys(f"{e.call}: {e.tool}" for e in outside if e.effect == "external")),
    )


def _defined(activation: Activation, step: Step) -> object:
    role = step.action.executor if isinstance(step.action, AgentAction | GenerateAction) else None
    executor = next((e.to_json() for e in activation.executors if e.role == role), None)
    return [step.action.to_json(), executor]
