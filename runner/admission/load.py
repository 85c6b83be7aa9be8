"""A package on disk -> a loaded package: read, resolved and checked as far as it goes without repository, binding or input."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.admission.document import Document, read_document
from runner.admission.document import Path as DocumentPath
from runner.admission.lowering import Origins, lower
from runner.admission.package import Package, SetupStep, Tool
from runner.admission.reading import read_package
from runner.admission.regular_file import read_regular
from runner.contract import limits
from runner.contract.activation import AgentAction, Executor, GenerateAction, Workflow
from runner.contract.canonical import FrozenJson, freeze
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.plan import RESERVED_OUTCOMES
from runner.contract.provider import Feature
from runner.interpreter.actions import RESERVED_TOOLS, path_problem
from runner.interpreter.closure import check_workflow, used_roles
from runner.interpreter.expressions import Template, TemplateError
from runner.interpreter.references import instruction_findings

INSTRUCTIONS_BYTES_MAX: Final = limits.TEMPLATE_CHARS_MAX
DEFAULT_BRANCH: Final = "runner/{{ delivery.id }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPackage:
    """A package without findings. Frozen, and complete: nothing of it is read from disk again."""

    path: Path
    name: str
    workflow: Workflow
    instructions: Mapping[str, str]
    """The text of every role's instructions."""
    features: Mapping[str, frozenset[Feature]]
    """What each role's provider must be able to do."""
    tools: Mapping[str, Tool]
    """What its steps call tools of servers, and which these are."""
    setup: tuple[SetupStep, ...]
    branch: str
    """A template for the target branch, over ``input`` and ``delivery``."""
    timeout_s: float | None
    defaults: Mapping[str, FrozenJson]
    """Inputs that may be left out, with their values."""
    origins: Origins


def load_package(path: Path) -> LoadedPackage:
    """The package in the file ``path``; ``CallerError`` (``package-invalid``, or ``kind-not-built`` when that is all that
    is wrong) with every finding, each with ``file:line``. Reads only files in the package's folder; writes nothing."""
    loader = _Loader(path)
    loaded = loader.load()
    if loaded is None or loader.findings:
        raise _refused(path, loader)
    return loaded


class _Loader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path.parent
        self.findings: list[Finding] = []
        self.not_built = 0

    def load(self) -> LoadedPackage | None:
        document, found = read_document(self._package_bytes(), self.path.name)
        self.findings += found
        if document is None:
            return None
        reading = read_package(document)
        self.findings += reading.findings
        self.not_built = reading.not_built
        if reading.package is None:
            return None
        package = reading.package
        files = _Files(self.folder, document, self.findings)
        workflow, origins = lower(package, document, files.schema)
        instructions = self._instructions(package, files, origins)
        for finding in check_workflow(workflow, package.roles, package.tools, partial=reading.partial):
            self.findings.append(origins.moved(finding))
        self._rest(package, workflow, document, reading.partial)
        return LoadedPackage(
            path=self.path,
            name=package.name,
            workflow=workflow,
            instructions=instructions,
            features=_features(workflow),
            tools=package.tools,
            setup=package.setup,
            branch=package.target.branch if package.target is not None else DEFAULT_BRANCH,
            timeout_s=package.limits.timeout_s,
            defaults={n: freeze(s["default"]) for n, s in package.input.items() if "default" in s},
            origins=origins,
        )

    def _package_bytes(self) -> bytes:
        try:
            if self.path.is_dir():
                raise _unreadable(self.path, "it is a folder", "name the package file inside it")
            return read_regular(self.path, limits.PACKAGE_BYTES_MAX)
        except OSError as error:
            raise _unreadable(
                self.path,
                error.strerror or str(error),
                "name a readable file of at most that size" if error.errno is None else "check the path",
            ) from None

    def _instructions(self, package: Package, files: "_Files", origins: Origins) -> dict[str, str]:
        texts = {}
        for number, (role, authored) in enumerate(package.roles.items()):
            place: DocumentPath = ("roles", role, "instructions")
            text, source = authored.instructions.text or "", None
            if authored.instructions.file is not None:
                text, source = files.text(authored.instructions.file, place)
            origins.add(f"executors.{number}.instructions", *(() if source else place), document=source)
            draft = Executor(role=role, provider="", version="", descriptor=_NO_DIGEST, model="", instructions=text)
            found = instruction_findings(draft, f"executors.{number}", frozenset(package.input))
            self.findings += (origins.moved(finding) for finding in found)
            texts[role] = text
        return texts

    def _rest(self, package: Package, workflow: Workflow, document: Document, partial: frozenset[int]) -> None:
        """What the interpreter does not see: roles nobody uses, setup, the target's branch, defaults."""
        for name in (n for n in package.tools if n in RESERVED_TOOLS):
            self._find(document, ("tools", name), f"{name!r} is a tool of the Runner's own", "call it otherwise")
        if not partial:
            for role in sorted(set(package.roles) - used_roles(workflow)):
                self._find(document, ("roles", role), f"no step uses the role {role!r}", "remove it")
        for number, step in enumerate(package.setup):
            self._setup(step, number, document)
        for number, authored in enumerate(package.steps):
            for case in authored.decision.cases if authored.decision is not None else ():
                if case in RESERVED_OUTCOMES:
                    path = ("steps", number, "decision", "cases", case)
                    self._find(
                        document,
                        path,
                        f"the case {case!r} is a reserved outcome",
                        "compare in 'on' and use cases true and false",
                    )
        if package.target is not None:
            self._branch(package.target.branch, document)

    def _setup(self, step: SetupStep, number: int, document: Document) -> None:
        if any("{{" in word or "\x00" in word for word in step.run or ()):
            self._find(document, ("setup", number, "run"), "setup cannot hold expressions", "write plain words")
        for name, path in (("copy", step.copy_path), ("link", step.link)):
            problem = path_problem(path) if path is not None else None
            if path == ".":
                problem = "is the whole worktree"
            if problem is not None:
                self._find(
                    document,
                    ("setup", number, name),
                    f"{path!r:.100} {problem}",
                    "name an ignored path of the repository",
                )

    def _branch(self, branch: str, document: Document) -> None:
        try:
            steps = [r.step for r in Template.parse(branch).references if r.root == "steps"]
        except TemplateError as error:
            self._find(document, ("target", "branch"), str(error), error.fix)
            return
        if steps:
            self._find(document, ("target", "branch"), "the target cannot depend on steps", "use input and delivery.id")

    def _find(self, document: Document, path: DocumentPath, problem: str, fix: str) -> None:
        self.findings.append(Finding(place=document.place(path), problem=problem, fix=fix))


