"""What ``inspect`` and ``cancel`` do."""

import asyncio
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli import config_lookup, render, state_view
from runner.cli.activation_file import kept_file, where_of
from runner.cli.exit_codes import Exit
from runner.cli.program import command, program
from runner.cli.terminal import columns, write_json, write_lines
from runner.contract.errors import RunnerError
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.outcomes import CancelAck, DeliveryState

if TYPE_CHECKING:
    from runner.factory import Records, RunnerFactory


def _records(lookup: config_lookup.Lookup) -> "Records":
    from runner.factory import RunnerFactory

    return RunnerFactory(config_lookup.load(lookup)).open_records()


def show_all(lookup: config_lookup.Lookup, *, as_json: bool) -> None:
    """Every Delivery under the state root, the newest last. One that cannot be read is listed with its error."""
    records = _records(lookup)
    states: list[DeliveryState] = []
    errors: list[tuple[str, RunnerError]] = []
    for delivery in records.deliveries():
        try:
            states.append(records.inspect(delivery))
        except RunnerError as error:
            errors.append((delivery, error))
    states.sort(key=lambda state: (state.accepted_at, state.delivery))
    if as_json:
        broken = [{"delivery": delivery, "error": str(error.code)} for delivery, error in errors]
        write_json({"deliveries": [*(state_view.list_document(state) for state in states), *broken]})
    elif states or errors:
        unreadable = [(delivery, f"error[{error.code}]: {error.message}") for delivery, error in errors]
        write_lines(state_view.list_lines([*states, *unreadable]))
    else:
        write_lines([f"no Deliveries yet; this starts one: {command('run', 'PACKAGE')}"])


def show_state(lookup: config_lookup.Lookup, text: str, named_config: Path | None, *, as_json: bool) -> None:
    """One Delivery now."""
    records = _records(lookup)
    state = records.inspect(delivery_id(text))
    if as_json:
        write_json(state_view.state_document(state))
        return
    where = _where(records, DeliveryId(state.delivery), named_config)
    write_lines(state_view.state_lines(state, where, dt.datetime.now(dt.UTC), columns()))


def _where(records: "Records", delivery: DeliveryId, named_config: Path | None) -> render.Where:
    """What can be said of its places. A file that ``admit`` wrote elsewhere is not known here."""
    kept = kept_file(records.state_root, delivery)
    file = kept if kept.exists() else Path("ACTIVATION")
    document = records.activation(delivery)
    if document is not None:
        return where_of(document, file, named_config)
    return render.Where(
        delivery=delivery,
        worktree="",
        base_commit="",
        activation_file=file,
        config=named_config,
        program=program(),
        here=Path.cwd(),
    )


def show_events(lookup: config_lookup.Lookup, text: str, *, as_json: bool) -> None:
    """Its ledger, in order."""
    delivery = delivery_id(text)
    records = _records(lookup).events(delivery)
    if as_json:
        write_json({"delivery": delivery, "events": [state_view.record_document(record) for record in records]})
        return
    for record in records:
        write_lines([state_view.record_line(record)])


def cancel_delivery(lookup: config_lookup.Lookup, text: str, *, as_json: bool) -> int:
    """Asks, or settles when nobody drives it. Exit 0 unless it was too late."""
    from runner.factory import RunnerFactory

    ack = asyncio.run(_cancel(RunnerFactory(config_lookup.load_to_act(lookup)), delivery_id(text)))
    if as_json:
        write_json(state_view.cancel_document(ack))
    else:
        write_lines(state_view.cancel_lines(ack))
    return int(Exit.NOT_DONE if ack.disposition == "too-late" else Exit.OK)


async def _cancel(factory: "RunnerFactory", delivery: DeliveryId) -> CancelAck:
    async with factory.open() as runner:
        return await runner.cancel(delivery)
