"""Drive one Delivery from your own program: execute it, look at it, and see that a cancel comes too late.

    python examples/embed.py runner.toml activation.json

``runner admit`` writes the activation. Run the same command again after a crash (or for fun, after the end): what finished
is not repeated, and the answer is the same.
"""

import asyncio
import sys
from pathlib import Path

from runner import (
    Busy,
    Dependencies,
    Interrupted,
    NeedsIntervention,
    RunnerFactory,
    RunnerFactoryConfig,
    Settled,
    Suspended,
)
from runner.contract.canonical import parse
from runner.contract.errors import RunnerError
from runner.contract.ids import StepRef, delivery_id
from runner.contract.records import Record


class Printer:
    """An observer: told what is already durable, able to change nothing."""

    def record(self, record: Record) -> None:
        print(f"{record.seq:5} {record.event.KIND:24} {record.step or ''}")

    def progress(self, step: StepRef, text: str) -> None:
        """Streamed output of a running step; this example does not show it."""


async def main(config_file: Path, activation_file: Path) -> int:
    factory = RunnerFactory(RunnerFactoryConfig.load(config_file))
    document = activation_file.read_bytes()
    async with factory.open(Dependencies(observer=Printer())) as runner:
        result = await runner.execute(document)
        match result:
            case Settled(settlement=settlement):
                publication = settlement.publication
                print(f"{settlement.outcome}: {publication.disposition} {publication.ref} {publication.new}")
            case Suspended(reason=reason, detail=detail) | NeedsIntervention(reason=reason, detail=detail):
                print(f"open, {reason}: {detail}")
            case Busy(host=host, pid=pid, since=since):
                print(f"driven by pid {pid} on {host} since {since}")
            case Interrupted(detail=detail):
                print(f"stopped, execute again to continue: {detail}")

        delivery = delivery_id(parse(document)["delivery"])
        state = await runner.inspect(delivery)
        print(f"{state.phase}, {state.records} records, {len(state.steps)} steps")
        ack = await runner.cancel(delivery)
        print(f"cancel: {ack.disposition}")
    return 0 if isinstance(result, Settled) else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: python examples/embed.py CONFIG ACTIVATION", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]))))
    except RunnerError as error:
        sys.exit(f"{error.code}: {error.message}")
