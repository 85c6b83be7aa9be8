"""What a tool server over standard input and output may do, and what becomes of the call."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from runner.contract.errors import Code, EnvironmentFault, ProviderError
from runner.contract.ports import ToolUnknown
from runner.contract.provider import ToolOutcome
from tests.tool_servers.bench import KEY, SECRET, bench, from_env, scripted


async def test_a_tool_is_listed_called_and_told_its_effect_key(tmp_path: Path) -> None:
    """The listing is made safe to show, one session serves every call, and the effect key arrives as an idempotency key."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        tool = await b.admit("echo")
        assert tool.description == "echo \\x1b[31m"
        assert await b.call(tool, "one") == ToolOutcome(ok=True, text="one")
        assert await b.call(tool, "two") == ToolOutcome(ok=True, text="two")
        assert b.left("calls") == [f"echo {KEY}"] * 2
        assert len(b.left("starts")) == 1


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("structured", ToolOutcome(ok=True, text='{"b": [true, null], "n": 1}')),
        ("fail", ToolOutcome(ok=False, text="it did not work")),
        ("refuse", ToolOutcome(ok=False, text="not today")),
        ("twice", ToolOutcome(ok=True, text="first")),
    ],
)
async def test_an_answer_is_a_result(tmp_path: Path, name: str, outcome: ToolOutcome) -> None:
    """Structured content is JSON, what the server calls an error is a failure, and of two answers the first counts; the
    session goes on in every case."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        assert await b.call(await b.admit(name, "external")) == outcome
        assert await b.call(await b.admit("echo"), "still there") == ToolOutcome(ok=True, text="still there")
        assert len(b.left("starts")) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("die", "going down"),
        ("garbage", "no JSON-RPC message"),
        ("flood", "more than 4194304 bytes"),
        ("no_result", "no tool result"),
        ("internal", "a fuse blew"),
        ("hang", "did not answer within 0.2 s"),
    ],
)
async def test_an_external_call_without_an_end_is_unknown(tmp_path: Path, name: str, why: str) -> None:
    """It is made once, reported as unknown with the reason, and the server can be used again."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        result = await b.call(await b.admit(name, "external"), timeout_s=0.2 if name == "hang" else 20.0)
        assert isinstance(result, ToolUnknown)
        assert why in result.why
        assert b.left("calls") == [f"{name} {KEY}"]
        assert await b.call(await b.admit("echo"), "again") == ToolOutcome(ok=True, text="again")


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_repeatable_call_is_made_again_under_the_same_key(tmp_path: Path, effect: str) -> None:
    """A connection that broke is opened anew, once; the key is the same."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        assert await b.call(await b.admit("die_once", effect)) == ToolOutcome(ok=True, text="second time")
        assert b.left("calls") == [f"die_once {KEY}"] * 2


async def test_a_repeatable_call_that_never_ends_has_failed(tmp_path: Path) -> None:
    """Two deaths are a failure, which is a result; a hang is one at once."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        died = await b.call(await b.admit("die"))
        hung = await b.call(await b.admit("hang"), timeout_s=0.2)
        assert isinstance(died, ToolOutcome) and not died.ok and "going down" in died.text
        assert isinstance(hung, ToolOutcome) and not hung.ok
        assert b.left("calls") == [f"die {KEY}", f"die {KEY}", f"hang {KEY}"]


@pytest.mark.parametrize("options", [(), ("--tells-changes",)], ids=["asked every time", "told"])
async def test_another_description_is_drift_before_the_call(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A tool whose description changed after admission is not called; one that did not change still is. A server that promises
    to tell is asked again only when it told."""
    async with bench(tmp_path, scripted(tmp_path, *options)) as b:
        changing, echo = await b.admit("changing", "external"), await b.admit("echo")
        assert await b.call(changing, "first") == ToolOutcome(ok=True, text="first")
        with pytest.raises(ProviderError, match="describes it otherwise") as refused:
            await b.call(changing, "second")
        with pytest.raises(ProviderError):
            await b.servers.ready(changing)
        assert refused.value.code is Code.BINDING_DRIFT
        assert await b.call(echo, "same") == ToolOutcome(ok=True, text="same")
        assert b.left("calls") == [f"changing {KEY}", f"echo {KEY}"]
        assert len(b.left("listings")) == (2 if options else 6)


async def test_a_tool_that_is_gone_is_drift(tmp_path: Path) -> None:
    """The message says so and names the server."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        tool = (await b.admit("echo")).model_copy(update={"remote": "gone"})
        with pytest.raises(ProviderError, match="tracker does not offer it any more"):
            await b.call(tool)


async def test_a_server_gets_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH, HOME, LANG, LC_* and TMPDIR, the declared credential under its name, and nothing else; it starts in ``/``."""
    for name in ("OPENAI_API_KEY", "HTTPS_PROXY", "RUNNER_CONFIG"):
        monkeypatch.setenv(name, "ambient")
    config = scripted(tmp_path, credential=from_env(), credential_env="TRACKER_TOKEN")
    async with bench(tmp_path, config, secret=True) as b:
        result = await b.call(await b.admit("environment"))
        assert isinstance(result, ToolOutcome)
        environment, place = json.loads(result.text)
        assert environment.pop("TRACKER_TOKEN") == SECRET
        names = {n for n in environment if not n.startswith("LC_")}
        assert names <= {"PATH", "HOME", "LANG", "TMPDIR"} and "PATH" in names
        assert place == "/"


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The fault is the machine's, with the program, the server and what to do."""
    missing = scripted(tmp_path).model_copy(update={"command": (str(tmp_path / "no-such-program"),)})
    async with bench(tmp_path, missing) as b:
        with pytest.raises(EnvironmentFault, match=r"tracker cannot be used: .*no-such-program: No such file") as fault:
            await b.servers.offers("tracker")
        assert fault.value.code is Code.TOOL_SERVER_UNREACHABLE and "tool_servers.tracker" in fault.value.remedy


async def test_closing_ends_everything_that_a_server_started(tmp_path: Path) -> None:
    """Children and daemons in sessions of their own included."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        await b.call(await b.admit("spawn"))
        pids = b.left("pids")
        assert len(pids) == 3
    assert [pid for pid in pids if Path("/proc", pid).exists()] == []


async def test_a_killed_driver_leaves_no_server(tmp_path: Path) -> None:
    """SIGKILL to the driver: its end of the guard's pipe closes, and everything ends."""
    ours, theirs = os.pipe()
    driver = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.tool_servers.driver",
        str(tmp_path),
        stdout=theirs,
        stdin=asyncio.subprocess.DEVNULL,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        assert await asyncio.to_thread(pipe.readline) == b"spawned\n"
        driver.kill()
        await driver.wait()
        pids = (tmp_path / "pids").read_text().split()
        assert len(pids) == 3
        await _gone(pids)


async def test_a_killed_guard_takes_the_server_along(tmp_path: Path) -> None:
    """The kernel ends the server with its guard; the session is over, and the next call has a new one."""
    async with bench(tmp_path, scripted(tmp_path)) as b:
        tool = await b.admit("echo")
        server = b.left("starts")[0]
        guard = int(Path("/proc", server, "stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        await _gone([server])
        assert await b.call(tool, "anew") == ToolOutcome(ok=True, text="anew")
        assert len(b.left("starts")) == 2


async def _gone(pids: list[str]) -> None:
    """Returns when none of ``pids`` runs any more."""
    for pid in pids:
        try:
            handle = os.pidfd_open(int(pid))
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)
