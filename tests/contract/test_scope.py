"""The language of write scopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runner.contract.scope import (
    EVERYTHING,
    LITERAL_MAX,
    READ_ONLY,
    SCOPE_PATTERNS_MAX,
    Scope,
    allowing,
    is_git_path,
    pattern_mistake,
    pattern_problem,
    scope_mistakes,
)

ACCEPTS = [
    ("a.py", "a.py"),
    ("src/*.py", "src/a.py"),
    ("src/*.py", "src/.py"),
    ("src/*", "src/a"),
    ("src/**", "src/a"),
    ("src/**", "src/a/b/c"),
    ("**/a.py", "a.py"),
    ("**/a.py", "x/y/a.py"),
    ("a/**/b", "a/b"),
    ("a/**/b", "a/x/y/b"),
    ("**", "anything/at/all"),
    ("file?.txt", "file1.txt"),
    ("file?.txt", "fileé.txt"),
    ("a+b(1).py", "a+b(1).py"),
    ("with space/ü*", "with space/über"),
    ("src/*/x", "src/a\nb/x"),
    (".github/**", ".github/workflows/ci.yml"),
    (".gitignore", ".gitignore"),
]

REJECTS = [
    ("a.py", "A.py"),
    ("a.py", "b/a.py"),
    ("a.py", "a.pyc"),
    ("a.py", "aXpy"),
    ("src/*.py", "src/x/a.py"),
    ("src/*", "src"),
    ("src/**", "src"),
    ("src/**", "src2/a"),
    ("src/**", "x/src/a"),
    ("a/**/b", "a/b/c"),
    ("a/**/b", "ab"),
    ("file?.txt", "file.txt"),
    ("file?.txt", "file/.txt"),
    ("file?.txt", "file12.txt"),
    ("**/a.py", "xa.py"),
]


@pytest.mark.parametrize(("pattern", "path"), ACCEPTS)
def test_a_pattern_allows(pattern: str, path: str) -> None:
    """``*`` and ``?`` stay inside one component, ``**`` spans any number, everything else is literal."""
    assert Scope(kind="patterns", patterns=(pattern,)).allows(path)


@pytest.mark.parametrize(("pattern", "path"), REJECTS)
def test_a_pattern_does_not_allow(pattern: str, path: str) -> None:
    """Patterns are anchored at both ends and case-sensitive."""
    assert not Scope(kind="patterns", patterns=(pattern,)).allows(path)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "is empty"),
        ("/abs", "relative"),
        ("!a", "negation"),
        (":(top)a", "magic"),
        ("a[bc]", "only '*'"),
        ("{a,b}", "only '*'"),
        ("a\\*", "only '*'"),
        ("a//b", "empty"),
        ("a/", "empty"),
        ("./a", "'.'"),
        ("a/../b", "'..'"),
        ("..", "'..'"),
        ("a**", "whole component"),
        ("**a/b", "whole component"),
        ("a\x00", "NUL"),
        (".git/config", ".git"),
        ("sub/.GIT/hooks/*", ".git"),
        ("**/**", "no more than one"),
        ("src/" + "x" * 256, "matches nothing"),
        ("ü" * 128 + "*", "matches nothing"),
    ],
)
def test_a_pattern_outside_the_language_is_refused_by_name(pattern: str, says: str) -> None:
    """A pattern means one thing or it is refused, with the reason."""
    mistake = pattern_mistake(pattern)
    assert mistake is not None and says in mistake.problem and mistake.fix
    with pytest.raises(ValidationError, match="pattern"):
        Scope(kind="patterns", patterns=(pattern,))


GIT_PATHS = [
    ".git",
    ".git/config",
    "sub/.git/hooks/pre-commit",
    ".GIT/config",
    ".Git",
    ".git.",
    ".git ",
    ".git . .",
    "git~1/config",
    "GIT~1",
    ".git::$INDEX_ALLOCATION/config",
    ".git:stream",
    ".g\u200cit/config",
    "\ufeff.git",
    ".gi\u202et",
]


@pytest.mark.parametrize("path", GIT_PATHS)
def test_no_scope_ever_includes_git(path: str) -> None:
    """However a file system folds the name, ``.git`` is nobody's to write."""
    assert is_git_path(path)
    assert not EVERYTHING.allows(path)
    assert not Scope(kind="patterns", patterns=("**",)).allows(path)


