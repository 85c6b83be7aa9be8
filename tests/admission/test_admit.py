"""The door: a sealed activation that the interpreter takes, or every problem at once."""

from pathlib import Path
from typing import Any

import pytest

from runner.admission.admit import admit, check, input_value
from runner.admission.bindings import parse_binding, parse_bindings
from runner.contract.activation import Activation
from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code
from runner.contract.ids import DeliveryId
from runner.interpreter.interpret import interpret
from tests.admission.packages import DESCRIPTORS, GOOD, loaded, written
from tests.admission.repositories import git, repository

BINDINGS = parse_bindings(["coder=openai:gpt:x", "judge=recorded:tape"])


def admitted(tmp_path: Path, **more: Any) -> Activation:
    fields: dict[str, Any] = {
        "package": written(tmp_path / "package"),
        "worktree": tmp_path / "repo",
        "input": {"task": "mend"},
        "bindings": BINDINGS,
        "descriptors": DESCRIPTORS,
        "delivery": DeliveryId("d1"),
        "admitted_at": "2026-11-30T12:00:00Z",
    }
    return admit(**{**fields, **more})


def refused(tmp_path: Path, **more: Any) -> CallerError:
    with pytest.raises(CallerError) as caught:
        admitted(tmp_path, **more)
    return caught.value


def test_what_is_admitted_is_interpreted(tmp_path: Path) -> None:
    """Everything is resolved into the activation, and its bytes survive the door of the interpreter."""
    repo = repository(tmp_path / "repo")
    made = admitted(tmp_path)
    again, plan = interpret(canonical(made.to_json()))
    assert again == made
    assert plan.input == {"task": "mend", "rounds": 2}
    assert made.target.ref == "refs/heads/fix/d1"
    assert made.target.expected == "absent"
    assert made.workspace.base_commit == git(repo, "rev-parse", "HEAD")
    assert [(e.role, e.provider, e.model) for e in made.executors] == [
        ("coder", "openai", "gpt:x"),
        ("judge", "recorded", "tape"),
    ]
    assert made.executors[0].descriptor == DESCRIPTORS["openai"].digest
    assert admitted(tmp_path, target_ref="mine").target.ref == "refs/heads/mine"
    assert git(repo, "status", "--porcelain") == ""


def test_bindings_and_input_are_judged_together_before_the_repository(tmp_path: Path) -> None:
    """Every wrong binding and input is listed with its choices, although there is no repository at all."""
    bindings = parse_bindings(["judge=nobody:m", "reviewer=openai:m"])
    error = refused(tmp_path, input={"tsk": 1, "rounds": "x"}, bindings=bindings)
    assert error.code is Code.BINDING_INVALID
    text = "\n".join(str(f) for f in error.findings)
    for problem in (
        "bind coder: this role is not bound",
        "'nobody' is not configured (configured are: narrow, openai, recorded)",
        "no role 'reviewer'",
        "'task' is a required property",
        "'tsk' was unexpected",
        "input.rounds: 'x' is not of type 'integer'",
    ):
        assert problem in text
    assert check(loaded(tmp_path), input={"task": "x"}) == ()
    assert refused(tmp_path, bindings=parse_bindings(["coder=openai:m", "judge=x:m"])).code is Code.PROVIDER_UNKNOWN
    assert refused(tmp_path, bindings=parse_bindings(["coder=narrow:m", "judge=narrow:m"])).code is Code.FEATURE_MISSING
    assert refused(tmp_path, input={}).code is Code.INPUT_INVALID


@pytest.mark.parametrize(
    "text", ["", "coder", "coder=openai", "coder=openai:", "=openai:m", "Coder=openai:m", "coder=../x:m"]
)
def test_what_is_not_a_binding_is_refused(text: str) -> None:
    """One clear message with the form."""
    with pytest.raises(CallerError) as caught:
        parse_binding(text)
    assert caught.value.code is Code.BINDING_INVALID
    assert "role=provider:model" in caught.value.remedy


def test_a_role_cannot_be_bound_twice() -> None:
    """Nothing is chosen silently."""
    with pytest.raises(CallerError, match="bound twice"):
        parse_bindings(["coder=openai:a", "coder=openai:b"])


@pytest.mark.parametrize("name", ["..", "a b", "x" * 300, "é", "-a", "a/b", "", "a%2e"])
def test_hostile_names_of_deliveries_and_targets_are_refused(tmp_path: Path, name: str) -> None:
    """Neither becomes a path or a ref unchecked."""
    repository(tmp_path / "repo")
    assert refused(tmp_path, delivery=DeliveryId(name)).code is Code.DELIVERY_ID_INVALID
    package = written(tmp_path / "other", GOOD.replace("fix/{{ delivery.id }}", "{{ input.task }}"))
    if name not in ("é", "a/b", "a%2e", "-a"):
        assert refused(tmp_path, package=package, input={"task": name}).code is Code.TARGET_INVALID


def test_a_dirty_checkout_in_place_is_refused_or_said(tmp_path: Path) -> None:
    """What was there before belongs to the Delivery only when asked for."""
    repo = repository(tmp_path / "repo")
    (repo / "new").write_text("x")
    assert refused(tmp_path).code is Code.WORKTREE_DIRTY
    assert admitted(tmp_path, include_dirty=True).workspace.include_dirty


def test_input_from_a_command_line_has_the_type_the_package_wants(tmp_path: Path) -> None:
    """Strings stay as they are, everything else is JSON."""
    package = loaded(tmp_path)
    assert input_value(package, "task", "5") == "5"
    assert input_value(package, "rounds", "5") == 5
    with pytest.raises(CallerError):
        input_value(package, "rounds", "five")
