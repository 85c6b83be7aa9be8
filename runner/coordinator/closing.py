"""Performs the terminal order: asks ``settlement`` what comes next, has it done, reads the facts again.

Crash safety. Each act is done by its owner, which records the fact itself; a kill before the fact repeats the act, which is
idempotent under the same authorization, and a kill after it does not. The worktree lease goes *before* the coordinator's
retirement is recorded: the other way round a kill in between would leave a lease that no later execute looks at, because a
recorded fact is not done again. Freed first, a restart finds no lease of its own, frees nothing, and records the fact. In
that window another Delivery may already take the worktree; custody has retired by then and this one never touches it again.
"""

from pathlib import Path
from typing import assert_never

from runner.contract.errors import Code, IntegrityError
from runner.contract.events import DeliverySettled, OwnerRetired, RetirementAuthorized
from runner.contract.ids import Digest
from runner.contract.outcomes import Outcome, Retirement, Settlement
from runner.contract.plan import Plan
from runner.contract.ports import Rooms
from runner.coordinator import lease
from runner.coordinator.joining import in_thread, to_end
from runner.coordinator.journal import Journal, terminal_facts
from runner.coordinator.settlement import Act, TerminalFacts, authorization_of, next_act, settlement_of


class Closing:
    """The end of one Delivery whose terminal is recorded."""

    def __init__(self, *, state_root: Path, plan: Plan, journal: Journal, rooms: Rooms | None) -> None:
        self._state_root = state_root
        self._plan = plan
        self._journal = journal
        self._rooms = rooms
        """None when every other room has retired."""

    async def settle(self) -> Settlement:
        """Goes on where the ledger ends, up to the settlement. An ``EnvironmentFault`` (a publication that nobody can
        know yet among them) leaves the Delivery open; the next call goes on from there."""
        facts = await in_thread(terminal_facts, self._journal.ledger)
        if facts.preserved is None:
            await in_thread(self._look_at_everything)
        while facts.settlement is None:
            act = next_act(facts)
            await self._perform(act, facts)
            before, facts = facts, await in_thread(terminal_facts, self._journal.ledger)
            if facts == before:
                raise IntegrityError(
                    Code.LEDGER_ORDER,
                    f"{self._plan.delivery}: '{act}' left no fact in the ledger",
                    remedy="this is a defect of the Runner: report it with this message",
                )
        return facts.settlement

    def _look_at_everything(self) -> None:
        """``IntegrityError`` for the first record that does not hold. A resumed driver has read only what it needed; what it
        did not is looked at before anything is published."""
        for _ in self._journal.ledger.read():
            pass

    async def _perform(self, act: Act, facts: TerminalFacts) -> None:
        match act:
            case "preserve":
                custody = self._needed().custody
                await in_thread(custody.settle_interrupted)
                await in_thread(custody.preserve)
            case "publish":
                requested = facts.proposed is not None and facts.proposed.outcome is Outcome.COMPLETED
                await in_thread(self._needed().custody.publish, requested=requested)
            case "authorize":
                event = RetirementAuthorized(authorization=authorization_of(self._plan, facts))
                await in_thread(self._journal.record, event)
            case "retire-host":
                await to_end(self._needed().host.retire(self._authorization(facts)))
            case "retire-invocation":
                await to_end(self._needed().invocation.retire(self._authorization(facts)))
            case "retire-custody":
                await in_thread(self._needed().custody.retire, self._authorization(facts))
            case "retire-coordinator":
                await in_thread(self._retire, self._authorization(facts))
            case "settle":
                await in_thread(self._journal.record, DeliverySettled(settlement=settlement_of(self._plan, facts)))
            case "done":
                pass
            case _:
                assert_never(act)

    def _retire(self, authorization: Digest) -> None:
        lease.release(self._state_root, self._plan.delivery)
        self._journal.record(OwnerRetired(retirement=Retirement(owner="coordinator", authorization=authorization)))

    def _authorization(self, facts: TerminalFacts) -> Digest:
        expected = authorization_of(self._plan, facts)
        if facts.authorization != expected:
            raise IntegrityError(
                Code.AUTHORIZATION_FOREIGN,
                f"{self._plan.delivery}: the recorded authorization is not the one for this terminal",
                remedy="restore the Delivery's directory from a backup",
            )
        return expected

    def _needed(self) -> Rooms:
        if self._rooms is None:
            raise IntegrityError(Code.LEDGER_ORDER, f"{self._plan.delivery}: a room retired before its work was done")
        return self._rooms
