"""One ledger entry, and the drafts it is made from."""

from dataclasses import dataclass

from runner.contract.events import Event
from runner.contract.ids import StepRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A fact an owner wants recorded. Sequence and generation come from the store, and time unless ``at`` says it: that of a
    fact which is taken over from another Delivery."""

    event: Event
    step: StepRef | None = None
    attempt: int | None = None
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A recorded fact. ``seq`` is dense from 1; ``at`` is RFC 3339 UTC with microseconds, for people only, never order."""

    seq: int
    at: str
    generation: int
    event: Event
    step: StepRef | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """Something another process left for the driver. The same ``id`` counts once."""

    id: str
    kind: str
    body: str
    who: str
    at: str
