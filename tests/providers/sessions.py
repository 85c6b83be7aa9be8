"""Dispatches and other small values that the provider tests start from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runner.contract.activation import Executor
from runner.contract.canonical import freeze
from runner.contract.ids import DeliveryId, StepRef
from runner.contract.provider import NativeSession, ProviderFactory, SessionDispatch, ToolSpec, Turn, TurnEvent

SCHEMA = freeze({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]})
READ = ToolSpec(
    name="read",
    description="Reads a file.",
    parameters=freeze({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    effect="read",
)
SECRET = "sk-live-0123456789abcdef"


def executor(factory: ProviderFactory, model: str = "m", options: Any = None) -> Executor:
    descriptor = factory.descriptor
    return Executor(
        role="worker",
        provider=descriptor.key,
        version=descriptor.version,
        descriptor=descriptor.digest,
        model=model,
        options=options,
    )


def dispatch(
    bound: Executor,
    *,
    tools: tuple[ToolSpec, ...] = (READ,),
    schema: Any = SCHEMA,
    step: str = "plan@1",
    system: str = "Work in /srv/tree.",
    worktree: str | None = "/srv/tree",
) -> SessionDispatch:
    return SessionDispatch(
        delivery=DeliveryId("d1"),
        step=StepRef.parse(step),
        attempt=1,
        executor=bound,
        system=system,
        tools=tools,
        result_schema=freeze(schema),
        worktree=worktree,
    )


async def events_of(session: NativeSession, turn: Turn) -> list[TurnEvent]:
    return [event async for event in session.run(turn)]


class Leases:
    """Credentials that count how often they are leased and whether a lease is open."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.taken = 0
        self.open = 0

    @contextmanager
    def lease(self) -> Iterator[str]:
        self.taken += 1
        self.open += 1
        try:
            yield self.secret
        finally:
            self.open -= 1
