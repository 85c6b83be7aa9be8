"""What ``inspect`` and ``verify`` do: look, and change nothing."""

import datetime as dt
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runner.cli import config_lookup, state_view, step_view
from runner.cli.activation_file import where_in
from runner.cli.exit_codes import of_verification
from runner.cli.program import command
from runner.cli.terminal import columns, write_json, write_lines
from runner.contract.errors import RunnerError
from runner.contract.events import DeliverySettled
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.outcomes import DeliveryState
from runner.contract.records import Record

if TYPE_CHECKING:
    from runner.records import Records

FOLLOW_S: Final = 0.3
"""How often a followed ledger is looked at."""


def open_records(lookup: config_lookup.Lookup) -> "Records":
    """A reader of what exists under the state root."""
    from runner.factory import RunnerFactory

    return RunnerFactory(config_lookup.load(lookup)).open_records()


def show_all(lookup: config_lookup.Lookup, *, as_json: bool) -> None:
    """Every Delivery under the state root, the newest last. One that cannot be read is listed with its error."""
    records = open_records(lookup)
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
    records = open_records(lookup)
    state = records.inspect(delivery_id(text))
    where = where_in(records, DeliveryId(state.delivery), named_config)
    ended = state.settlement is not None and state.settlement.output is not None
    output = records.output(DeliveryId(state.delivery)) if ended else None
    left = records.left(DeliveryId(state.delivery))
    if as_json:
        said = [{"kind": item.kind, "who": item.who, "at": item.at, "body": item.body} for item in left]
        write_json({**state_view.state_document(state, where, output), "left": said})
    else:
        lines = state_view.state_lines(state, where, dt.datetime.now(dt.UTC), columns(), output)
        write_lines([*lines, *step_view.left_lines(left)])


def show_step(lookup: config_lookup.Lookup, text: str, word: str, *, as_json: bool) -> None:
    """What one step did."""
    records, delivery = open_records(lookup), delivery_id(text)
    found = records.step(delivery, word)
    value = partial(records.value, delivery)
    if as_json:
        write_json({"delivery": delivery, **step_view.step_document(found, value)})
    else:
        write_lines(step_view.step_lines(found, value))


def show_events(lookup: config_lookup.Lookup, text: str, *, follow: bool, as_json: bool) -> None:
    """Its ledger, in order; with ``follow`` on to its settlement, and for scripts one record a line."""
    delivery, records = delivery_id(text), open_records(lookup)
    if follow:
        _follow(records, delivery, as_json=as_json)
        return
    events = records.events(delivery)
    if as_json:
        write_json({"delivery": delivery, "events": [state_view.record_document(record) for record in events]})
        return
    for record in events:
        write_lines([state_view.record_line(record)])


def _follow(records: "Records", delivery: DeliveryId, *, as_json: bool) -> None:
    last = 0
    while True:
        for record in records.events(delivery, after=last):
            _show_record(record, as_json=as_json)
            last = record.seq
            if isinstance(record.event, DeliverySettled):
                return
        time.sleep(FOLLOW_S)


def _show_record(record: Record, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(state_view.record_document(record), ensure_ascii=True) + "\n")
        sys.stdout.flush()
    else:
        write_lines([state_view.record_line(record)])


def verify(lookup: config_lookup.Lookup, text: str, *, as_json: bool) -> int:
    """Looks at everything that is recorded again. Exit 0 when all of it holds, else 4."""
    found = open_records(lookup).verify(delivery_id(text))
    if as_json:
        write_json(state_view.verification_document(found))
    else:
        write_lines(state_view.verification_lines(found))
    return int(of_verification(found))
