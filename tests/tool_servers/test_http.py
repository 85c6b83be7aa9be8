"""What a tool server at a URL may do, and what becomes of the call."""

from pathlib import Path

import pytest

from runner.contract.config import ToolServerConfig
from runner.contract.errors import EnvironmentFault
from runner.contract.ports import ToolUnknown
from runner.contract.provider import ToolOutcome
from tests.tool_servers.bench import SECRET, bench, from_env
from tests.tool_servers.scripted_http import ScriptedHttp


@pytest.mark.parametrize("name", ["echo", "stream", "twice"])
async def test_an_answer_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As JSON and as an event stream; of two answers the first counts. The bearer token goes along, the environment's proxy
    does not count."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ScriptedHttp() as server:
        config = ToolServerConfig(key="tracker", url=server.url, credential=from_env())
        async with bench(tmp_path, config, secret=True) as b:
            assert await b.call(await b.admit(name, "external")) == ToolOutcome(ok=True, text=name)
        assert server.tokens == {f"Bearer {SECRET}"}
        assert server.calls == [name]


@pytest.mark.parametrize("name", ["error", "drop", "away", "flood", "packed", "garbage", "hang"])
async def test_an_external_call_without_an_end_is_unknown(tmp_path: Path, name: str) -> None:
    """It is made once, and the server can be used again."""
    with ScriptedHttp() as server:
        async with bench(tmp_path, ToolServerConfig(key="tracker", url=server.url)) as b:
            result = await b.call(await b.admit(name, "external"), timeout_s=0.2 if name == "hang" else 20.0)
            assert isinstance(result, ToolUnknown)
            assert server.calls == [name]
            assert await b.call(await b.admit("echo"), "again") == ToolOutcome(ok=True, text="again")


async def test_nobody_listens(tmp_path: Path) -> None:
    """The fault is the machine's and names the server."""
    with ScriptedHttp() as server:
        url = server.url
    async with bench(tmp_path, ToolServerConfig(key="tracker", url=url)) as b:
        with pytest.raises(EnvironmentFault, match="the tool server tracker cannot be used"):
            await b.servers.offers("tracker")
