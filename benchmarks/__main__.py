"""``python -m benchmarks [PART ...] [--tiny] [--json | --markdown]``: figures beside their budgets."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Final

from benchmarks import crowd, custody, recovering, starting, stepping
from benchmarks.figures import FULL, TINY, Figure, Sizes, machine, markdown, table

PARTS: Final[dict[str, Callable[[Sizes], tuple[Figure, ...]]]] = {
    "step": stepping.run,
    "recovery": recovering.run,
    "start": starting.run,
    "crowd": crowd.run,
    "custody": custody.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], help=f"which; all without one: {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="as small as it can be: does it run at all?")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument("--markdown", action="store_true", help="the table of docs/performance.md")
    asked = parser.parse_args()
    facts = machine()
    figures: list[Figure] = []
    for name in asked.part or PARTS:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        figures += PARTS[name](TINY if asked.tiny else FULL)
    if asked.json:
        print(json.dumps({"machine": facts, "figures": [figure.document() for figure in figures]}, indent=2))
    elif asked.markdown:
        print(markdown(figures, facts))
    else:
        print(table(figures))
        print("\n" + "\n".join(f"{name:<12} {value}" for name, value in facts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