_NO_DIGEST: Final = "sha256:" + "0" * 64


@dataclass(slots=True)
class _Files:
    """Files beside the package: inside its folder (links followed), regular, bounded, each read once."""

    folder: Path
    document: Document
    findings: list[Finding]

    def schema(self, value: FrozenJson, at: DocumentPath) -> tuple[FrozenJson, Document | None]:
        """A schema written in place, or read from a YAML or JSON file. ``True`` (anything) stands in for an unreadable one."""
        if not isinstance(value, str):
            return value, None
        data = self._bytes(value, at, limits.PACKAGE_BYTES_MAX)
        if data is None:
            return True, None
        document, found = read_document(data, value)
        self.findings += found
        if document is None:
            return True, None
        return freeze(document.value), document

    def text(self, name: str, at: DocumentPath) -> tuple[str, Document | None]:
        data = self._bytes(name, at, INSTRUCTIONS_BYTES_MAX)
        if data is None:
            return "", None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            self._refuse(at, name, "is not UTF-8 text")
            return "", None
        return text, Document(name=name, value=text, lines={(): 1})

    def _bytes(self, name: str, at: DocumentPath, bytes_max: int) -> bytes | None:
        problem = path_problem(name)
        if problem is not None:
            self._refuse(at, name, problem.replace("the worktree", "the package's folder"))
            return None
        path = self.folder / name
        try:
            if not path.resolve(strict=True).is_relative_to(self.folder.resolve(strict=True)):
                self._refuse(at, name, "leads out of the package's folder")
                return None
            return read_regular(path, bytes_max)
        except (OSError, RuntimeError) as error:
            self._refuse(at, name, str(getattr(error, "strerror", None) or error))
            return None

    def _refuse(self, at: DocumentPath, name: str, problem: str) -> None:
        fix = "name a file beside the package"
        self.findings.append(Finding(place=self.document.place(at), problem=f"{name!r:.100}: {problem}", fix=fix))


def _features(workflow: Workflow) -> dict[str, frozenset[Feature]]:
    features: dict[str, set[Feature]] = {}
    for step in workflow.steps:
        match step.action:
            case AgentAction(executor=role):
                features.setdefault(role, set()).add("agent")
            case GenerateAction(executor=role):
                features.setdefault(role, set()).add("generate")
            case _:
                continue
    return {role: frozenset(wanted) for role, wanted in features.items()}


def _unreadable(path: Path, why: str, remedy: str) -> CallerError:
    return CallerError(Code.PACKAGE_INVALID, f"the package {str(path)!r:.300} cannot be read: {why}", remedy=remedy)


def _refused(path: Path, loader: _Loader) -> CallerError:
    found = sorted(dict.fromkeys(loader.findings), key=_by_line)
    count = "a problem" if len(found) == 1 else f"{len(found)} problems"
    only_missing = loader.not_built == len(loader.findings)
    return CallerError(
        Code.KIND_NOT_BUILT if only_missing else Code.PACKAGE_INVALID,
        f"the package {path.name!r} has {count}",
        remedy="mend what is listed; docs/package-language.md describes the language",
        findings=found,
    )


def _by_line(finding: Finding) -> tuple[str, int]:
    name, _, line = finding.place.rpartition(":")
    return name, int(line) if line.isdecimal() else 0
