"""One call of the ``openai`` provider, run as a process of its own by the test that fills its environment with traps."""

import asyncio
import sys

from providers.openai.factory import OpenAiFactory
from runner.contract.canonical import freeze
from runner.contract.provider import Prompt, TurnEnded
from tests.providers.sessions import Leases, dispatch, events_of, executor


async def main(base_url: str) -> None:
    factory = OpenAiFactory()
    for credentials in (Leases(), None):
        realm = await factory.open_realm(freeze({"base_url": base_url, "headers": {"X-Team": "blue"}}), credentials)
        session = await realm.open_session(dispatch(executor(factory)))
        events = await events_of(session, Prompt(text="go"))
        await realm.close()
        assert isinstance(events[-1], TurnEnded), events


asyncio.run(main(sys.argv[1]))
