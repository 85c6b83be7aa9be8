"""Do executors, worktree and target of an activation make sense by themselves? Pure: nothing is looked up."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from runner.contract.activation import Activation, DeclaredTool, Executor, tool_digest
from runner.contract.errors import Finding
from runner.interpreter.actions import RESERVED_TOOLS
from runner.interpreter.references import instruction_findings
from runner.interpreter.schemas import foreign_schema_findings

_REF_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def executor_findings(executors: Sequence[Executor], used: AbstractSet[str]) -> Iterator[Finding]:
    """Roles bound twice or never used, and instructions that do not hold."""
    seen: set[str] = set()
    for number, executor in enumerate(executors):
        place = f"executors.{number}"
        if executor.role in seen:
            yield Finding(place=place, problem=f"the role {executor.role!r} is bound twice", fix="remove one")
        elif executor.role not in used:
            yield Finding(place=place, problem=f"no step uses the role {executor.role!r}", fix="remove it")
        seen.add(executor.role)
        yield from instruction_findings(executor, place)


def tool_findings(tools: Sequence[DeclaredTool]) -> Iterator[Finding]:
    """Names that are taken, schemas that cannot be used, and tools that are not what their digest says."""
    seen: set[str] = set()
    for number, tool in enumerate(tools):
        place = f"tools.{number}"
        if tool.name in RESERVED_TOOLS or tool.name in seen:
            what = "is the Runner's own" if tool.name in RESERVED_TOOLS else "is declared twice"
            yield Finding(place=place, problem=f"the tool {tool.name!r} {what}", fix="call it otherwise")
        seen.add(tool.name)
        if not isinstance(tool.parameters, Mapping) or tool.parameters.get("type") != "object":
            yield Finding(place=place, problem="its parameters are no schema of an object", fix="use another tool")
            continue
        yield from foreign_schema_findings(tool.parameters, f"{place}.parameters")
        if tool.digest != tool_digest(tool.remote, tool.description, tool.parameters):
            yield Finding(place=f"{place}.digest", problem="is not the digest of this tool", fix="admit it again")


def surrounding_findings(activation: Activation) -> Iterator[Finding]:
    """The worktree's path, the ids of the base, and the target's name."""
    workspace = activation.workspace
    parts = workspace.worktree.split("/")
    if not workspace.worktree.startswith("/") or "\x00" in workspace.worktree or {"..", "."} & set(parts):
        problem = "is not a canonical absolute path"
        yield Finding(place="workspace.worktree", problem=problem, fix="give the worktree's real path")
    if len(workspace.base_tree) != len(workspace.base_commit):
        problem = "is an id of another hash than base_commit"
        yield Finding(place="workspace.base_tree", problem=problem, fix="give the tree of base_commit")
    if problem_of_ref := ref_problem(activation.target.ref):
        yield Finding(place="target.ref", problem=problem_of_ref, fix="see git check-ref-format")


def ref_problem(ref: str) -> str | None:
    """Why git would not take ``ref`` as a full ref name, or None. The same rules as ``git check-ref-format``."""
    match = _REF_FORBIDDEN.search(ref)
    if match is not None:
        return f"a ref cannot hold {match[0]!r}"
    if ref.endswith(("/", ".")) or ref.startswith("/"):
        return "a ref cannot begin or end with '/', or end with '.'"
    if any(part.startswith(".") or part.endswith(".lock") for part in ref.split("/")):
        return "a component of a ref cannot begin with '.' or end with '.lock'"
    if len(ref.encode()) > 240 or any(len(part.encode()) > 200 for part in ref.split("/")):
        return "the ref is too long for a file name"
    return None
