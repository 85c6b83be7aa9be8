"""Packages for the tests."""

from pathlib import Path

from runner.admission.load import LoadedPackage, load_package
from runner.contract.provider import ProviderDescriptor

GOOD = """\
name: fix tests
input:
  task: { type: string }
  rounds: { type: integer, default: 2 }
setup:
  - run: ["true"]
roles:
  coder: { instructions: coder.md }
  judge: { instructions: { text: "You judge {{ input.task }}." } }
steps:
  - id: plan
    agent: { role: coder, prompt: "{{ input.task }}", scope: read-only, result: plan.schema.json }
  - id: implement
    needs: [plan]
    expect: changes
    agent:
      role: coder
      prompt: |
        Do {{ steps.plan.output.summary }}
      scope: ["src/**", "tests/**"]
  - id: tests
    needs: [implement]
    command: { run: [pytest, -q], scope: read-only }
    routes: { success: on, failure: implement }
    budget: { visits: 3 }
  - id: on
    decision: { on: "{{ steps.tests.visit > 1 }}", cases: { true: review, false: completed }, default: false }
  - id: review
    retry: { attempts: 2 }
    generate: { role: judge, prompt: Judge., input: { diff: "{{ steps.tests.output.stdout }}" } }
output:
  value: { text: "{{ has(steps.review) ? steps.review.output.summary : '' }}" }
  schema: { type: object, required: [text] }
target: { branch: "fix/{{ delivery.id }}" }
limits: { timeout_s: 3600 }
"""
PLAN_SCHEMA = '{\n\t"type": "object",\n\t"properties": {"summary": {"type": "string"}},\n\t"required": ["summary"]\n}\n'

DESCRIPTORS = {
    "openai": ProviderDescriptor(key="openai", version="1", features=("agent", "generate")),
    "narrow": ProviderDescriptor(key="narrow", version="1", features=("generate",)),
    "recorded": ProviderDescriptor(key="recorded", version="1", features=("agent", "generate")),
}


def written(directory: Path, text: str = GOOD, name: str = "fix.yaml", **files: str) -> Path:
    """The package and its files on disk."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "coder.md").write_text("You write code.\n")
    (directory / "plan.schema.json").write_text(PLAN_SCHEMA)
    for file, content in files.items():
        (directory / file).write_text(content)
    path = directory / name
    path.write_text(text)
    return path


def loaded(directory: Path, text: str = GOOD) -> LoadedPackage:
    return load_package(written(directory, text))
