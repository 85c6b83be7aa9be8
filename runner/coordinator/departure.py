"""From words to an origin: which savepoint somebody means, and from where a Delivery that ended badly is tried again. Pure,
over the source's records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from runner.contract import events
from runner.contract.activation import Origin
from runner.contract.errors import CallerError, Code
from runner.contract.events import STEP_ENDS, SavepointTaken, StepAttemptStarted, StepCompleted, StepFailed
from runner.contract.ids import DeliveryId, Digest, StepRef
from runner.contract.outcomes import Departure, Outcome, Reason, SavepointState, Settlement
from runner.contract.plan import CANCELLED
from runner.contract.records import Record
from runner.coordinator.selection import result_behind, select

SHOWN_CHARS: Final = 10
"""Of a savepoint's id; longer where that would be ambiguous."""
NAMED_MAX: Final = 10
PREFIX_CHARS_MIN: Final = 4
BASELINE: Final = "baseline"
NEWEST: Final = "newest"

_CANCELS: Final = frozenset({Reason.CANCEL_REQUESTED, Reason.DELIVERY_TIMEOUT})
_RESULTS: Final = (events.ToolSucceeded, events.ToolFailed)
_NOTHING: Final = "sha256:" + "0" * 64


# --- savepoints ------------------------------------------------------------------------------------------------------


def savepoints_in(records: tuple[Record, ...]) -> tuple[SavepointState, ...]:
    """Every recorded savepoint, in order."""
    tools = {r.event.call: r.event.tool for r in records if isinstance(r.event, events.ToolCalled)}
    found = []
    for record in records:
        event = record.event
        if isinstance(event, SavepointTaken):
            result = result_behind(records, record) if event.role == "mid-step" else None
            call = result.event.call if result and isinstance(result.event, _RESULTS) else None
            found.append(_state(record, event, call, tools.get(call or "")))
    return tuple(found)


def _state(record: Record, event: SavepointTaken, call: str | None, tool: str | None) -> SavepointState:
    return SavepointState(
        savepoint=event.savepoint,
        tree=event.tree,
        seq=record.seq,
        at=record.at,
        role=event.role,
        step=record.step.key if record.step else None,
        call=call,
        tool=tool,
        changed=event.changed_count,
    )


def find(savepoints: tuple[SavepointState, ...], word: str) -> SavepointState:
    """The one that ``word`` names: ``baseline``, ``newest``, an id or the beginning of one, and ``ID@SEQUENCE`` where equal
    files were kept more than once. ``savepoint-unknown``."""
    prefix, at, sequence = word.partition("@")
    fits = [s for s in savepoints if len(prefix) >= PREFIX_CHARS_MIN and s.savepoint.startswith(prefix.lower())]
    fits = [s for s in fits if str(s.seq) == sequence] if at else fits
    if word == BASELINE:
        fits = [s for s in savepoints if s.role == "baseline"]
    elif word == NEWEST:
        fits = [s for s in savepoints if s.role != "foreign"][-1:]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise _unknown(f"{word[:80]!r} names no savepoint", "'runner savepoints' lists them")
    shown = ", ".join(f"{s.savepoint[:SHOWN_CHARS]}@{s.seq} ({place(s)})" for s in fits[:NAMED_MAX])
    raise _unknown(f"{word[:80]!r} names {len(fits)} savepoints", f"name one of them: {shown}")


def place(savepoint: SavepointState) -> str:
    """Where it was taken, in words."""
    if savepoint.role == "baseline":
        return "the beginning"
    if savepoint.role == "foreign":
        return "edits of somebody's"
    where = "" if savepoint.step is None else str(StepRef.parse(savepoint.step))
    if savepoint.role == "mid-step" and savepoint.call is not None:
        return f"{where} after {savepoint.tool or 'a tool'} ({savepoint.call})"
    return f"after {where}" if where else "between steps"


def _unknown(problem: str, remedy: str) -> CallerError:
    return CallerError(Code.SAVEPOINT_UNKNOWN, problem, remedy=remedy)


