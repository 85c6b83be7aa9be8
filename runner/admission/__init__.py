"""What exactly may run? A package, a worktree, bindings and an input become one frozen activation, or a list of findings.

Owned invariants
- Everything that is wrong with a package is reported in one pass, each finding with ``file:line`` and what to do.
- An activation holds everything resolved and nothing to be looked up: no selector, no environment variable, no secret, no path
  back to the package.
- Reading a package opens only files in its own folder, starts nothing and writes nothing.
- Nothing that a repository's configuration names is ever executed.
"""

from runner.admission.admit import admit, check, checked_input, input_value, target_of
from runner.admission.bindings import Binding, parse_binding, parse_bindings
from runner.admission.fork import admit_again, admit_changed
from runner.admission.load import LoadedPackage, load_package
from runner.admission.package import SetupStep
from runner.admission.setup import run_setup
from runner.admission.target import target_expected
from runner.admission.tools import declared_tools, servers_of
from runner.admission.worktree import (
    Checkout,
    Repository,
    claim_worktree,
    discover,
    in_place,
    make_worktree,
    planned_worktree,
    remove_worktree,
)

__all__ = [
    "Binding",
    "Checkout",
    "LoadedPackage",
    "Repository",
    "SetupStep",
    "admit",
    "admit_again",
    "admit_changed",
    "check",
    "checked_input",
    "claim_worktree",
    "declared_tools",
    "discover",
    "in_place",
    "input_value",
    "load_package",
    "make_worktree",
    "parse_binding",
    "parse_bindings",
    "planned_worktree",
    "remove_worktree",
    "run_setup",
    "servers_of",
    "target_expected",
    "target_of",
]
