"""What those who carry out steps share for the length of one drive."""

from dataclasses import dataclass

from hosts.langgraph.attempts import Attempts
from hosts.langgraph.conclusions import Conclusions
from hosts.langgraph.journal import Journal, Open
from hosts.langgraph.readiness import Snapshot
from hosts.langgraph.resolution import Moment, Resolver
from hosts.langgraph.state import Position
from runner.contract.ports import Artifacts, LedgerReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """See the module."""

    reader: LedgerReader
    artifacts: Artifacts
    position: Position
    journal: Journal
    attempts: Attempts
    resolver: Resolver
    conclusions: Conclusions

    @property
    def now(self) -> Snapshot:
        """Where the graph is."""
        return self.position.now

    def seen(self, opened: Open) -> Moment:
        """What the expressions of an open step see."""
        return Moment(now=self.position.now, before=opened.started)
