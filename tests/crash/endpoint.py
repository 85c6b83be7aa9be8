"""The scripted server in a process of its own, so that whoever forks drivers has no threads.

It keeps no position: the n-th reply of a session answers a conversation that holds n-1 answers. So a request that is made
twice gets the same reply twice, and both are counted: ``SITE/n`` in the file of effects.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.scenario import Scenario
from tests.servers.scripted_openai import Reply, ScriptedOpenAi, Status, reply_of


@contextmanager
def endpoint(scenario: Scenario, effects: Path) -> Iterator[str]:
    """The server's base URL; without scripted replies there is no server."""
    if not scenario.model:
        yield "http://127.0.0.1:9/v1"
        return
    url_r, url_w = os.pipe()
    end_r, end_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(end_w)
        try:
            with ScriptedOpenAi(_script(scenario, effects)) as server:
                os.write(url_w, server.base_url.encode())
                os.close(url_w)
                os.read(end_r, 1)
        finally:
            os._exit(0)
    os.close(url_w)
    os.close(end_r)
    try:
        yield os.read(url_r, 1000).decode()
    finally:
        os.close(url_r)
        os.close(end_w)
        os.waitpid(pid, 0)


def _script(scenario: Scenario, effects: Path) -> Any:
    replies = {site: [reply_of(reply) for reply in given] for site, given in scenario.model.items()}

    def reply(body: Mapping[str, Any]) -> Reply:
        messages = body["messages"]
        site = next((site for site in replies if f"[{site}]" in json.dumps(messages)), None)
        if site is None:
            return Status(status=400, code="script-missing")
        turn = sum(message["role"] == "assistant" for message in messages)
        count(effects, f"{site}/{turn + 1}")
        return replies[site][turn] if turn < len(replies[site]) else Status(status=400, code="script-ended")

    return reply


def count(effects: Path, line: str) -> None:
    """One line, whole or not at all."""
    handle = os.open(effects, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)
