"""How rooms meet: narrow protocols, handed over by the factory. A caller gets only the operations it may use.

The store, custody and the tools are synchronous (callers in async rooms use threads); host, invocation and coordinator are
async. ``CancelledError`` always travels on.
"""

from runner.contract.ports.assembly import Assembly, Case, Rooms
from runner.contract.ports.custody import (
    Accepted,
    CustodyLifecycle,
    EnvironmentChanged,
    ForeignEdit,
    Savepoint,
    Verdict,
    Violation,
    Workspaces,
)
from runner.contract.ports.host import (
    Boundary,
    HostIntervention,
    HostStopped,
    HostSuspended,
    TerminalProposal,
    WorkflowHost,
)
from runner.contract.ports.invocation import (
    ActionInvocation,
    AwaitingInput,
    Completed,
    Dispatch,
    Disposition,
    Failed,
    Invalid,
    InvocationControl,
    Uncertain,
)
from runner.contract.ports.ledger import Artifacts, Ledger, LedgerReader, LedgerWriter
from runner.contract.ports.operations import CommandRequest, CommandResult, Operations
from runner.contract.ports.surroundings import Answer, Bridge, Clock, Deferred, Observer, Progress
from runner.contract.ports.tools import DeclaredTools, OfferedTool, PythonTool, ToolUnknown

__all__ = (
    "Accepted",
    "ActionInvocation",
    "Answer",
    "Artifacts",
    "Assembly",
    "AwaitingInput",
    "Boundary",
    "Bridge",
    "Case",
    "Clock",
    "CommandRequest",
    "CommandResult",
    "Completed",
    "CustodyLifecycle",
    "DeclaredTools",
    "Deferred",
    "Dispatch",
    "Disposition",
    "EnvironmentChanged",
    "Failed",
    "ForeignEdit",
    "HostIntervention",
    "HostStopped",
    "HostSuspended",
    "Invalid",
    "InvocationControl",
    "Ledger",
    "LedgerReader",
    "LedgerWriter",
    "Observer",
    "OfferedTool",
    "Operations",
    "Progress",
    "PythonTool",
    "Rooms",
    "Savepoint",
    "TerminalProposal",
    "ToolUnknown",
    "Uncertain",
    "Verdict",
    "Violation",
    "WorkflowHost",
    "Workspaces",
)
