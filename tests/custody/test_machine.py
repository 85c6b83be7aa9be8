"""Some hundred steps of the machine, the same ones every time; ``python -m tests.custody.machine`` does thousands."""

from tests.custody.machine import run


def test_custody_agrees_with_a_naive_model() -> None:
    """Random edits, verdicts, restores, kills and collections: whatever full copies say is what custody says and does."""
    run(400, 0)
