"""Approvals in packages: what the author may leave out, and what is refused with its line."""

from pathlib import Path
from typing import Any

import pytest

from runner.admission.load import load_package
from runner.contract.activation import AgentAction, ApprovalAction
from runner.contract.canonical import thaw
from runner.contract.errors import CallerError
from tests.admission.packages import written

PACKAGE = """\
name: x
steps:
  - id: build
    command: {{ run: [make], scope: read-only }}
  - id: ok
    needs: [build]
    routes: {routes}
    budget: {{ visits: 3 }}
    approval: {approval}
"""


def package(tmp_path: Path, approval: str, routes: str = "{ approve: completed, reject: build }") -> Path:
    return written(tmp_path, PACKAGE.format(approval=approval, routes=routes))


def action(path: Path) -> ApprovalAction:
    found = load_package(path).workflow.steps[1].action
    assert isinstance(found, ApprovalAction)
    return found


def refusals(path: Path) -> list[tuple[str, str]]:
    with pytest.raises(CallerError) as caught:
        load_package(path)
    return [(f.place.removeprefix("fix.yaml:"), f.problem) for f in caught.value.findings]


def test_what_is_left_out_is_approve_or_reject_with_the_diff(tmp_path: Path) -> None:
    """The shortest approval asks approve or reject with a comment, shows the diff and never expires."""
    made = action(package(tmp_path, '{ prompt: "Ship {{ steps.build.output.stdout }}?" }'))
    schema: Any = thaw(made.answer_schema)
    assert schema["properties"]["decision"]["enum"] == ["approve", "reject"] and schema["required"] == ["decision"]
    assert (made.show_diff, made.outcome, made.expires_s, made.on_expiry) == (True, "decision", None, "incomplete")
    assert made.renewals_max == 3 and made.default is None


def test_everything_written_out(tmp_path: Path) -> None:
    """The author's words become the activation's; the answer's schema may be a file."""
    approval = (
        "{ prompt: p, show: nothing, answer: a.json, outcome: to, expires_s: 60, on_expiry: default, default: {to: a} }"
    )
    path = package(tmp_path, approval, routes="{ a: completed, b: build }")
    (tmp_path / "a.json").write_text(
        '{"type": "object", "properties": {"to": {"enum": ["a", "b"]}}, "required": ["to"]}'
    )
    made = action(path)
    assert (made.show_diff, made.outcome, made.expires_s, made.on_expiry) == (False, "to", 60.0, "default")
    assert thaw(made.default) == {"to": "a"}
    renewed = action(package(tmp_path, "{ prompt: p, expires_s: 5, on_expiry: renew, renewals: 0 }"))
    assert (renewed.on_expiry, renewed.renewals_max) == ("renew", 0)


def test_an_agent_may_ask(tmp_path: Path) -> None:
    """``asks`` reaches the action; without it an agent asks nobody."""
    text = "name: x\nroles: {{ c: {{}} }}\nsteps:\n  - id: a\n    agent: {{ role: c, prompt: p, scope: read-only{} }}\n"
    for asks, more in ((True, ", asks: true"), (False, "")):
        made = load_package(written(tmp_path, text.format(more))).workflow.steps[0].action
        assert isinstance(made, AgentAction) and made.asks is asks


@pytest.mark.parametrize(
    ("approval", "routes", "problem"),
    [
        ("{ prompt: p, default: {decision: approve} }", "{ approve: completed }", "the default is never taken"),
        ("{ prompt: p, expires_s: 1, on_expiry: default }", "{}", "there is no default to take"),
        (
            "{ prompt: p, expires_s: 1, on_expiry: default, default: {decision: maybe} }",
            "{}",
            "'maybe' is not one of ['approve', 'reject']",
        ),
        ("{ prompt: p, outcome: comment }", "{}", "'comment' is not a required property of the answer"),
        (
            "{ prompt: p, answer: {type: object, required: [decision], properties: {decision: {enum: [failure, ok]}}} }",
            "{}",
            "reserved",
        ),
        (
            "{ prompt: p, answer: {type: object, required: [decision], properties: {decision: {enum: [1, ok]}}} }",
            "{}",
            "not every value of 'decision' is text",
        ),
        (
            "{ prompt: p, answer: {required: [decision], properties: {decision: {enum: [no, ok]}}} }",
            "{}",
            "an answer is an object",
        ),
        ("{ prompt: p, answer: {type: objekt} }", "{}", "is not a type"),
        ("{ prompt: '{{ steps.nope.output }}' }", "{}", "there is no step 'nope'"),
        ("{ prompt: p }", "{ success: completed }", "never ends as 'success'"),
        ("{ prompt: p }", "{ wait-expired: completed }", "never ends as 'wait-expired'"),
        ("{ prompt: p }", "{ timeout: completed }", "never ends as 'timeout'"),
        ("{ prompt: p, on_expiry: renew }", "{}", "without 'expires_s'"),
        ("{ prompt: p, expires_s: 1, renewals: 2 }", "{}", "'renewals' is for 'on_expiry: renew'"),
    ],
)
def test_what_does_not_hold_is_refused(tmp_path: Path, approval: str, routes: str, problem: str) -> None:
    """Outcome, default, expiry and routes must fit each other; each refusal has its line."""
    (found,) = refusals(package(tmp_path, approval, routes))
    assert found[0] in ("7", "9") and problem in found[1]


def test_routes_over_every_end(tmp_path: Path) -> None:
    """The answer's values, an expiry, a failure, and a spent budget where it leads back."""
    routes = (
        "{ approve: completed, reject: build, wait-expired: incomplete, failure: failed, budget-exhausted: failed }"
    )
    assert action(package(tmp_path, "{ prompt: p, expires_s: 1 }", routes)).expires_s == 1.0


@pytest.mark.parametrize("field", ["timeout_s: 5", "retry: { attempts: 2 }", "expect: changes"])
def test_fields_that_mean_nothing_here(tmp_path: Path, field: str) -> None:
    """A field that would silently do nothing is refused by name."""
    text = f"name: x\nsteps:\n  - id: a\n    {field}\n    approval: {{ prompt: p }}\n"
    (found,) = refusals(written(tmp_path, text))
    assert found == ("4", f"a step of kind 'approval' has no '{field.partition(':')[0]}'")
