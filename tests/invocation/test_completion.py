"""A structured result against its schema."""

from runner.contract.canonical import freeze
from runner.invocation.completion import JsonContract


def test_no_answer_can_make_a_pattern_hang() -> None:
    """What an agent says is hostile: text on which a backtracking engine would try until the end of days is judged at once."""
    contract = JsonContract(
        freeze(
            {
                "properties": {"summary": {"type": "string", "pattern": "^(a+)+$"}},
                "patternProperties": {"^(b|b)*$": False},
                "additionalProperties": False,
            }
        )
    )
    assert contract.findings({"summary": "a" * 100_000}) == ()
    assert len(contract.findings({"summary": "a" * 100_000 + "!"})) == 1
    assert len(contract.findings({"summary": "a", "b" * 100_000 + "!": 1})) == 1
