"""Bridges for tests."""

from runner.contract.ids import DeliveryId
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Deferred


class Nobody:
    """Answers nothing, ever."""

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Deferred:
        return Deferred()
