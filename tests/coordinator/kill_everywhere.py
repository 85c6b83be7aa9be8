"""Executes one Delivery over and over, killed after its n-th record each time, and prints what came of it.

A program of its own, so that it forks before it has any thread.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from runner.contract.ids import DeliveryId
from runner.contract.layout import delivery_layout, leases_dir
from runner.contract.outcomes import Settled
from runner.contract.ports import Case
from runner.contract.records import Record
from runner.ledger import open_reader
from tests.coordinator.fakes import House, activation


def run(root: Path, kill_after: int) -> int:
    """One execute in a child, which leaves its settlement beside the state; the child's wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]

    def listen(record: Record) -> None:
        if record.seq == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_rooms(case: Case) -> None:
        case.ledger.subscribe(listen)

    house = House(root=root)
    house.world.on_rooms = on_rooms
    result = asyncio.run(house.coordinator().execute(activation(root.parent / "worktree")))
    if isinstance(result, Settled):
        (root / "settlement").write_bytes(result.settlement.to_bytes())
    os._exit(0)


def main(base: Path) -> None:
    (base / "worktree").mkdir()
    settlements: set[bytes] = set()
    kills = leases = head = 0
    killed = True
    while killed:
        root = base / "run"
        killed = os.WIFSIGNALED(run(root, kills + 1))
        if killed:
            kills += 1
            run(root, 0)
        settlements.add((root / "settlement").read_bytes())
        leases += len(list(leases_dir(root / "state").glob("*-*")))
        with open_reader(delivery_layout(root / "state", DeliveryId("one"))) as reader:
            head = reader.head()
        shutil.rmtree(root)
    print(json.dumps({"kills": kills, "records": head, "settlements": len(settlements), "leases": leases}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
