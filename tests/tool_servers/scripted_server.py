"""An MCP server over standard input and output that misbehaves on demand. Standard library only.

``python scripted_server.py DIRECTORY``: every tool is called what it does; what happened outside is left in DIRECTORY.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HOME = Path(sys.argv[1])
LIST_CHANGED = "--tells-changes" in sys.argv
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
NAMES = (
    *("echo", "structured", "fail", "refuse", "internal", "environment", "die", "die_once", "hang", "twice", "garbage"),
    *("no_result", "flood", "hostile", "changing", "quiet", "spawn", "hang_once"),
)


def send(message: dict[str, Any]) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode())


def raw(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def note(name: str, text: str) -> None:
    with (HOME / name).open("a") as file:
        file.write(text + "\n")


def listing() -> list[dict[str, Any]]:
    changed = (HOME / "changed").exists()
    return [
        {
            "name": name,
            "description": f"{name} \x1b[31m" + (" (new)" if changed and name in ("changing", "quiet") else ""),
            "inputSchema": SCHEMA,
        }
        for name in NAMES
    ]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def call(number: Any, name: str, params: dict[str, Any]) -> None:
    note("calls", f"{name} {params.get('_meta', {}).get('idempotencyKey')}")
    given = params.get("arguments", {}).get("text", "")
    match name:
        case "echo" | "changing" | "quiet":
            if name != "echo":
                (HOME / "changed").touch()
            if name == "changing":
                send({"method": "notifications/tools/list_changed"})
            send({"id": number, "result": text(given)})
        case "structured":
            value = {"n": 1, "b": [True, None]}
            send({"id": number, "result": {"content": [], "structuredContent": value}})
        case "fail":
            send({"id": number, "result": text("it did not work", isError=True)})
        case "refuse":
            send({"id": number, "error": {"code": 17, "message": "not today"}})
        case "internal":
            send({"id": number, "error": {"code": -32603, "message": "a fuse blew"}})
        case "environment":
            send({"id": number, "result": text(json.dumps([dict(os.environ), str(Path.cwd())]))})
        case "spawn":
            for detached in (False, True):
                note("pids", str(subprocess.Popen(["sleep", "600"], start_new_session=detached).pid))
            note("pids", str(os.getpid()))
            send({"id": number, "result": text("spawned")})
        case _:
            misbehave(number, name, given)


def misbehave(number: Any, name: str, given: str) -> None:
    match name:
        case "die":
            sys.stderr.write("going down\n")
            sys.exit(3)
        case "die_once":
            if not (HOME / "died").exists():
                (HOME / "died").touch()
                sys.exit(3)
            send({"id": number, "result": text("second time")})
        case "hang":
            pass
        case "hang_once":
            if (HOME / "hung").is_fifo():
                (HOME / "hung").write_text("here")
                (HOME / "hung").unlink()
            else:
                send({"id": number, "result": text("second time")})
        case "twice":
            send({"id": number, "result": text("first")})
            send({"id": number, "result": text("second")})
        case "garbage":
            raw(b"this is no JSON \xff")
        case "no_result":
            send({"id": number, "result": {"content": "none"}})
        case "flood":
            raw(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number + b"x" * 5_000_000)
        case "hostile":
            send({"id": number, "result": text("\x1b[2J\x00" + given)})


def main() -> None:
    note("starts", str(os.getpid()))
    for line in sys.stdin:
        message = json.loads(line)
        number, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                capabilities = {"tools": {"listChanged": LIST_CHANGED}}
                info = {"name": "scripted", "version": "1"}
                result = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
                send({"id": number, "result": result})
            case "tools/list":
                note("listings", "")
                send({"id": number, "result": {"tools": listing()}})
            case "tools/call":
                call(number, params["name"], params)
            case _:
                if number is not None:
                    send({"id": number, "result": {}})


main()
