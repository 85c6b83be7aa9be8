"""What ``inspect`` and ``cancel`` do."""

import asyncio
from typing import TYPE_CHECKING, Any

from runner.cli import config_lookup, render
from runner.cli.exit_codes import Exit
from runner.cli.program import command
from runner.cli.terminal import Line, write_json, write_lines
from runner.contract.errors import RunnerError
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.outcomes import CancelAck

if TYPE_CHECKING:
    from runner.factory import Records, RunnerFactory


def _records(lookup: config_lookup.Lookup) -> "Records":
    from runner.factory import RunnerFactory

    return RunnerFactory(config_lookup.load(lookup)).open_records()


def show_all(lookup: config_lookup.Lookup, *, as_json: bool) -> None:
    """Every Delivery under the state root. One that cannot be read is listed with its error."""
    records = _records(lookup)
    documents: list[dict[str, Any]] = []
    lines: list[Line] = []
    for delivery in records.deliveries():
        try:
            state = records.inspect(delivery)
        except RunnerError as error:
            documents.append({"delivery": delivery, "error": str(error.code)})
            lines.append((f"{delivery:<40} error[{error.code}]: {error.message}", "red"))
            continue
        end = f"{state.outcome} ({state.reason})" if state.outcome else "open"
        documents.append({"delivery": delivery, "phase": state.phase, "outcome": state.outcome, "driver": state.driver})
        lines.append(f"{delivery:<40} {state.phase:<14} {end:<32} {state.driver or ''}".rstrip())
    if as_json:
        write_json({"deliveries": documents})
    else:
        write_lines(lines or [f"no Deliveries yet; this starts one: {command('run', 'PACKAGE')}"])


def show_state(lookup: config_lookup.Lookup, text: str, *, as_json: bool) -> None:
    """One Delivery now."""
    state = _records(lookup).inspect(delivery_id(text))
    if as_json:
        write_json(render.state_document(state))
    else:
        write_lines(render.state_lines(state))


def show_events(lookup: config_lookup.Lookup, text: str, *, as_json: bool) -> None:
    """Its ledger, in order."""
    delivery = delivery_id(text)
    records = _records(lookup).events(delivery)
    if as_json:
        write_json({"delivery": delivery, "events": [render.record_document(record) for record in records]})
        return
    for record in records:
        write_lines([render.record_line(record)])


def cancel_delivery(lookup: config_lookup.Lookup, text: str, *, as_json: bool) -> int:
    """Asks, or settles when nobody drives it. Exit 0 unless it was too late."""
    from runner.factory import RunnerFactory

    ack = asyncio.run(_cancel(RunnerFactory(config_lookup.load_to_act(lookup)), delivery_id(text)))
    if as_json:
        write_json(render.cancel_document(ack))
    else:
        write_lines(render.cancel_lines(ack))
    return int(Exit.NOT_DONE if ack.disposition == "too-late" else Exit.OK)


async def _cancel(factory: "RunnerFactory", delivery: DeliveryId) -> CancelAck:
    async with factory.open() as runner:
        return await runner.cancel(delivery)
