"""Why a drive comes to its end, and what that means for what runs. Flags are only ever raised; everybody looks at them."""

from typing import Final

from hosts.langgraph.journal import Journal
from runner.contract.ids import SiteId
from runner.contract.outcomes import Reason
from runner.contract.plan import Site
from runner.contract.ports import HostIntervention


class Asked:
    """What was asked of the host from outside. Set from any thread; read on the event loop."""

    def __init__(self) -> None:
        self.stop = False
        self.cancel: Reason | None = None
        self.answered = False
        """An answer was recorded, and nobody has looked for it yet."""
        self.inquired: Final[set[str]] = set()
        """Openings that were put to the bridge: once each, over all drives of this host."""
        self.abort = False
        """The task that drives was cancelled: end everything now, leave every attempt open."""


class Winding:
    """The flags of one drive."""

    def __init__(self, asked: Asked, journal: Journal) -> None:
        self.asked: Final = asked
        self._journal: Final = journal
        self.intervention: HostIntervention | None = None
        self.fault: BaseException | None = None

    def fail(self, error: BaseException | None) -> None:
        """The first fault stands."""
        self.fault = self.fault or error

    @property
    def finished(self) -> SiteId | None:
        """The step whose end ends the Delivery."""
        return self._journal.finished()

    @property
    def on(self) -> bool:
        """Whether nothing may start any more."""
        return self.asked.stop or self.intervention is not None or self._ends_all

    @property
    def _ends_all(self) -> bool:
        asked = self.asked
        return asked.abort or asked.cancel is not None or self.fault is not None or self.finished is not None

    def cuts(self, site: Site) -> bool:
        """Whether the running step of ``site`` is cut short. An intervention lets the others finish, but for questions; a
        stop lets a begun command finish, since it could not be resumed."""
        if site.action.kind == "approval":
            return self.on
        begun_command = site.action.kind == "command" and site.id in self._journal.open
        return self._ends_all or (self.asked.stop and not begun_command)

    def keeps_attempts(self) -> bool:
        """Whether attempts that are cut short stay open for a later drive, their files as they are."""
        asked = self.asked
        for_good = asked.cancel is not None or self.finished is not None
        return asked.abort or self.fault is not None or not for_good
