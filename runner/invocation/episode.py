"""One episode: prompt, turns, tools and corrections until there is a disposition. What a resumed attempt finds recorded goes
through here again like everything else, so that nothing depends on whether it was interrupted."""

from typing import Final, assert_never

from runner.contract.ports import Completed, Disposition, Failed
from runner.contract.provider import Correction, Prompt, ToolResults, Turn
from runner.invocation.calls import ModelTurns
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

    async def run(self, prompt: str) -> Disposition:
        """The disposition; bounded by ``turns_max``."""
        turn: Turn = Prompt(text=prompt)
        for number in range(1, self._turns_max + 1):
            answer = await self._turns.run(number, turn)
            if isinstance(answer, Failed):
                return answer
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
                return ToolResults(results=()) if tools is None else await tools.run(requests)
            case _:
                assert_never(move)
