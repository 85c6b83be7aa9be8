"""Names from outside are safe as directory names, refs and words, or they are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract.errors import CallerError, Code
from runner.contract.ids import DELIVERY_ID_PATTERN, SITE_ID_PATTERN, SiteId, StepRef, delivery_id

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "a b",
    " a",
    "a ",
    "a\n",
    "a\x00b",
    "-a",
    "a-",
    "-",
    "--help",
    "A",
    "a.lock",
    "a..b",
    "a@{1}",
    "a~1",
    "a^",
    "a:b",
    "a*",
    "a_b",
    "$HOME",
    "`id`",
    ";rm",
    "é",
    "\u0430",
    "١",
    "a\u200b",
    "a" * 64,
    "a" * 300,
    "e\u0301",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_cannot_name_a_delivery(name: str) -> None:
    """Separators, dots, spaces, control characters, other scripts and long names are a caller's error with a remedy."""
    with pytest.raises(CallerError) as caught:
        delivery_id(name)
    assert caught.value.code is Code.DELIVERY_ID_INVALID
    assert "1 to 63" in caught.value.remedy
    assert len(str(caught.value)) < 700
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["a", "7", "fix-tests", "a" * 63, "0-0", "a--b"])
def test_a_plain_name_names_a_delivery(name: str) -> None:
    """Lower-case letters, digits and inner hyphens are all that is needed."""
    assert delivery_id(name) == name


@given(st.text(max_size=70))
def test_an_admitted_delivery_id_is_one_harmless_path_component(name: str) -> None:
    """Whatever text is tried: what passes has no separator, no dot, and is not empty or too long for a file name."""
    try:
        admitted = delivery_id(name)
    except CallerError:
        return
    assert re.fullmatch(r"[a-z0-9-]{1,63}", admitted)


steps = st.builds(
    StepRef,
    site=st.from_regex(SITE_ID_PATTERN, fullmatch=True).map(SiteId),
    visit=st.integers(1, 10**9),
    item=st.lists(st.integers(0, 10**9), max_size=4).map(tuple),
)


@given(steps)
def test_a_step_key_reads_back_as_the_step(step: StepRef) -> None:
    """``parse`` is the inverse of ``key``."""
    assert StepRef.parse(step.key) == step


@given(steps, steps)
def test_two_steps_never_share_a_key(one: StepRef, other: StepRef) -> None:
    """Keys tell steps apart: they are part of call ids and of the ledger's index."""
    assert (one.key == other.key) == (one == other)


@pytest.mark.parametrize(
    "key", ["", "a", "a@", "a@0", "a@01", "a@1#", "a@1#-1", "A@1", "a@1 ", "a@1\n", "a@1#x", "@1", "a@1@2", "a#1@1"]
)
def test_what_is_not_a_step_key_is_refused(key: str) -> None:
    """Only the one spelling is read."""
    with pytest.raises(ValueError, match="not a step key"):
        StepRef.parse(key)


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (StepRef(site=SiteId("tests")), "tests"),
        (StepRef(site=SiteId("tests"), visit=2), "tests.visit[2]"),
        (StepRef(site=SiteId("each"), item=(0,)), "each[0]"),
        (StepRef(site=SiteId("each"), visit=3, item=(1, 2)), "each.visit[3][1][2]"),
    ],
)
def test_how_people_see_a_step(step: StepRef, shown: str) -> None:
    """A first visit is not mentioned."""
    assert str(step) == shown


def test_the_pattern_of_delivery_ids_is_anchored_by_its_users() -> None:
    """The pattern is used with ``fullmatch`` or ``^…$``; a trailing newline must not slip through either."""
    assert re.fullmatch(DELIVERY_ID_PATTERN, "a\n") is None
