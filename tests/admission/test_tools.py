"""Tools that a package declares: judged with the package, frozen from what their servers offer."""

from pathlib import Path
from typing import Any

import pytest

from runner.admission import admit, parse_bindings
from runner.admission.load import load_package
from runner.contract.activation import Activation, DeclaredTool, seal
from runner.contract.canonical import freeze
from runner.contract.errors import CallerError, Code
from runner.contract.ids import DeliveryId
from runner.contract.ports import OfferedTool
from runner.interpreter.closure import check
from tests.admission.packages import DESCRIPTORS, written
from tests.admission.repositories import repository

PACKAGE = """\
name: with tools
roles: { coder: { instructions: coder.md } }
tools:
  find_issue: { server: tracker, name: search_issues, effect: read }
  close: { server: tracker }
steps:
  - id: work
    agent: { role: coder, prompt: Work., scope: read-only, tools: [read, find_issue, close] }
"""
SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "x-order": 1}
SEARCH = OfferedTool(remote="search_issues", description="Finds.", parameters=freeze(SCHEMA))
CLOSE = OfferedTool(remote="close", description="Closes.", parameters=freeze({"type": "object"}))


def admitted(tmp_path: Path, offers: Any, text: str = PACKAGE) -> Activation:
    repository(tmp_path / "repo")
    return admit(
        package=written(tmp_path / "package", text),
        worktree=tmp_path / "repo",
        input={},
        bindings=parse_bindings(["coder=openai:gpt"]),
        descriptors=DESCRIPTORS,
        offers=offers,
        delivery=DeliveryId("d1"),
        admitted_at="2026-11-30T12:00:00Z",
    )


def test_the_offer_is_frozen(tmp_path: Path) -> None:
    """Name, server, remote name, description, parameters, digest; the effect is the package's word, by default external. A
    keyword that JSON Schema does not have is the server's own business."""
    find, close = admitted(tmp_path, {"tracker": (CLOSE, SEARCH)}).tools
    assert (find.name, find.server, find.remote, find.effect) == ("find_issue", "tracker", "search_issues", "read")
    assert (find.description, find.parameters, find.digest) == ("Finds.", SEARCH.parameters, SEARCH.digest)
    assert (close.remote, close.effect) == ("close", "external")


@pytest.mark.parametrize(
    ("offers", "says"),
    [
        ({}, "fix.yaml:4: the tool server 'tracker' is not configured (add [tool_servers.tracker] to the config)"),
        ({"tracker": (CLOSE,)}, "fix.yaml:4: the tool server 'tracker' offers no 'search_issues' (it offers: close)"),
    ],
)
def test_what_is_not_offered_is_said_where_it_stands(tmp_path: Path, offers: Any, says: str) -> None:
    """With file and line, and what there is instead."""
    with pytest.raises(CallerError) as refused:
        admitted(tmp_path, offers)
    assert refused.value.code is Code.BINDING_INVALID
    assert str(refused.value.findings[0]) == says


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"type": "array"}, "no schema of an object"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}, "not a regular expression that is taken here"),
        ({"type": "object", "properties": {"a": {"$ref": "https://x.example"}}}, "leads nowhere inside this schema"),
        ({"type": "object", "required": 1}, "is no JSON Schema"),
    ],
)
def test_parameters_that_cannot_be_judged_are_refused(tmp_path: Path, parameters: Any, says: str) -> None:
    """At admission, at the tool's place: no call could be checked against them."""
    search = OfferedTool(remote="search_issues", description="", parameters=freeze(parameters))
    with pytest.raises(CallerError) as refused:
        admitted(tmp_path, {"tracker": (search, CLOSE)})
    (found,) = refused.value.findings
    assert found.place == "fix.yaml:4" and says in found.problem


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            "effect: read",
            "effect: workspace",
            "fix.yaml:4: tools.find_issue.effect: a tool server acts outside of the worktree",
        ),
        ("effect: read", "effect: sometimes", "fix.yaml:4: tools.find_issue.effect"),
        ("  close: {", "  write: {", "fix.yaml:5: 'write' is a tool of the Runner's own"),
        ("server: tracker }", "servre: tracker }", "fix.yaml:5: 'servre' is not a known key of 'close'"),
        ("[read, find_issue", "[read, find_isue", "fix.yaml:8: the tool 'find_isue' is not known"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, before: str, after: str, says: str) -> None:
    """Offline, with file and line; a mistake in a tool is no mistake in the steps that use it."""
    assert before in PACKAGE
    with pytest.raises(CallerError) as refused:
        load_package(written(tmp_path, PACKAGE.replace(before, after)))
    assert any(str(found).startswith(says) for found in refused.value.findings), refused.value.findings
    if "effect" in after:
        assert len(refused.value.findings) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "ask"}, "is the Runner's own"),
        ({"name": "close"}, "is declared twice"),
        ({"description": "Finds more."}, "is not the digest of this tool"),
    ],
)
def test_an_activation_that_somebody_else_made_is_judged_too(tmp_path: Path, changes: Any, says: str) -> None:
    """Names that are taken and digests that do not fit are findings at the tool."""
    good = admitted(tmp_path, {"tracker": (CLOSE, SEARCH)})
    wrong = DeclaredTool.model_validate({**dict(good.tools[0]), **changes})
    fields = {**{n: getattr(good, n) for n in Activation.model_fields}, "tools": (good.tools[1], wrong)}
    found = check(seal(**{n: v for n, v in fields.items() if n != "binding_identity"}))
    assert any(f.place.startswith("tools.1") and says in f.problem for f in found)
