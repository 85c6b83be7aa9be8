"""Every failure has a class, every class a reaction; signals decide, never prose."""

import pytest

from runner.contract.provider import Failure
from runner.invocation.classify import ERROR_CODES, EXCEPTIONS, REACTIONS, STATUSES, FailureClass, classify

F = FailureClass


def of(**signals: object) -> FailureClass:
    return classify(Failure(**{"exception": "", **signals}))  # type: ignore[arg-type]


def test_every_class_has_a_reaction_and_is_used() -> None:
    """A class nobody can reach, or nobody reacts to, is a mistake."""
    assert set(REACTIONS) == set(FailureClass)
    used = {
        *ERROR_CODES.values(),
        *STATUSES.values(),
        *EXCEPTIONS.values(),
        F.UNKNOWN,
        F.INVALID_OUTPUT,
    }
    assert used == set(FailureClass)


def test_suspending_reactions_say_for_how_long() -> None:
    """Auth and quota wait for a person, back-off for time."""
    assert {k for k, r in REACTIONS.items() if r.action == "suspend"} == {F.AUTH, F.QUOTA}
    assert all(REACTIONS[k].suspend_s for k in (F.AUTH, F.QUOTA, F.RATE_LIMIT, F.OVERLOAD))
    assert {k for k, r in REACTIONS.items() if r.action == "retry"} == {F.RATE_LIMIT, F.OVERLOAD, F.TRANSIENT}


@pytest.mark.parametrize("status", range(300, 600))
def test_every_error_status_has_a_class(status: int) -> None:
    """None is unknown."""
    assert of(http_status=status) is not F.UNKNOWN


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (302, F.PROTOCOL),
        (400, F.PROTOCOL),
        (401, F.AUTH),
        (402, F.QUOTA),
        (403, F.AUTH),
        (404, F.PROTOCOL),
        (408, F.TRANSIENT),
        (413, F.LIMIT),
        (422, F.PROTOCOL),
        (429, F.RATE_LIMIT),
        (500, F.TRANSIENT),
        (502, F.TRANSIENT),
        (503, F.OVERLOAD),
        (504, F.TRANSIENT),
        (524, F.TRANSIENT),
        (529, F.OVERLOAD),
    ],
)
def test_statuses(status: int, expected: FailureClass) -> None:
    """The table, in numbers."""
    assert of(http_status=status, exception="openai.APIStatusError") is expected


def test_the_most_specific_signal_wins() -> None:
    """Code before status before exception; an ambiguous code leaves it to the status."""
    assert of(error_code="insufficient_quota", http_status=429) is F.QUOTA
    assert of(error_code="context_length_exceeded", http_status=400) is F.LIMIT
    assert of(error_code="invalid_request_error", http_status=401) is F.AUTH
    assert of(http_status=401, exception="httpx.ReadTimeout") is F.AUTH
    assert of(exception="httpx.ReadTimeout") is F.TRANSIENT


def test_prose_decides_nothing() -> None:
    """A message is for people."""
    assert of(message="rate limit exceeded, timeout, 503") is F.UNKNOWN
    assert of(exception="some.RateLimitError") is F.UNKNOWN
