"""A driver with a tool server that has started others; it says ``spawned`` and waits to be killed."""

import asyncio
import sys
from pathlib import Path

from tests.tool_servers.bench import bench, scripted


async def main(home: Path) -> None:
    async with bench(home, scripted(home)) as b:
        await b.call(await b.admit("spawn"))
        print("spawned", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
