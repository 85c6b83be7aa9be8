"""What ``cancel`` found, as lines for people and a document for scripts: nobody is said to settle what nobody drives. Pure."""

from typing import Any, assert_never

from runner.cli.attention import effect_documents, effect_lines
from runner.cli.render import settlement_head, settlement_lines
from runner.cli.state_view import resolutions
from runner.cli.terminal import Line
from runner.cli.where import Where, begin_command, command_lines, continue_command
from runner.contract.outcomes import CancelAck, DeliveryState


def must_be_said(state: DeliveryState, where: Where) -> list[tuple[str, str]]:
    """What keeps a Delivery that nobody drives from going on until a person says it, as (why, command)."""
    return resolutions(state, where) if state.driver is None and state.settlement is None else []


def cancel_lines(ack: CancelAck, state: DeliveryState, where: Where, columns: int | None) -> list[Line]:
    """``cancel DELIVERY``; ``state`` is how it stands afterwards."""
    settlement = ack.settlement
    end: list[Line] = (
        [] if settlement is None else [settlement_head(settlement), *settlement_lines(settlement, where.remote)]
    )
    match ack.disposition:
        case "requested":
            return _requested(state, where, columns)
        case "settled":
            return end
        case "too-late":
            return [(f"Delivery {ack.delivery}: too late to cancel, its end was decided before", "yellow"), *end]
        case _:
            assert_never(ack.disposition)


def _requested(state: DeliveryState, where: Where, columns: int | None) -> list[Line]:
    """The wish is recorded: who settles it, or what that waits for."""
    recorded = f"Delivery {state.delivery}: the cancel is recorded"
    if state.settlement is not None:
        return [settlement_head(state.settlement), *settlement_lines(state.settlement, where.remote)]
    if state.driver is not None:
        return [f"{recorded}; the process that drives it settles it ({state.driver})"]
    next_ = command_lines(_until_cancelled(state, where), columns)
    if must_be_said(state, where):
        head: Line = (f"{recorded}, and waits until somebody says what happened", "yellow")
        return [head, *effect_lines(state.uncertain), *next_]
    return [(f"{recorded}; nobody drives it, and the next execute settles it", "yellow"), *next_]


def _until_cancelled(state: DeliveryState, where: Where) -> list[tuple[str, str]]:
    """What lets a recorded cancel settle, as (why, command)."""
    if state.driver is not None or state.settlement is not None:
        return []
    said = must_be_said(state, where)
    go_on = continue_command(where) if state.accepted_at else begin_command(where)
    return [*said, ("then settle it" if said else "settle it", go_on[1])]


def cancel_document(ack: CancelAck, state: DeliveryState, where: Where) -> dict[str, Any]:
    settlement = ack.settlement.model_dump(mode="json") if ack.settlement else None
    return {
        "delivery": ack.delivery,
        "disposition": ack.disposition,
        "driver": state.driver,
        "settlement": settlement,
        "effects": effect_documents(state.uncertain),
        "next": [words for _, words in _until_cancelled(state, where)] if ack.disposition == "requested" else [],
    }
