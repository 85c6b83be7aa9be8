"""The phases of a Delivery as one literal table. Pure; every transition there is stands here.

A *cue* is what moves a Delivery: a recorded fact (``CUES`` names the cue of each kind) or a driver that came or left.
"""

from enum import StrEnum
from typing import Final

from runner.contract import events
from runner.contract.errors import Code, IntegrityError


class Phase(StrEnum):
    ACCEPTING = "accepting"
    """Nothing is recorded yet."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """Open, and no process drives it."""
    NEEDS_INTERVENTION = "needs-intervention"
    SETTLING = "settling"
    """The terminal is decided; preserving, publishing and retiring."""
    SETTLED = "settled"


class Cue(StrEnum):
    ACCEPTED = "accepted"
    WORKED = "worked"
    """A fact of a step or a session: the graph moves."""
    KEPT = "kept"
    """A savepoint, or a session's end: also part of closing down."""
    NOTED = "noted"
    """A wish or an answer was written down; by itself it moves nothing."""
    SUSPENDED = "suspended"
    """A driver said why it stops with the Delivery open."""
    ASKED = "asked"
    """A person must say something."""
    RESOLVED = "resolved"
    """A person said it."""
    PROPOSED = "proposed"
    CLOSED = "closed"
    """One more fact of the terminal order."""
    SETTLED = "settled"
    LEFT = "left"
    """The driver is gone."""
    TAKEN_UP = "taken-up"
    """A driver came."""


CUES: Final[dict[str, Cue]] = {
    events.DeliveryAccepted.KIND: Cue.ACCEPTED,
    events.DeliveryForked.KIND: Cue.WORKED,
    events.DeliverySuspended.KIND: Cue.SUSPENDED,
    events.StepScheduled.KIND: Cue.WORKED,
    events.StepAttemptStarted.KIND: Cue.WORKED,
    events.SessionStarted.KIND: Cue.WORKED,
    events.ModelCalled.KIND: Cue.WORKED,
    events.ModelResponded.KIND: Cue.WORKED,
    events.ToolCalled.KIND: Cue.WORKED,
    events.ToolSucceeded.KIND: Cue.WORKED,
    events.ToolFailed.KIND: Cue.WORKED,
    events.SessionCompleted.KIND: Cue.KEPT,
    events.SessionFailed.KIND: Cue.KEPT,
    events.ArtifactStored.KIND: Cue.WORKED,
    events.OutputValidated.KIND: Cue.WORKED,
    events.SavepointTaken.KIND: Cue.KEPT,
    events.StepCompleted.KIND: Cue.WORKED,
    events.StepFailed.KIND: Cue.WORKED,
    events.StepSkipped.KIND: Cue.WORKED,
    events.StepSuperseded.KIND: Cue.WORKED,
    events.DecisionTaken.KIND: Cue.WORKED,
    events.CancelRequested.KIND: Cue.NOTED,
    events.InterventionNeeded.KIND: Cue.ASKED,
    events.InterventionResolved.KIND: Cue.RESOLVED,
    events.WaitOpened.KIND: Cue.WORKED,
    events.WaitAnswered.KIND: Cue.NOTED,
    events.WaitExpired.KIND: Cue.WORKED,
    events.InteractionRequested.KIND: Cue.WORKED,
    events.InteractionAnswered.KIND: Cue.NOTED,
    events.ProcessStarted.KIND: Cue.WORKED,
    events.TerminalProposed.KIND: Cue.PROPOSED,
    events.ResultPreserved.KIND: Cue.CLOSED,
    events.PublicationAsked.KIND: Cue.CLOSED,
    events.PublicationKnown.KIND: Cue.CLOSED,
    events.RetirementAuthorized.KIND: Cue.CLOSED,
    events.OwnerRetired.KIND: Cue.CLOSED,
    events.DeliverySettled.KIND: Cue.SETTLED,
}

TRANSITIONS: Final[dict[tuple[Phase, Cue], Phase]] = {
    (Phase.ACCEPTING, Cue.ACCEPTED): Phase.RUNNING,
    (Phase.ACCEPTING, Cue.LEFT): Phase.ACCEPTING,
    (Phase.ACCEPTING, Cue.TAKEN_UP): Phase.ACCEPTING,
    (Phase.RUNNING, Cue.WORKED): Phase.RUNNING,
    (Phase.RUNNING, Cue.KEPT): Phase.RUNNING,
    (Phase.RUNNING, Cue.NOTED): Phase.RUNNING,
    (Phase.RUNNING, Cue.SUSPENDED): Phase.SUSPENDED,
    (Phase.RUNNING, Cue.ASKED): Phase.NEEDS_INTERVENTION,
    (Phase.RUNNING, Cue.RESOLVED): Phase.RUNNING,
    (Phase.RUNNING, Cue.PROPOSED): Phase.SETTLING,
    (Phase.RUNNING, Cue.LEFT): Phase.SUSPENDED,
    (Phase.SUSPENDED, Cue.LEFT): Phase.SUSPENDED,
    (Phase.SUSPENDED, Cue.TAKEN_UP): Phase.RUNNING,
    (Phase.SUSPENDED, Cue.ASKED): Phase.NEEDS_INTERVENTION,
    (Phase.NEEDS_INTERVENTION, Cue.WORKED): Phase.RUNNING,
    (Phase.NEEDS_INTERVENTION, Cue.KEPT): Phase.NEEDS_INTERVENTION,
    (Phase.NEEDS_INTERVENTION, Cue.NOTED): Phase.NEEDS_INTERVENTION,
    (Phase.NEEDS_INTERVENTION, Cue.SUSPENDED): Phase.SUSPENDED,
    (Phase.NEEDS_INTERVENTION, Cue.ASKED): Phase.NEEDS_INTERVENTION,
    (Phase.NEEDS_INTERVENTION, Cue.RESOLVED): Phase.RUNNING,
    (Phase.NEEDS_INTERVENTION, Cue.PROPOSED): Phase.SETTLING,
    (Phase.NEEDS_INTERVENTION, Cue.LEFT): Phase.NEEDS_INTERVENTION,
    (Phase.NEEDS_INTERVENTION, Cue.TAKEN_UP): Phase.NEEDS_INTERVENTION,
    (Phase.SETTLING, Cue.KEPT): Phase.SETTLING,
    (Phase.SETTLING, Cue.CLOSED): Phase.SETTLING,
    (Phase.SETTLING, Cue.SETTLED): Phase.SETTLED,
    (Phase.SETTLING, Cue.LEFT): Phase.SETTLING,
    (Phase.SETTLING, Cue.TAKEN_UP): Phase.SETTLING,
    (Phase.SETTLED, Cue.LEFT): Phase.SETTLED,
}


def after(phase: Phase, cue: Cue) -> Phase:
    """The phase that ``cue`` leads to. ``IntegrityError`` (``illegal-transition``) for a pair that is not in the table;
    the caller's phase is then still what it was."""
    target = TRANSITIONS.get((phase, cue))
    if target is None:
        raise IntegrityError(
            Code.ILLEGAL_TRANSITION,
            f"a Delivery that is {phase} cannot be {cue}",
            remedy="its ledger was not written by this Runner, or the Runner has a defect: report it with this message",
        )
    return target
