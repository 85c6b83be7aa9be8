"""Can what another Delivery did be the past of this plan? The fold of a recovery, run dry. Pure."""

from collections.abc import Iterator
from typing import Final

from hosts.langgraph.readiness import Readiness, Snapshot, Topology, advance, end_of, final, judge
from runner.contract.errors import Finding
from runner.contract.events import STEP_ENDS, StepSkipped, StepSuperseded
from runner.contract.ids import StepRef
from runner.contract.plan import Plan
from runner.contract.records import Record

EARLIER: Final = "fork at a savepoint from before it, or leave that part of the workflow as it was"
BEFORE: Final = "start before it; 'runner retry' does, for a step that failed"
SKIPS: Final = frozenset({Readiness.SKIP_BLOCKED, Readiness.SKIP_NEEDS, Readiness.SKIP_NOT_CHOSEN})


def fitting(plan: Plan, records: tuple[Record, ...], inside: StepRef | None) -> tuple[Finding, ...]:
    """Why the step ends among ``records``, in order, cannot be what happened of ``plan`` so far, ``inside`` being the one step
    that is open and goes on; the first reason. Nothing if they can be."""
    return next(_problems(Topology(plan), records, inside), ())


def _problems(topology: Topology, records: tuple[Record, ...], inside: StepRef | None) -> Iterator[tuple[Finding, ...]]:
    snapshot = Snapshot()
    for record in records:
        if record.event.KIND not in STEP_ENDS or record.step is None:
            continue
        step = record.step
        problem = _opened(topology, snapshot, step) or _entered(topology, snapshot, record, step)
        if problem:
            yield _found(step, problem)
            return
        delta = advance(topology, snapshot, end_of(record))
        snapshot = Snapshot(
            st={**snapshot.st, **delta.st}, ep={**snapshot.ep, **delta.ep}, cl={**snapshot.cl, **delta.cl}, sq=delta.sq
        )
    ending = final(snapshot)
    if ending is not None:
        problem = "its end is the Delivery's, so nothing would be left to do"
        yield (Finding(place=f"step {snapshot.step(ending)}", problem=problem, fix=BEFORE),)
    if inside is not None:
        problem = _opened(topology, snapshot, inside)
        if not problem and judge(topology, snapshot, inside.site) is not Readiness.READY:
            problem = "this workflow would not run it now"
        if problem:
            yield _found(inside, problem)


def _opened(topology: Topology, snapshot: Snapshot, step: StepRef) -> str:
    """Why ``step`` cannot be at its visit."""
    if step.site not in topology.sites:
        return "this workflow has no such step"
    if step.visit > snapshot.visit(step.site):
        return f"this workflow has not gone back to it: it is at visit {snapshot.visit(step.site)}"
    if step.visit < snapshot.visit(step.site) or snapshot.settled(step.site):
        return "this workflow has gone back over it"
    return ""


def _entered(topology: Topology, snapshot: Snapshot, record: Record, step: StepRef) -> str:
    """Why it could not have ended now as it did. A step that a loop went over while it ran ends all the same."""
    now = judge(topology, snapshot, step.site)
    if isinstance(record.event, StepSuperseded) or now is Readiness.HELD:
        return ""
    if now is Readiness.WAITING:
        open_ = [str(e.source) for e in topology.sites[step.site].edges if not snapshot.settled(e.source)]
        return f"it had ended there before {', '.join(open_)}, which it follows in this workflow"
    if isinstance(record.event, StepSkipped):
        skipped = now in SKIPS or record.event.reason == "when"
        return "" if skipped else "it was skipped there and runs in this workflow"
    return "it ran there and is skipped in this workflow" if now in SKIPS else ""


def _found(step: StepRef, problem: str) -> tuple[Finding, ...]:
    return (Finding(place=f"step {step}", problem=problem, fix=EARLIER),)
