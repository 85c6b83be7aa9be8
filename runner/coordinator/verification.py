"""``verify``: everything that is recorded of a Delivery looked at again, from the first record on. Changes nothing.

Beside a live driver it looks at the records up to the moment it began. Not covered: somebody who rewrote the whole ledger
with a chain of its own; the chain has no key.
"""

from collections.abc import Callable, Iterator

from runner.contract.activation import Activation
from runner.contract.canonical import canonical
from runner.contract.errors import Code, IntegrityError, RunnerError
from runner.contract.events import DeliveryAccepted, SavepointTaken, StepCompleted
from runner.contract.ids import StepRef
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Check, StepState, Verification
from runner.contract.plan import Plan
from runner.contract.records import Record
from runner.coordinator import tombstone
from runner.coordinator.ancestry import origin_holds
from runner.coordinator.journal import terminal_facts
from runner.coordinator.machine import CUES, Cue, Phase, after
from runner.coordinator.origin import values_in
from runner.coordinator.settlement import authorization_of, settlement_of
from runner.ledger import FileArtifacts, SqliteReader, open_reader
from runner.ledger.rules import UNSEEN, StepLife, live
from runner.ledger.steps import shown_after

Interpret = Callable[[bytes], tuple[Activation, Plan]]
Probe = Callable[[Activation, DeliveryLayout, tuple[Record, ...]], tuple[Check, ...]]
"""What another room looks at in what it keeps itself."""


def verify(layout: DeliveryLayout, interpret: Interpret, probes: tuple[Probe, ...]) -> Verification:
    """Looks at everything, in a fixed order; a broken chain ends it. ``CallerError`` (``delivery-unknown``)."""
    try:
        stone = tombstone.read(layout)
        if stone is not None:
            return tombstone.verification(layout, stone)
        reader = open_reader(layout)
    except IntegrityError as error:
        return Verification(delivery=layout.root.name, checks=(Check(name="ledger", ok=False, detail=error.message),))
    with reader:
        return Verification(delivery=layout.root.name, checks=tuple(_checks(layout, reader, interpret, probes)))


def _checks(
    layout: DeliveryLayout, reader: SqliteReader, interpret: Interpret, probes: tuple[Probe, ...]
) -> Iterator[Check]:
    try:
        records = tuple(reader.read())
    except IntegrityError as error:
        yield Check(name="chain", ok=False, detail=error.message)
        return
    yield Check(name="chain", ok=True, detail=f"{len(records)} records, each fits the one before")
    yield _look("order", lambda: _order(records, reader))
    artifacts = FileArtifacts(layout.artifacts)
    yield _look("artifacts", lambda: _artifacts(records, artifacts))
    accepted = records[0].event if records else None
    if not isinstance(accepted, DeliveryAccepted):
        yield Check(name="plan", ok=not records, detail="it was not accepted yet")
        return
    try:
        activation, plan = interpret(canonical(artifacts.get(accepted.document)))
    except RunnerError as error:
        yield Check(name="plan", ok=False, detail=error.message)
        return
    yield _look("plan", lambda: _plan(accepted, plan))
    origin, root = activation.origin, layout.root.parent.parent
    if origin is not None:
        yield _look("origin", lambda: origin_holds(origin, plan.delivery, records, artifacts.get, root))
    yield _look("settlement", lambda: _settlement(plan, reader))
    for probe in probes:
        yield from probe(activation, layout, records)


def _look(name: str, look: Callable[[], str]) -> Check:
    """What ``look`` says it looked at, or why that does not hold."""
    try:
        return Check(name=name, ok=True, detail=look())
    except IntegrityError as error:
        return Check(name=name, ok=False, detail=error.message)


def _broken(problem: str) -> IntegrityError:
    return IntegrityError(Code.LEDGER_ORDER, problem)


def _order(records: tuple[Record, ...], reader: SqliteReader) -> str:
    """Phases, lives of steps, generations, savepoints; and that the ledger's own list of steps says the same."""
    phase, lives, savepoints = Phase.ACCEPTING, dict[StepRef, StepLife](), set[str]()
    shown: dict[StepRef, StepState] = {}
    generation = records[0].generation if records else 0
    for record in records:
        if record.generation < generation:
            raise _broken(f"record {record.seq} is of generation {record.generation}, after {generation}")
        if record.generation > generation:
            phase = after(after(phase, Cue.LEFT), Cue.TAKEN_UP)
        generation = record.generation
        phase = after(phase, CUES[record.event.KIND])
        if record.step is not None:
            lives[record.step] = live(lives.get(record.step, UNSEEN), record)
            shown[record.step] = shown_after(shown.get(record.step), record)
        match record.event:
            case SavepointTaken(savepoint=savepoint):
                savepoints.add(savepoint)
            case StepCompleted(savepoint=savepoint) if savepoint not in savepoints:
                raise _broken(f"record {record.seq} names savepoint {savepoint}, which was not taken before")
            case _:
                pass
    opened = {step for step, life in lives.items() if life.end is None}
    listed = set(reader.open_steps()) == opened and reader.steps() == tuple(shown.values())
    if not listed and reader.head() == len(records):
        raise _broken("the ledger's list of steps is not that of its records")
    return f"{len(lives)} steps, of which {len(opened)} are open; the Delivery is {phase}"


def _artifacts(records: tuple[Record, ...], artifacts: FileArtifacts) -> str:
    refs = {ref.digest: ref for record in records for ref in values_in(record.event)}
    for ref in refs.values():
        artifacts.get(ref)
    stored = sum(ref.stored for ref in refs.values())
    return f"{len(refs)} values have their digests, {stored} of them files"


def _plan(accepted: DeliveryAccepted, plan: Plan) -> str:
    if plan.activation != accepted.activation:
        raise _broken(f"the kept activation is {plan.activation}, accepted was {accepted.activation}")
    if plan.digest != accepted.plan:
        raise _broken(
            f"this Runner makes plan {plan.digest} of it, Runner {accepted.runner_version} made {accepted.plan}"
        )
    return f"plan {plan.digest} follows from the activation that was accepted"


def _settlement(plan: Plan, reader: SqliteReader) -> str:
    facts = terminal_facts(reader)
    if facts.authorization is not None and facts.authorization != authorization_of(plan, facts):
        raise _broken("the authorization is not the one for what was proposed, preserved and published")
    if facts.settlement is None:
        return "not settled yet"
    if facts.settlement != settlement_of(plan, facts):
        raise _broken("the settlement does not follow from proposal, result, publication and retirements")
    return f"{facts.settlement.outcome} ({facts.settlement.reason}) follows from what is recorded"
