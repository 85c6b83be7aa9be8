"""The house's own checks, as ``make lint`` runs them: capabilities, style, tracked files, generated pages."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.house import capabilities, event_table, style, tracked
from tests.house.source import PROJECT, Breach

CHECKS: Final[dict[str, Callable[[Path], Iterator[Breach]]]] = {
    "capabilities": capabilities.breaches,
    "style": style.breaches,
    "tracked files": tracked.breaches,
    "docs/events.md": event_table.breaches,
}


def main() -> int:
    """0 when every check holds; else 1, after every breach was named."""
    status = 0
    for name, check in CHECKS.items():
        found = list(check(PROJECT))
        print(f"{name}: {len(found)} breaches" if found else f"{name}: kept")
        for breach in found:
            print(f"  {breach}")
        status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
