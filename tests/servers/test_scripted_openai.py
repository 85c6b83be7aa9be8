"""The scripted endpoint: scripts as JSON, markers, and the program around it."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.chunks import Text
from tests.servers.scripted_openai import ScriptedOpenAi, Status, by_step, reply_of

ROOT = Path(__file__).parents[2]


def post(base_url: str, content: str) -> tuple[int, str]:
    """Status and body of one request."""
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}).encode()
    request = urllib.request.Request(
        f"{base_url}/chat/completions", data=body, headers={"content-type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def text_of(events: str) -> str:
    """The visible text of a stream."""
    chunks: list[Any] = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


def test_markers_keep_concurrent_sessions_apart() -> None:
    """A request is answered by its own step's script, whatever came between."""
    script = by_step({"step-one": [Text("first of one"), Text("second of one")], "step-two": [Text("first of two")]})
    with ScriptedOpenAi(script) as server:
        told = [text_of(post(server.base_url, f"do {step}")[1]) for step in ("step-one", "step-two", "step-one")]
        status, body = post(server.base_url, "step-two again")
        unmatched = post(server.base_url, "something else")
    assert told == ["first of one", "first of two", "second of one"]
    assert (status, json.loads(body)["error"]["code"]) == (400, "script-ended")
    assert json.loads(unmatched[1])["error"]["code"] == "script-missing"


def test_a_script_is_data() -> None:
    """Every reply can be written as JSON."""
    nested = {"reply": "dropped", "of": {"reply": "calls", "calls": [{"name": "read", "arguments": {}}]}, "after": 2}
    assert repr(reply_of(nested)).startswith("Dropped(of=Calls(calls=(Call(name='read', arguments={}")
    assert reply_of({"reply": "status", "status": 429, "retry_after": "1"}) == Status(429, retry_after="1")


def test_the_program_serves_a_script_until_its_input_ends(tmp_path: Path) -> None:
    """So that a demo or a process that gets killed can have its endpoint beside it."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"steps": {"hello": [{"reply": "text", "text": "from a file"}]}}))
    argv = [sys.executable, "-m", "tests.servers.scripted_openai", str(path)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        base_url = process.stdout.readline().strip()
        assert text_of(post(base_url, "hello")[1]) == "from a file"
        process.stdin.close()
        assert process.wait(timeout=30) == 0
