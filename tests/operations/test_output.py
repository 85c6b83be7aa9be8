"""Output as text: bounded, redacted, harmless, whatever the chunks."""

from hypothesis import given
from hypothesis import strategies as st

from hosts.operations.output import OutputText, redact
from runner.contract.redaction import REDACTED


def _fed(data: bytes, sizes: list[int], secrets: tuple[str, ...] = (), bytes_max: int = 10**6) -> str:
    output = OutputText(bytes_max, secrets)
    at = 0
    for size in sizes:
        output.feed(data[at : at + size])
        at += size
    output.feed(data[at:], final=True)
    return output.text()


CHUNKS = st.lists(st.integers(min_value=1, max_value=9), max_size=20)


@given(st.binary(max_size=200), CHUNKS)
def test_chunks_do_not_matter(data: bytes, sizes: list[int]) -> None:
    """The same bytes give the same text, however they arrive."""
    assert _fed(data, sizes) == _fed(data, [])


@given(st.text(alphabet="abx\n", max_size=60), CHUNKS)
def test_a_secret_never_survives(text: str, sizes: list[int]) -> None:
    """Neither whole nor because two chunks split it."""
    shown = _fed(text.encode(), sizes, secrets=("ab", "abx", "xxa"))
    assert not any(s in shown.replace(REDACTED, "|") for s in ("ab", "xxa"))


@given(st.binary(max_size=3000), st.integers(min_value=16, max_value=400))
def test_kept_bytes_are_bounded(data: bytes, bytes_max: int) -> None:
    """Escaping cannot push the text over its bound (the line that says what was cut aside)."""
    text = _fed(data, [7], bytes_max=bytes_max)
    cut = [line for line in text.split("\n") if line.startswith("[... ")]
    assert len(text.encode()) <= bytes_max + sum(len(line) + 2 for line in cut)


@given(st.binary(max_size=200))
def test_nothing_a_terminal_acts_on(data: bytes) -> None:
    """No control character but newline and tab remains."""
    assert all(c in "\n\t" or c.isprintable() or c.isspace() or ord(c) > 0x9F for c in _fed(data, []))
    assert "\x1b" not in _fed(data, [])


def test_escapes_are_visible() -> None:
    """Invalid bytes, ANSI, NUL, carriage return and bidirectional overrides are shown, not dropped."""
    shown = _fed(b"\xff\x1b[31m\x00\r\n\te\xcc\x81" + "\u202e".encode(), [])
    assert shown == "\\xff\\x1b[31m\\x00\\x0d\n\te\u0301\\u202e"


def test_head_and_tail_with_the_number_between() -> None:
    """The first and the last half are kept, and the middle is counted."""
    shown = _fed(b"a" * 100 + b"m" * 1000 + b"z" * 100, [], bytes_max=200)
    assert shown == "a" * 100 + "\n[... 1000 bytes cut here ...]\n" + "z" * 100


def test_characters_are_not_halved() -> None:
    """A cut inside a character drops the character."""
    shown = _fed("é".encode() * 100, [], bytes_max=31)
    assert set(shown.split("\n")[0]) == {"é"} == set(shown.split("\n")[2])


def test_longest_secret_first() -> None:
    """A secret that begins like another is replaced whole."""
    assert redact("token-extended token", ("token", "token-extended")) == f"{REDACTED} {REDACTED}"
