"""One episode: prompt, turns, tools and corrections until there is a disposition."""

from typing import Final, assert_never

from runner.contract.ports import Completed, Disposition, Failed
from runner.contract.provider import Correction, Prompt, ToolResults, Turn
from runner.invocation.calls import ModelTurns, Refused
from runner.invocation.classify import REACTIONS, FailureClass
from runner.invocation.completion import CORRECTIONS_MAX, JsonContract
from runner.invocation.tools import ToolCalls
from runner.invocation.turns import Accept, Correct, GiveUp, TurnAnswer, UseTools, next_move

GENERATE_TURNS_MAX: Final = 1 + CORRECTIONS_MAX


class Episode:
    """Runs once. ``tools`` is None for ``generate``, which never runs one."""

    def __init__(self, *, turns: ModelTurns, tools: ToolCalls | None, contract: JsonContract, turns_max: int) -> None:
        self._turns = turns
        self._tools = tools
        self._contract = contract
        self._turns_max = turns_max
        self._corrections = 0
        self._answered = 0

    async def run(self, prompt: str) -> Disposition:
        """The disposition; bounded by ``turns_max``."""
        turn: Turn = Prompt(text=prompt)
        for number in range(1, self._turns_max + 1):
            answer = await self._turns.run(number, turn)
            if isinstance(answer, Refused):
                return self._refused(answer)
            self._answered += 1
            following = await self._follow(answer)
            if not isinstance(following, Correction | ToolResults):
                return following
            turn = following
        return Failed(
            code=FailureClass.LIMIT.value,
            message=f"no result after {self._turns_max} turns",
            retriable=REACTIONS[FailureClass.LIMIT].retriable,
        )

    async def _follow(self, answer: TurnAnswer) -> Disposition | Correction | ToolResults:
        """What comes after ``answer``: the next turn, or the end."""
        tools = self._tools
        move = next_move(answer, offers_tools=tools is not None, contract=self._contract, corrections=self._corrections)
        match move:
            case Accept(value=value):
                return Completed(value=value)
            case GiveUp(disposition=disposition):
                return disposition
            case Correct(findings=findings):
                self._corrections += 1
                return Correction(findings=findings)
            case UseTools(requests=requests):
                self._corrections = 0
                # In the order asked, one at a time: a later one may rely on an earlier one's effect.
                results = [await tools.run(r) for r in requests] if tools is not None else []
                return ToolResults(results=tuple(results))
            case _:
                assert_never(move)

    def _refused(self, refused: Refused) -> Failed:
        """Suspension only while nothing of the step was done: later it would lose what the session knew."""
        failed = refused.failed
        if self._answered or refused.suspend_s is None:
            return failed
        return Failed(code=failed.code, message=failed.message, retriable=failed.retriable, suspend_s=refused.suspend_s)
