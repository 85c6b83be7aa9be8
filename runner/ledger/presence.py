"""Is there a ledger? Looking tells "none yet" from "gone" and from "you may not look"."""

import os
from pathlib import Path

from runner.contract.layout import DeliveryLayout
from runner.ledger.codec import corrupt
from runner.ledger.files import written_at


def has_ledger(layout: DeliveryLayout) -> bool:
    """Whether the Delivery has a ledger. A driver makes it before anything else but its fence, so what stands there without
    one is the rest of a Delivery whose ledger was lost: ``IntegrityError``, or the finished effects would be repeated.
    A collected Delivery has none, whatever of it is still there. ``EnvironmentFault`` where nobody may look."""
    with written_at(layout.ledger):
        if _is_there(layout.tombstone):
            return False
        if _is_there(layout.ledger):
            return True
        left = [path.name for path in (layout.store, layout.artifacts, layout.checkpoints) if _is_there(path)]
    if left:
        raise corrupt(layout.ledger, f"it is gone, but {', '.join(left)} of this Delivery are still there")
    return False


def _is_there(path: Path) -> bool:
    """Unlike ``exists``, fails where it cannot know."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
