"""A package is read, resolved and checked in one pass, and every finding names file and line."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from runner.admission.document import read_document
from runner.admission.load import load_package
from runner.admission.package import KINDS_NOT_BUILT
from runner.admission.schema import package_schema, schema_text, shipped_text
from runner.contract.activation import AgentAction, CommandAction, DecisionAction
from runner.contract.errors import CallerError, Code
from tests.admission.packages import GOOD, loaded, written


def refused(path: Path) -> CallerError:
    with pytest.raises(CallerError) as caught:
        load_package(path)
    return caught.value


def found(path: Path) -> list[tuple[str, str]]:
    return [(finding.place, finding.problem) for finding in refused(path).findings]


def test_a_package_means_what_its_author_wrote(tmp_path: Path) -> None:
    """Files are read in, cases become routes, defaults are explicit."""
    package = loaded(tmp_path)
    steps = {step.id: step for step in package.workflow.steps}
    plan, tests, on, implement = (steps[name].action for name in ("plan", "tests", "on", "implement"))
    assert isinstance(plan, AgentAction)
    assert plan.result_schema["properties"] == {"summary": {"type": "string"}}
    assert isinstance(implement, AgentAction)
    assert implement.scope.patterns == ("src/**", "tests/**")
    assert implement.result_schema["required"] == ("summary",)
    assert steps["implement"].expect_changes
    assert isinstance(tests, CommandAction)
    assert steps["tests"].timeout_s == 600
    assert isinstance(on, DecisionAction)
    assert [(r.outcome, r.to) for r in steps["on"].routes] == [("true", "review"), ("false", "completed")]
    assert on.default == "false"
    assert steps["review"].attempts_max == 2
    assert package.workflow.input_schema["required"] == ("task",)
    assert package.instructions == {"coder": "You write code.\n", "judge": "You judge {{ input.task }}."}
    assert package.features == {"coder": {"agent"}, "judge": {"generate"}}


PLANTED = """\
name: bad
inputt: {}
input:
  task: { type: strin }
roles:
  coder: { instructions: ../secret.md }
  unused: {}
steps:
  - id: plan
    agent: { role: coder, prompt: "{{ foo }}", result: gone.json }
  - id: implement
    needs: [plan, nope]
    agent: { role: codr, prompt: "{{ steps.review.output }}", scope: ["/src/**"], bar: 1 }
  - id: tests
    needs: [implement]
    command: { run: pytest, timeout_s: 0, scope: read-only }
    routes: { failure: implement, approve: ask }
  - id: ask
    command: { run: ["{{ steps.later.output.stdout }}"], scope: read-only, cwd: ../.. }
    routes: { failure: nowhere }
  - id: later
    needs: [ask]
    scope: read-only
    generate: { role: coder, prompt: hi, result: { type: object, propertis: {} } }
    when: "yes"
  - id: Bad
    command: { run: [x], scope: everything, scope: read-only }
  - id: two
    command: { run: [x], scope: read-only }
    decision: { on: "{{ true }}", cases: { success: plan } }
  - id: choose
    decision: { on: "{{ true }}", cases: { failure: completed } }
    timeout_s: 5
output: { value: "{{ steps.gone.output }}" }
target: { branch: "x/{{ steps.plan.output }}" }
setup:
  - copy: ../../etc/passwd
