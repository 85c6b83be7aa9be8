"""Errors: by whose fault, with a stable code and a remedy."""

import re

import pytest

from runner.contract.errors import (
    CallerError,
    Code,
    EnvironmentFault,
    Finding,
    IntegrityError,
    ProviderError,
    RunnerError,
)

FAMILIES = {
    CallerError: "caller",
    ProviderError: "provider",
    EnvironmentFault: "environment",
    IntegrityError: "integrity",
}


@pytest.mark.parametrize(("error", "name"), FAMILIES.items())
def test_a_family_says_whose_fault_it_is(error: type[RunnerError], name: str) -> None:
    """One root; code, message, remedy and findings travel on the exception."""
    finding = Finding(place="a.yaml:3", problem="is wrong", fix="mend it")
    raised = error(Code.USAGE, "what happened", remedy="do this", findings=[finding])
    assert isinstance(raised, RunnerError)
    assert (raised.family, raised.code, raised.remedy, raised.findings) == (name, Code.USAGE, "do this", (finding,))
    assert str(raised) == "what happened"


def test_there_are_no_other_families() -> None:
    """A fifth family would need an exit code and a place in the threat model."""
    assert set(RunnerError.__subclasses__()) == set(FAMILIES)


def test_codes_are_stable_words() -> None:
    """A code is lower-case words with hyphens, and each stands once."""
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in Code)
    assert all(code.value == code.name.lower().replace("_", "-") for code in Code)


def test_a_finding_reads_as_one_line() -> None:
    """Place, problem, and the fix when there is one."""
    assert str(Finding(place="x.y", problem="is missing", fix="add it")) == "x.y: is missing (add it)"
    assert str(Finding(place="x.y", problem="is odd", fix="")) == "x.y: is odd"
