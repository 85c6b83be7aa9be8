"""A closer look at one step, and at what was left, from the real ledger."""

import pytest

from runner.contract.errors import CallerError, Code
from runner.contract.records import InboxItem
from runner.coordinator.one_step import left_items, step_records
from runner.ledger import post_inbox
from tests.coordinator.asking import ONE, layout
from tests.coordinator.fakes import House
from tests.coordinator.test_execute import settled


async def test_its_records(house: House) -> None:
    """By id or by visit: its own records in order, nobody else's; a slip hears which steps there are."""
    settled(await house.coordinator().execute(house.activation()))
    found = step_records(house.state, ONE, "tests")
    assert [record.event.KIND for record in found] == ["step.scheduled", "step.attempt_started", "step.completed"]
    assert step_records(house.state, ONE, "tests@1") == found
    for slip, remedy in (("tset", "tests"), ("tests@9", "tests"), ("zzz", "plan, tests")):
        with pytest.raises(CallerError, match=slip) as caught:
            step_records(house.state, ONE, slip)
        assert caught.value.code is Code.USAGE and remedy in caught.value.remedy


async def test_what_was_left(house: House) -> None:
    """What waits in the inbox, and nothing where there is no ledger."""
    assert left_items(house.state, ONE) == ()
    settled(await house.coordinator().execute(house.activation()))
    item = InboxItem(id="i", kind="answer", body="{}", who="me", at="2026-01-01T00:00:00.000000Z")
    post_inbox(layout(house), item)
    assert left_items(house.state, ONE) == (item,)
