"""An endpoint that is down, over real connections: suspended, kept to, and gone on with where it was."""

import datetime as dt
import socket

from runner import Dependencies, RunnerFactory, Settled
from runner.clock import SystemClock
from runner.contract.events import DeliverySuspended, SavepointTaken, ToolCalled
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import DeliveryState, ExecuteResult, Suspended
from tests.delivery.world import EVERYTHING, World, agent
from tests.servers.chunks import Call, Calls, Result
from tests.servers.scripted_openai import ScriptedOpenAi, Status, in_order


class Later(SystemClock):
    """So many seconds have passed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> dt.datetime:
        return super().now() + dt.timedelta(seconds=self._seconds)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def look(world: World) -> DeliveryState:
    return RunnerFactory(world.config()).open_records().inspect(DeliveryId("d1"))


async def test_the_work_before_it_is_kept(world: World) -> None:
    """First nobody listens, then it breaks in the middle of the work. Each time the Delivery suspends and says why; before its
    time nothing is called or recorded; later the open call is made, and no tool call twice."""
    port = free_port()
    world.base_url = f"http://127.0.0.1:{port}/v1"
    activation = world.activation(agent("code", "Paint it.", EVERYTHING).model_copy(update={"attempts_max": 1}))

    async def execute(later_s: float) -> ExecuteResult:
        return await world.execute(activation, Dependencies(clock=Later(later_s)))

    refused = await execute(0.0)
    assert isinstance(refused, Suspended)
    assert (refused.reason, refused.waits) == ("transient", ())
    state = look(world)
    assert (state.phase, state.suspended and state.suspended.not_before) == ("suspended", refused.not_before)
    before = world.kinds()

    wrote = Calls((Call("write", {"path": "src/a", "content": "1;"}),))
    with ScriptedOpenAi(in_order(wrote, Status(502), Result({"summary": "done"})), port) as server:
        assert await execute(30.0) == refused
        assert (world.kinds(), server.requests) == (before, [])

        broke = await execute(100.0)
        assert isinstance(broke, Suspended)
        assert (broke.reason, len(server.requests)) == ("transient", 2)
        assert (world.worktree / "src" / "a").read_text() == "1;"

        done = await execute(200.0)
    assert isinstance(done, Settled)
    assert done.settlement.outcome == "completed"
    assert len(server.requests) == 3
    events = [record.event for record in world.records()]
    assert [e.tool for e in events if isinstance(e, ToolCalled)] == ["write"]
    assert [e.changed for e in events if isinstance(e, SavepointTaken) and e.role == "mid-step"] == [("src/a",)]
    assert [e.step for e in events if isinstance(e, DeliverySuspended)] == ["code@1", "code@1"]
    assert look(world).suspended is None