"""


def test_all_planted_mistakes_are_found_in_one_pass_with_their_lines(tmp_path: Path) -> None:
    """Syntax, shape, meaning, files and graph do not hide each other."""
    error = refused(written(tmp_path, PLANTED))
    expected = [
        (2, "'inputt' is not a known key"),
        (4, "'strin' is not a type"),
        (6, "'../secret.md'"),
        (10, "'scope' is missing"),
        (10, "'foo' is not known"),
        (10, "'gone.json'"),
        (12, "no step 'nope'"),
        (13, "no leading '/'"),
        (13, "'bar' is not a known key"),
        (13, "'codr' has no executor"),
        (13, "no step 'review'"),
        (16, "shell is not true"),
        (16, "greater than 0"),
        (17, "nothing bounds the loop implement -> tests -> implement"),
        (17, "never ends as 'approve'"),
        (19, "'later' is neither before"),
        (19, "cwd '../..'"),
        (20, "no step 'nowhere'"),
        (23, "'scope' does not stand at the step"),
        (24, "'propertis' is not a keyword"),
        (25, "'when' must be exactly one expression"),
        (26, "pattern"),
        (27, "'scope' stands twice"),
        (28, "exactly one of"),
        (32, "reserved outcome"),
        (33, "no 'timeout_s'"),
        (34, "no step 'gone'"),
        (35, "cannot depend on steps"),
        (37, "'../../etc/passwd'"),
    ]
    for line, problem in expected:
        assert any(f.place == f"fix.yaml:{line}" and problem in f.problem for f in error.findings), (line, problem)
    assert error.code is Code.PACKAGE_INVALID
    assert all(f.place.startswith("fix.yaml:") for f in error.findings)


@pytest.mark.parametrize("kind", KINDS_NOT_BUILT)
def test_kinds_that_are_not_built_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    """The author learns that the language has the kind and this Runner has not, and nothing else is held against it."""
    text = f"name: x\nsteps:\n  - id: a\n    {kind}: {{ anything: 1 }}\n"
    error = refused(written(tmp_path, text))
    assert error.code is Code.KIND_NOT_BUILT
    assert [(f.place, f.problem) for f in error.findings] == [("fix.yaml:4", f"step kind '{kind}' is not built yet")]


@pytest.mark.parametrize("field", ["emit", "cleanup"])
def test_fields_that_are_not_built_are_refused_by_name(tmp_path: Path, field: str) -> None:
    """The same for fields."""
    text = f"name: x\nsteps:\n  - id: a\n    {field}: y\n    command: {{ run: [a], scope: read-only }}\n"
    assert found(written(tmp_path, text)) == [("fix.yaml:4", f"'{field}' is not built yet")]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("just text", "fix.yaml:1"),
        ("- a\n", "fix.yaml:1"),
        ("steps: 5\nname: x\n", "fix.yaml:1"),
        ("name: x\n", "fix.yaml:1"),
        ("name: x\nsteps: []\n", "fix.yaml:2"),
        ("name: x\nsteps: [1, [2], null]\n", "fix.yaml:2"),
        ("name: x\nsteps:\n  - {id: a, agent: 5}\n  - {id: b, command: {run: [], scope: 7}}\n", "fix.yaml:3"),
        ("name: x\nroles: 5\ninput: [a]\nsteps:\n  - {id: a, command: {run: [a], scope: read-only}}\n", "fix.yaml:2"),
    ],
)
def test_packages_of_any_shape_are_refused_with_findings(tmp_path: Path, text: str, place: str) -> None:
    """However wrong the outline is, there is a finding and never another exception."""
    assert place in [at for at, _ in found(written(tmp_path, text))]


def test_problems_inside_a_schema_file_name_that_file_and_line(tmp_path: Path) -> None:
    """The place is where the author must edit."""
    path = written(tmp_path, **{"plan.schema.json": '{\n  "type": "object",\n  "requird": []\n}\n'})
    (place, problem), *_ = found(path)
    assert place == "plan.schema.json:3"
    assert "'requird' is not a keyword" in problem


@pytest.mark.parametrize(
    "name", ["../coder.md", "/etc/passwd", "a/../../x", "", "link.md", "folder", "gone.md", "pipe", ".git/config"]
)
def test_files_outside_the_package_are_never_read(tmp_path: Path, name: str) -> None:
    """Paths cannot leave the package's folder by dots, by links or by being something else than a file."""
    import os

    (tmp_path / "coder.md").write_text("secret")
    folder = tmp_path / "package"
    path = written(folder, GOOD.replace("instructions: coder.md", f"instructions: {name!r}"))
    (folder / "link.md").symlink_to(tmp_path / "coder.md")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    assert [place for place, _ in found(path)] == ["fix.yaml:8"]


def test_a_missing_package_and_a_folder_are_said_plainly(tmp_path: Path) -> None:
    """No traceback for what a user can type."""
    assert "No such file" in refused(tmp_path / "gone.yaml").message
    assert "is a folder" in refused(tmp_path).message


def test_the_same_package_as_json_means_the_same(tmp_path: Path) -> None:
    """JSON is accepted, tabs and all."""
    import json

    document, _ = read_document(GOOD.encode(), "x")
    assert document is not None
    path = written(tmp_path, json.dumps(document.value, indent="\t"), name="fix.json")
    assert load_package(path).workflow == loaded(tmp_path).workflow


def test_a_thousand_steps_load(tmp_path: Path) -> None:
    """Long packages are ordinary ones."""
    lines = ["name: long", "steps:"]
    for n in range(1000):
        needs = f", needs: [s{n - 1}]" if n else ""
        lines.append(f"  - {{id: s{n}{needs}, command: {{run: [echo, '{n}'], scope: read-only}}}}")
    assert len(load_package(written(tmp_path, "\n".join(lines))).workflow.steps) == 1000


def test_the_shipped_schema_is_current_and_takes_a_good_package() -> None:
    """Editors complete what admission accepts. To renew it: python -m runner.admission.schema"""
    assert shipped_text() == schema_text()
    document, _ = read_document(GOOD.encode(), "x")
    assert document is not None
    Draft202012Validator.check_schema(package_schema())
    Draft202012Validator(package_schema()).validate(document.value)


def test_each_pattern_of_a_scope_that_is_none_is_found_at_its_line(tmp_path: Path) -> None:
    """With what to write instead; the good ones beside it are no findings."""
    bad = ["!x", "/abs", "../up", "", ".git/hooks", "good", "a[b]", "**/**"]
    lines = "".join(f'        - "{pattern}"\n' for pattern in ("good", *bad))
    text = f"name: x\nsteps:\n  - id: a\n    command:\n      run: [make]\n      scope:\n{lines}"
    told = refused(written(tmp_path, text)).findings
    assert [(f.place.rpartition(":")[2], bool(f.fix)) for f in told] == [(str(n), True) for n in range(8, 16)]
