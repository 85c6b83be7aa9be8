"""What ``savepoints`` shows: a line per savepoint, in the order of their records."""

from pathlib import Path
from typing import Any, Final

from runner.cli import config_lookup
from runner.cli.activation_file import where_in
from runner.cli.state_view import when
from runner.cli.terminal import Line, columns, write_json, write_lines
from runner.cli.where import Where, command_lines, runner_command
from runner.contract.ids import StepRef, delivery_id
from runner.contract.outcomes import SavepointState
from runner.contract.text import visible

ID_CHARS_MIN: Final = 8


def show(lookup: config_lookup.Lookup, text: str, named_config: Path | None, *, as_json: bool) -> None:
    """``runner savepoints``."""
    from runner.factory import RunnerFactory

    records = RunnerFactory(config_lookup.load(lookup)).open_records()
    delivery = delivery_id(text)
    found = records.savepoints(delivery)
    names = shortest(found)
    if as_json:
        write_json({"delivery": delivery, "savepoints": [document(s, names[s.seq]) for s in found]})
        return
    where = where_in(records, delivery, named_config)
    write_lines(lines(found, names, where, columns()) if found else [f"Delivery {delivery} has no savepoint yet"])


def shortest(savepoints: tuple[SavepointState, ...]) -> dict[int, str]:
    """By sequence, what names each savepoint and no other: as much of its id as that takes, and the sequence where equal
    files were kept more than once."""
    ids = sorted({s.savepoint for s in savepoints})
    chars = next(
        (n for n in range(ID_CHARS_MIN, 64) if len({i[:n] for i in ids}) == len(ids)), max(map(len, ids), default=0)
    )
    times = [s.savepoint for s in savepoints]
    return {s.seq: s.savepoint[:chars] + (f"@{s.seq}" if times.count(s.savepoint) > 1 else "") for s in savepoints}


def document(savepoint: SavepointState, name: str) -> dict[str, Any]:
    return {"name": name, **savepoint.model_dump(mode="json")}


def lines(savepoints: tuple[SavepointState, ...], names: dict[int, str], where: Where, width: int | None) -> list[Line]:
    """Pure."""
    rows = [(names[s.seq], str(s.seq), when(s.at), step_of(s), s.role, _changes(s)) for s in savepoints]
    head = ("savepoint", "record", "when", "step", "role", "changed paths")
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        return "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()

    go_on = [
        ("start at one", runner_command(where, "fork", where.delivery, "SAVEPOINT")),
        ("see its files", runner_command(where, "restore", where.delivery, "SAVEPOINT", "--to", "DIR")),
    ]
    return [(line(head), "bold"), *(line(row) for row in rows), *command_lines(go_on, width)]


def step_of(savepoint: SavepointState) -> str:
    """The step, and for one in its middle the tool call."""
    step = "" if savepoint.step is None else str(StepRef.parse(savepoint.step))
    if savepoint.call is None:
        return step
    return f"{step}: {visible(savepoint.tool or '')} ({savepoint.call.rpartition('/')[2]})"


def _changes(savepoint: SavepointState) -> str:
    return str(savepoint.changed) if savepoint.changed else ""