@pytest.mark.parametrize("path", [".gitignore", ".gitattributes", ".github/x", "git", "a.git", "x/.gitkeep", "git~10"])
def test_what_only_resembles_git_may_be_written(path: str) -> None:
    """The rule is about one name."""
    assert not is_git_path(path)
    assert EVERYTHING.allows(path)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "src/../../x", "src/../x", "./x", "src//x", "src/", ".."])
def test_a_path_that_is_not_plain_is_never_allowed(path: str) -> None:
    """A path that could name another file than it seems to is refused under every scope."""
    assert not EVERYTHING.allows(path)
    assert not Scope(kind="patterns", patterns=("src/**", "**")).allows(path)


def test_read_only_allows_nothing() -> None:
    """Nothing is writable and nothing is allowed."""
    assert not READ_ONLY.writable
    assert not READ_ONLY.allows("a")
    assert EVERYTHING.writable


@pytest.mark.parametrize(
    ("kind", "patterns"),
    [("patterns", ()), ("read-only", ("a",)), ("everything", ("a",)), ("patterns", ("a",) * (SCOPE_PATTERNS_MAX + 1))],
)
def test_a_meaningless_scope_is_refused(kind: str, patterns: tuple[str, ...]) -> None:
    """Patterns stand exactly with the kind that uses them, and are bounded."""
    with pytest.raises(ValidationError):
        Scope.model_validate({"kind": kind, "patterns": patterns})


components = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/\x00"), min_size=1, max_size=8)


@given(st.lists(components, min_size=1, max_size=5).map("/".join))
def test_everything_and_the_widest_pattern_agree(path: str) -> None:
    """``**`` means everything, for every path there can be."""
    assert Scope(kind="patterns", patterns=("**",)).allows(path) == EVERYTHING.allows(path)


@given(st.lists(components, min_size=1, max_size=5).map("/".join))
def test_a_path_that_is_a_pattern_allows_itself(path: str) -> None:
    """A path without special characters is a pattern for exactly itself."""
    if pattern_problem(path) is None and not set("*?") & set(path):
        scope = Scope(kind="patterns", patterns=(path,))
        assert scope.allows(path)
        assert not scope.allows(path + "x")
        assert not scope.allows("x/" + path)


def test_a_pattern_that_stands_twice_is_found_at_its_second_place() -> None:
    """It would never decide anything; each mistake is told by its place in the list."""
    found = [(number, mistake.problem) for number, mistake in scope_mistakes(("a", "b", "a", "/c"))]
    assert [number for number, _ in found] == [2, 3] and found[0][1] == "stands twice"
    with pytest.raises(ValidationError, match="stands twice"):
        Scope(kind="patterns", patterns=("a", "b", "a"))


@pytest.mark.parametrize(
    ("paths", "patterns"),
    [
        ((), ()),
        (("a.txt", "src/b.py"), ("a.txt", "src/b.py")),
        (("src/[id]/*.tsx",), ("src/?id?/?.tsx",)),
        (("!a", ":b"), ("?a", "?b")),
        ((".git/config", "x/.git/hooks"), ()),
        (tuple(f"docs/{n}.md" for n in range(LITERAL_MAX + 1)), ("docs/**",)),
        ((*(f"a/{n}/x" for n in range(LITERAL_MAX + 1)), "top"), ("a/**", "*")),
        (tuple(f"{n}/x" for n in range(LITERAL_MAX + 1)), ("**",)),
    ],
)
def test_the_patterns_that_would_have_allowed(paths: tuple[str, ...], patterns: tuple[str, ...]) -> None:
    """As narrow as can be said in a few words; none for what no scope allows."""
    assert allowing(paths) == patterns


@given(st.lists(st.lists(components, min_size=1, max_size=4).map("/".join), max_size=20))
def test_patterns_that_would_have_allowed_do_allow(paths: list[str]) -> None:
    """Whatever the paths are called, and never with a pattern outside the language."""
    patterns, possible = allowing(paths), [path for path in paths if EVERYTHING.allows(path)]
    assert bool(patterns) == bool(possible) and list(scope_mistakes(patterns)) == []
    if patterns:
        scope = Scope(kind="patterns", patterns=patterns)
        assert all(scope.allows(path) for path in possible)
