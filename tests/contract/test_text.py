"""Text from outside is harmless, without secrets and bounded before anybody sees it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract.text import screened, visible

SECRET = "hunter2-hunter2"


def redact(text: str) -> str:
    return text.replace(SECRET, "[redacted]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nä", "plain\ttext\nä"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
        ("a\u202eb\ud800", "a\\u202eb\\ud800"),
        (f"key={SECRET};", "key=[redacted];"),
        ("", ""),
    ],
)
def test_what_is_escaped_and_what_is_not(text: str, shown: str) -> None:
    """Controls, bidirectional controls and lone surrogates are written out; secrets are gone; the rest stays."""
    assert screened(text, redact, 1000) == shown


def test_head_and_tail_are_kept() -> None:
    """The marker says how much is missing between them."""
    assert screened("a" * 50 + "b" * 50, redact, 10) == "aaaaa\n[... 90 bytes cut here ...]\nbbbbb"


def test_a_secret_is_out_before_the_cut() -> None:
    """A bound that goes through a secret leaves no half of it."""
    assert "hunter" not in screened("x" * 8 + SECRET + "y" * 8, redact, 30)


@given(st.text(), st.integers(min_value=2, max_value=200))
def test_it_is_bounded_and_nothing_steers(text: str, bound: int) -> None:
    """Whatever comes: at most the bound and the marker, and already visible."""
    shown = screened(text, redact, bound)
    assert shown == visible(shown)
    assert len(shown.encode()) <= bound + 60
