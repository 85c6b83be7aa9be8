"""The same work on plain LangGraph with ``AsyncSqliteSaver`` and ``durability="sync"``, as a user would write it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}, "recursion_limit": 100_000}


class Ended(TypedDict):
    outcome: str
    visit: int


def merged(before: dict[str, Ended], news: dict[str, Ended]) -> dict[str, Ended]:
    return {**before, **news}


class Known(TypedDict):
    """What the Runner knows of each site too: how it ended last, and at which visit."""

    steps: Annotated[dict[str, Ended], merged]


def graph(steps: int, effect: Callable[[], None] | None) -> "StateGraph[Any, Any, Any, Any]":
    """A loop of two nodes that do nothing, ``steps`` times in all; then ``effect``."""

    def again(state: Known) -> str:
        return "again" if state["steps"]["one"]["visit"] < steps // 2 else "on"

    def ended(state: Known, site: str, outcome: str) -> Known:
        visit = state["steps"][site]["visit"] + 1 if site in state["steps"] else 1
        return {"steps": {site: {"outcome": outcome, "visit": visit}}}

    async def one(state: Known) -> Known:
        return ended(state, "one", "on")

    async def two(state: Known) -> Known:
        return ended(state, "two", again(state))

    async def act(state: Known) -> Known:
        if effect is not None:
            await asyncio.to_thread(effect)
        return ended(state, "effect", "success")

    def leads(state: Known) -> str:
        return "one" if state["steps"]["two"]["outcome"] == "again" else "effect"

    built: StateGraph[Any, Any, Any, Any] = StateGraph(Known)
    for name, node in (("one", one), ("two", two), ("effect", act)):
        built.add_node(name, node)
    built.add_edge(START, "one")
    built.add_edge("one", "two")
    built.add_conditional_edges("two", leads, ["one", "effect"])
    built.add_edge("effect", END)
    return built


async def invoke(database: Path, steps: int, effect: Callable[[], None] | None = None, *, again: bool = False) -> None:
    """From the start, or ``again`` from where a killed process left it."""
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        compiled = graph(steps, effect).compile(checkpointer=saver)
        begin: Known | None = None if again else {"steps": {}}
        await compiled.ainvoke(begin, CONFIG, durability="sync")