# --- where to start --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places in one Delivery that another can start from."""

    delivery: DeliveryId
    records: tuple[Record, ...]
    """All of its records."""
    digest_at: Callable[[int], Digest | None]
    """The chain digest of one of them."""
    settlement: Settlement | None

    def savepoint(self, word: str) -> Departure:
        """Where ``word`` says: a step (behind its last end), a visit of one, or what ``find`` takes. ``savepoint-unknown``;
        ``origin-invalid`` when its step is still open."""
        end = next((r for r in reversed(self._ends()) if r.step and word in (r.step.key, r.step.site)), None)
        if end is not None:
            return self._between(end.seq, None, f"after {end.step}") or self._no_savepoint(word)
        chosen = find(savepoints_in(self.records), word)
        record = self.records[chosen.seq - 1]
        if record.step is None:
            return self._departure(chosen.seq, chosen.savepoint, None, place(chosen))
        return self._in_step(chosen, record, record.step)

    def _in_step(self, chosen: SavepointState, record: Record, step: StepRef) -> Departure:
        behind = self.records[record.seq :]
        if chosen.role != "mid-step":
            last = next((r for r in behind if r.step == step and r.event.KIND in STEP_ENDS), None)
        else:
            last = result_behind(behind, record)
        if last is None:
            raise _refused(f"{step} of {self.delivery} is not that far yet", "name an earlier savepoint, or wait")
        if chosen.role != "mid-step":
            return self._departure(last.seq, chosen.savepoint, None, place(chosen))
        before = reversed(self.records[: record.seq])
        started = next(r for r in before if r.step == step and isinstance(r.event, StepAttemptStarted))
        nearest = self._between(started.seq, step, f"before {step}")
        inside = self._departure(last.seq, chosen.savepoint, step, place(chosen))
        return inside.model_copy(update={"nearest": nearest.origin if nearest else None})

    def failure(self) -> Departure:
        """Right before the end of the step that decided the Delivery's bad end; of a cancelled one where it was cut short.
        ``origin-invalid`` when there is no such step."""
        settlement = self.settlement
        if settlement is None:
            raise _refused(
                f"{self.delivery} is open: nothing has failed for good",
                f"'runner execute {self.delivery}' goes on with it; 'runner fork' starts another from it",
            )
        if settlement.outcome is Outcome.COMPLETED:
            raise _refused(f"{self.delivery} is completed: there is no step to try again", _ELSE)
        end = self._deciding(settlement)
        if end is None:
            raise _refused(
                f"{self.delivery} ended {settlement.outcome} ({settlement.reason}), and no step decided that", _ELSE
            )
        if settlement.step is None and isinstance(end.event, StepCompleted):
            return self._between(end.seq, None, f"after {end.step}") or self._no_savepoint(str(end.step))
        return self._between(end.seq - 1, end.step, f"before {end.step}") or self._no_savepoint(str(end.step))

    def _deciding(self, settlement: Settlement) -> Record | None:
        """The end of the step that decided; of a cancelled Delivery the first that was cut short, else the last that
        completed."""
        if settlement.step is not None:
            decided = StepRef.parse(settlement.step)
            return next((record for record in self._ends() if record.step == decided), None)
        cut = [r for r in self._ends() if isinstance(r.event, StepFailed) and r.event.outcome == CANCELLED]
        if cut:
            return cut[0]
        completed = [record for record in self._ends() if isinstance(record.event, StepCompleted)]
        return completed[-1] if completed and settlement.reason in _CANCELS else None

    def _ends(self) -> list[Record]:
        return [record for record in self.records if record.event.KIND in STEP_ENDS]

    def _between(self, seq: int, step: StepRef | None, what: str) -> Departure | None:
        """Between steps, as of record ``seq``; None before the first savepoint."""
        anywhere = Origin(delivery=self.delivery, position=seq, record=_NOTHING, savepoint="0" * 40)
        savepoint = select(self.records, anywhere).boundary
        return None if savepoint is None else self._departure(seq, savepoint, step, what)

    def _departure(self, seq: int, savepoint: str, step: StepRef | None, what: str) -> Departure:
        record = self.digest_at(seq)
        assert record is not None  # noqa: S101 - it was read a moment ago, and records stay
        origin = Origin(delivery=self.delivery, position=seq, record=record, savepoint=savepoint)
        return Departure(origin=origin, step=step.key if step else None, what=what)

    def _no_savepoint(self, word: str) -> Departure:
        raise _refused(f"{self.delivery} had no savepoint before {word}", "'runner run' does the work anew")


_ELSE: Final = "'runner run' does the work anew; 'runner fork' goes back to a savepoint that 'runner savepoints' lists"


def _refused(problem: str, remedy: str) -> CallerError:
    return CallerError(Code.ORIGIN_INVALID, problem, remedy=remedy)
