"""Names of things. A name from outside is checked here once and never becomes a path, a ref or a shell word unchecked."""

import re
from dataclasses import dataclass
from typing import Final, NewType

from runner.contract.errors import CallerError, Code

DeliveryId = NewType("DeliveryId", str)
SiteId = NewType("SiteId", str)
CallId = NewType("CallId", str)
Digest = NewType("Digest", str)
"""``sha256:`` and 64 lower-case hex digits."""
ObjectId = NewType("ObjectId", str)
"""A full git object id in lower-case hex (40 digits; 64 in a SHA-256 repository)."""

DELIVERY_ID_PATTERN: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
SITE_ID_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"
DIGEST_PATTERN: Final = r"sha256:[0-9a-f]{64}"
OBJECT_ID_PATTERN: Final = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"

TERMINALS: Final = ("completed", "incomplete", "failed")
"""Where a route may end a Delivery. They are reserved: no step has one of these ids."""


def delivery_id(text: str) -> DeliveryId:
    """``text`` as a Delivery id, or a ``CallerError``. The rule keeps an id safe as a directory name and a ref component."""
    if not re.fullmatch(DELIVERY_ID_PATTERN, text):
        raise CallerError(
            Code.DELIVERY_ID_INVALID,
            f"{text[:80]!r} cannot name a Delivery",
            remedy="use 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'",
        )
    return DeliveryId(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRef:
    """A site at one visit and, inside groups, one item. ``visit`` counts from 1; ``item`` is the path of item indexes."""

    site: SiteId
    visit: int = 1
    item: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The stable text form, ``site@visit`` then ``#index`` for each item level: ``tests@2``, ``each@1#0``."""
        return f"{self.site}@{self.visit}" + "".join(f"#{i}" for i in self.item)

    @staticmethod
    def parse(key: str) -> "StepRef":
        """The inverse of ``key``; a ``ValueError`` for anything else."""
        match = re.fullmatch(rf"({SITE_ID_PATTERN})@([1-9][0-9]*)((?:#[0-9]+)*)", key)
        if match is None:
            raise ValueError(f"not a step key: {key!r}")
        items = tuple(int(part) for part in match[3].split("#")[1:])
        return StepRef(site=SiteId(match[1]), visit=int(match[2]), item=items)

    def __str__(self) -> str:
        """How people see it: ``tests``, ``tests.visit[2]``, ``each[0]``."""
        visit = "" if self.visit == 1 else f".visit[{self.visit}]"
        return f"{self.site}{visit}" + "".join(f"[{i}]" for i in self.item)
