"""Where a Delivery's files are: one directory, closed, so that it can be moved or copied as a whole. Pure paths."""

from dataclasses import dataclass
from pathlib import Path

from runner.contract.ids import DeliveryId


@dataclass(frozen=True, slots=True)
class DeliveryLayout:
    root: Path

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.sqlite"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints.sqlite"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def store(self) -> Path:
        """The private bare git store of custody."""
        return self.root / "store.git"

    @property
    def fence(self) -> Path:
        return self.root / "fence.lock"

    @property
    def owner(self) -> Path:
        """Who holds the fence; for messages only."""
        return self.root / "owner.json"

    @property
    def readers(self) -> Path:
        """Whoever reads the stores shares a lock on it."""
        return self.root / "read.lock"

    @property
    def tombstone(self) -> Path:
        """What stays of a collected Delivery."""
        return self.root / "tombstone.json"


def delivery_layout(state_root: Path, delivery: DeliveryId) -> DeliveryLayout:
    return DeliveryLayout(state_root / "deliveries" / delivery)


def backoff_file(state_root: Path, provider: str) -> Path:
    """How long nobody under ``state_root`` calls ``provider``, which asked for a pause."""
    return state_root / "backoff" / f"{provider}.json"


def made_worktree(state_root: Path, delivery: str) -> Path:
    """Where a worktree of its own is made for a Delivery."""
    return state_root / "worktrees" / delivery


def leases_dir(state_root: Path) -> Path:
    """One file per leased worktree, named by device and inode."""
    return state_root / "leases"
