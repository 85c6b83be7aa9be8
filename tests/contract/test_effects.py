"""Effect keys and call ids: their exact form is stored in ledgers and handed to other systems."""

import dataclasses
from typing import Any

import pytest

from runner.contract.effects import effect_key, model_call_id, process_effect, tool_call_id
from runner.contract.ids import DeliveryId, SiteId, StepRef

STEP = StepRef(site=SiteId("deploy"), visit=2, item=(0, 3))
CALL: dict[str, Any] = {
    "delivery": DeliveryId("fix-tests"),
    "step": STEP,
    "tool": "http.post",
    "value": {"url": "x", "body": [1, 2.5, None]},
    "occurrence": 0,
}


def test_the_key_of_a_known_call() -> None:
    """A literal: if it changes, an idempotency key given to another system before an upgrade no longer fits after it."""
    assert effect_key(**CALL) == "sha256:390e16dda7fae94ebe97b800402281c92baac1118df19b9fa8cfc8a8c31c8a7a"


@pytest.mark.parametrize(
    "change",
    [
        {"delivery": DeliveryId("other")},
        {"step": dataclasses.replace(STEP, visit=3)},
        {"step": dataclasses.replace(STEP, item=(0, 4))},
        {"step": dataclasses.replace(STEP, site=SiteId("deploy2"))},
        {"tool": "http.put"},
        {"value": {"url": "x", "body": [1, 2.5]}},
        {"occurrence": 1},
    ],
)
def test_every_part_of_an_effect_is_in_its_key(change: dict[str, Any]) -> None:
    """Another visit, item, tool, input or repetition is another effect."""
    assert effect_key(**{**CALL, **change}) != effect_key(**CALL)


def test_the_key_does_not_depend_on_member_order() -> None:
    """The same input written in another order is the same effect."""
    value = dict(reversed(CALL["value"].items()))
    assert effect_key(**{**CALL, "value": value}) == effect_key(**CALL)


def test_call_ids_name_step_attempt_and_number() -> None:
    """Readable, and the same when the call is made again."""
    assert model_call_id(STEP, 1, 4) == "deploy@2#0#3/1/m4"
    assert tool_call_id(STEP, 2, 5) == "deploy@2#0#3/2/t5"


def test_what_a_process_counts_as() -> None:
    """What it says of itself; else what it can do at most: contained, change its worktree; otherwise anything."""
    assert (process_effect(None, "bubblewrap"), process_effect(None, "none")) == ("workspace", "external")
    assert (process_effect("external", "bubblewrap"), process_effect("read", "none")) == ("external", "read")
