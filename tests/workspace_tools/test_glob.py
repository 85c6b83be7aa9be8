"""The pattern language agrees with that of scopes, and no pattern is expensive."""

from hypothesis import given
from hypothesis import strategies as st

from providers.workspace_tools.paths import Glob
from runner.contract.scope import Scope, is_git_path, pattern_problem

part = st.text("ab*?", min_size=1, max_size=4).filter(lambda p: "**" not in p) | st.just("**")
name = st.text("ab", min_size=1, max_size=4)
patterns = st.lists(part, min_size=1, max_size=4).map("/".join).filter(lambda p: "**/**" not in p)


@given(patterns, st.lists(name, min_size=1, max_size=4))
def test_it_matches_what_a_scope_allows(pattern: str, names: list[str]) -> None:
    """One language for people to learn."""
    assert pattern_problem(pattern) is None
    path = "/".join(names)
    assert not is_git_path(path)
    assert Glob(pattern).matches(tuple(names)) == Scope(kind="patterns", patterns=(pattern,)).allows(path)


def test_patterns_that_backtrack_elsewhere_end() -> None:
    """Many stars over long names take steps, not ages."""
    assert not Glob("/".join(["**", "*"] * 100) + "/x").matches(("a",) * 60)
    assert not Glob("*a" * 100 + "b").matches(("a" * 255,))
