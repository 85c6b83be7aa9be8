"""The activation: sealed, closed, frozen; one changed byte is noticed."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runner.contract.activation import Activation, identity_of
from runner.contract.canonical import canonical, freeze, parse, thaw
from runner.contract.errors import Finding
from runner.contract.model import read_model
from tests.contract.specimens import activation

SEALED = activation()
DOCUMENT: dict[str, Any] = thaw(SEALED.to_json())


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of everything in ``value`` that is not an object or a list with something in it."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path


LEAVES = [path for path in _leaves(DOCUMENT) if path != ("binding_identity",)]


def test_a_sealed_activation_carries_its_identity() -> None:
    """``binding_identity`` is the digest of everything else."""
    assert SEALED.binding_identity == identity_of(SEALED.to_json())


def test_a_sealed_activation_reads_back_equal() -> None:
    """From canonical bytes to the same value: what is stored with a Delivery is the Delivery's activation."""
    again = read_model(Activation, parse(canonical(SEALED.to_json())))
    assert again == SEALED


@given(st.sampled_from(LEAVES), st.integers() | st.text(max_size=3) | st.booleans() | st.none())
def test_any_changed_value_changes_the_identity(path: tuple[str | int, ...], value: Any) -> None:
    """Every field is covered by the identity, at any depth."""
    altered = copy.deepcopy(DOCUMENT)
    *way, last = path
    place: Any = altered
    for part in way:
        place = place[part]
    if place[last] == value and type(place[last]) is type(value):
        return
    place[last] = value
    try:
        frozen = freeze(altered)
    except ValueError:
        return
    assert identity_of(frozen) != SEALED.binding_identity


@given(st.data())
def test_one_changed_byte_is_noticed(data: st.DataObject) -> None:
    """A byte changed in the file makes it unreadable, invalid, or another identity than the one it claims."""
    text = canonical(DOCUMENT)
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != text[at]))
    try:
        document = parse(text[:at] + bytes([byte]) + text[at + 1 :])
    except ValueError:
        return
    read = read_model(Activation, document)
    assert isinstance(read, tuple) or identity_of(document) != read.binding_identity or document == freeze(DOCUMENT)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("delivery",), "../up", "delivery"),
        (("delivery",), "a\n", "delivery"),
        (("surprise",), 1, "surprise"),
        (("workflow", "steps", 0, "surprise"), 1, "workflow.steps.0.surprise"),
        (("workflow", "steps"), [], "workflow.steps"),
        (("workflow", "steps", 0, "budget_visits"), "3", "workflow.steps.0.budget_visits"),
        (("workflow", "steps", 0, "budget_visits"), True, "workflow.steps.0.budget_visits"),
        (("workflow", "steps", 0, "id"), "Bad-Id", "workflow.steps.0.id"),
        (("workflow", "steps", 1, "action", "run"), [], "workflow.steps.1.action.command.run"),
        (("workflow", "steps", 1, "action", "kind"), "wait", "workflow.steps.1.action"),
        (("target", "ref"), "refs/stash", "target.ref"),
        (("target", "ref"), "HEAD", "target.ref"),
        (("target", "expected"), "", "target.expected"),
        (("workspace", "base_commit"), "HEAD", "workspace.base_commit"),
        (("workspace", "base_commit"), "A" * 40, "workspace.base_commit"),
        (("admitted_at",), "yesterday", "admitted_at"),
        (("format",), "runner.activation/2", "format"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field_path(path: tuple[str | int, ...], value: Any, place: str) -> None:
    """Unknown keys, wrong types and hostile names: each is a finding at its place, nothing is coerced."""
    altered = copy.deepcopy(DOCUMENT)
    *way, last = path
    target: Any = altered
    for part in way:
        target = target[part]
    target[last] = value
    findings = read_model(Activation, freeze(altered))
    assert isinstance(findings, tuple)
    assert place in [finding.place for finding in findings if isinstance(finding, Finding)]


def test_every_problem_is_reported_at_once() -> None:
    """One pass finds them all."""
    altered = copy.deepcopy(DOCUMENT)
    altered["delivery"] = ""
    altered["workflow"]["steps"][0]["id"] = ""
    altered["target"]["ref"] = ""
    findings = read_model(Activation, freeze(altered))
    assert isinstance(findings, tuple)
    assert {f.place for f in findings} == {"delivery", "workflow.steps.0.id", "target.ref"}


def test_an_activation_cannot_be_changed() -> None:
    """Fields, and the JSON inside them, are frozen to the bottom."""
    with pytest.raises(ValidationError):
        SEALED.delivery = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        SEALED.input["task"] = "other"
    step = SEALED.workflow.steps[0]
    with pytest.raises(TypeError):
        step.action.result_schema["type"] = "string"  # type: ignore[union-attr]


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_what_is_not_an_object_has_no_identity(document: Any) -> None:
    """A file that holds another JSON value is refused, not digested."""
    with pytest.raises(ValueError, match="JSON object"):
        identity_of(freeze(document))
