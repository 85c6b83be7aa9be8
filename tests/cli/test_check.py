"""What ``check`` says of a package that is right."""

import pytest

from tests.cli.conftest import CommandLine

PACKAGE = """\
name: two
steps:
  - id: tests
    command: {{ run: [pytest], scope: read-only{effect} }}
"""


@pytest.mark.parametrize(
    ("effect", "external"), [("", []), (", effect: external", ["tests"]), (", effect: workspace", [])]
)
def test_commands_that_a_person_is_asked_about(runner: CommandLine, effect: str, external: list[str]) -> None:
    """A note and no error, before a kill says so. What says nothing is contained, or inspect says that it is not."""
    (runner.here / "p.yaml").write_text(PACKAGE.format(effect=effect))
    shown = runner("check", "p.yaml")
    assert shown.code == 0 and ("what happened: tests (effect: external" in shown.out) is bool(external)
    assert runner("check", "p.yaml", "--json").document["external"] == external
