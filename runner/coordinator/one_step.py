"""A closer look: the records of one step, the values that they name, and what was left and is not taken yet.

Read beside a driver; costs what is shown, not the history.
"""

import difflib
from pathlib import Path

from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code
from runner.contract.events import ValueRef
from runner.contract.ids import StepRef, delivery_id
from runner.contract.layout import delivery_layout
from runner.contract.records import InboxItem, Record
from runner.contract.text import excerpt
from runner.ledger import FileArtifacts, SqliteReader, has_ledger, open_reader

NAMED_MAX = 20


def step_records(state_root: Path, delivery: str, word: str) -> tuple[Record, ...]:
    """All of them, in order. ``word`` is the id of a step, which means its newest visit, or ``ID@VISIT``. ``CallerError``:
    ``delivery-id-invalid``, ``delivery-unknown``, and ``usage`` with the steps there are when it is none of them."""
    with open_reader(delivery_layout(state_root, delivery_id(delivery))) as reader:
        return tuple(reader.read(step=_found(reader, word)))


def stored_value(state_root: Path, delivery: str, ref: ValueRef) -> FrozenJson:
    """The value that a record names. ``IntegrityError`` (``artifact-corrupt``) when it was lost or altered."""
    return FileArtifacts(delivery_layout(state_root, delivery_id(delivery)).artifacts).get(ref)


def left_items(state_root: Path, delivery: str) -> tuple[InboxItem, ...]:
    """What was left for the driver and not taken yet, in order of arrival."""
    layout = delivery_layout(state_root, delivery_id(delivery))
    if not has_ledger(layout):
        return ()
    with open_reader(layout) as reader:
        return reader.inbox()


def _found(reader: SqliteReader, word: str) -> StepRef:
    steps = [StepRef.parse(shown.step) for shown in reader.steps()]
    named = [step for step in steps if step.key == word]
    visits = sorted((step for step in steps if step.site == word), key=lambda step: step.visit)
    if named or visits:
        return (named or visits)[-1]
    known = list(dict.fromkeys(str(step.site) for step in steps))
    near = difflib.get_close_matches(word.partition("@")[0], known, n=3)
    names = ", ".join(known[:NAMED_MAX]) + (" ..." if len(known) > NAMED_MAX else "")
    raise CallerError(
        Code.USAGE,
        f"no step {excerpt(word, 100)!r} has begun or ended here",
        remedy=f"did you mean {' or '.join(near)}?"
        if near
        else f"there are: {names}"
        if names
        else "none has begun yet",
    )
