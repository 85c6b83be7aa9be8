"""What any process may leave for a Delivery's driver: a cancel, an answer, a resolution. Refused at once if it fits nothing.

Left durably under an id that says what it is for, so that the same thing left twice counts once. Whoever drives takes it
within ``limits.INBOX_POLL_S``; when nobody does, it counts from the next ``execute`` on.
"""

import os
import socket
from dataclasses import replace
from typing import Final

from runner.contract import events
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Clock
from runner.contract.records import InboxItem
from runner.contract.text import excerpt
from runner.coordinator import wishes
from runner.coordinator.fence import live_driver
from runner.coordinator.journal import accepted_in, phase_of, remaining_in
from runner.coordinator.machine import Phase
from runner.coordinator.recovery import Remaining
from runner.ledger import SqliteReader, open_reader, post_inbox
from runner.ledger.codec import timestamp

SHOWN_CHARS_MAX: Final = 200
OF_WAITS: Final = frozenset(
    kind.KIND
    for kind in (
        events.WaitOpened,
        events.WaitAnswered,
        events.WaitExpired,
        events.InteractionRequested,
        events.InteractionAnswered,
    )
)


def leave_cancel(layout: DeliveryLayout, clock: Clock) -> None:
    """The wish to cancel. ``CallerError`` (``delivery-unknown``) without a ledger."""
    post_inbox(layout, _item(wishes.CANCEL, wishes.CANCEL, "", "", clock))


def leave_answer(layout: DeliveryLayout, *, wait: str | None, value: FrozenJson, who: str, clock: Clock) -> OpenWait:
    """An answer to ``wait``, or to the only open one; which one that was. ``CallerError``: ``wait-unknown``,
    ``answer-invalid``, ``delivery-unknown``."""
    with open_reader(layout) as reader:
        left = _open(reader)
        if wait is not None and all(waiting.wait.wait != wait for waiting in left.waits):
            _refuse_closed(reader, wait)
        reply = wishes.reply(left, wait, value, clock.now())
        asked = reply.waiting.wait
        # Opened again, it may be answered again.
        _leave(reader, layout, _item(wishes.ANSWER, f"answer {asked.wait} {asked.since}", reply.body, who, clock))
    return asked


def leave_resolution(
    layout: DeliveryLayout, *, call: str, said: str, value: FrozenJson, who: str, clock: Clock
) -> None:
    """What somebody says of the uncertain ``call``, or of an edited worktree (``call`` empty). ``CallerError``:
    ``call-unknown``, ``answer-invalid``, ``delivery-unknown``."""
    with open_reader(layout) as reader:
        driver = live_driver(layout)
        left = _open(reader)
        if driver is not None and phase_of(reader) is not Phase.NEEDS_INTERVENTION:
            # What a live driver began is in flight.
            left = replace(left, effects=())
        resolution = wishes.resolution(left, call, said, value)
        about = f"resolution {call} {resolution.effect.seq}" if resolution.effect else str(left.foreign)
        _leave(reader, layout, _item(wishes.RESOLUTION, about, resolution.body, who, clock))


def _open(reader: SqliteReader) -> Remaining:
    """What is open; nothing is, once the terminal is recorded."""
    left = remaining_in(reader)
    return Remaining() if left.closing or accepted_in(reader) is None else left


def _leave(reader: SqliteReader, layout: DeliveryLayout, item: InboxItem) -> None:
    if post_inbox(layout, item):
        return
    before = next((other for other in reader.inbox() if other.id == item.id), None)
    if before is not None and before.body != item.body:
        raise CallerError(
            Code.ANSWER_INVALID,
            f"something else was said before, at {before.at} by {_shown(before.who)}: {_shown(before.body)}",
            remedy="it counts as soon as the Delivery is executed",
        )


def _shown(text: str) -> str:
    return excerpt(text, SHOWN_CHARS_MAX)


def _refuse_closed(reader: SqliteReader, wait: str) -> None:
    """``CallerError`` that says what became of ``wait``, if it ever was."""
    of_wait = [r for r in reader.read(kinds=OF_WAITS) if getattr(r.event, "wait", None) == wait]
    if not of_wait:
        return
    last = of_wait[-1]
    match last.event:
        case events.WaitAnswered(who=who) | events.InteractionAnswered(who=who):
            what = f"was answered at {last.at} by {who}"
        case events.WaitExpired():
            what = f"expired at {last.at}"
        case _:
            what = "is not open any more: its step has ended"
    raise CallerError(Code.WAIT_UNKNOWN, f"wait {wait} {what}", remedy="see what inspect says is open")


def _item(kind: str, name: str, body: str, who: str, clock: Clock) -> InboxItem:
    return InboxItem(
        id=name,
        kind=kind,
        body=body,
        who=who or f"user {os.getuid()}, process {os.getpid()} on {socket.gethostname()}",
        at=timestamp(clock.now()),
    )
