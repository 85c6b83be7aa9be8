"""What ``inspect`` must say of a Delivery whose driver has just died, told from its records alone."""

from runner import RunnerFactory
from runner.contract.errors import CallerError, RunnerError
from runner.contract.events import (
    DeliveryAccepted,
    DeliverySettled,
    InterventionNeeded,
    TerminalProposed,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
)
from tests.crash.arena import DELIVERY, Arena

UNKNOWN = "unknown"


def phase_shown(arena: Arena) -> str:
    """``unknown`` only for what left nothing at all behind; an error in words."""
    try:
        return RunnerFactory(arena.world.config()).open_records().inspect(DELIVERY).phase
    except CallerError as error:
        return UNKNOWN if str(error.code) == "delivery-unknown" else f"error {error.code}"
    except RunnerError as error:
        return f"error {error.code}: {error.message}"


def expected_phase(arena: Arena) -> set[str]:
    """By the newest fact that decides it. Who was asked something, or should be, needs a person."""
    if not arena.layout.root.is_dir():
        return {UNKNOWN}
    if not arena.layout.ledger.exists():
        return {"accepting"}
    kinds, asked = set(), dict[str, bool]()
    for record in arena.world.records():
        kinds.add(record.event.KIND)
        match record.event:
            case ToolCalled(call=call, effect="external"):
                asked[call] = True
            case ToolSucceeded(call=call) | ToolFailed(call=call):
                asked.pop(call, None)
    if DeliverySettled.KIND in kinds:
        return {"settled"}
    if TerminalProposed.KIND in kinds:
        return {"settling"}
    if asked or InterventionNeeded.KIND in kinds:
        return {"needs-intervention"}
    return {"suspended"} if DeliveryAccepted.KIND in kinds else {"accepting"}
