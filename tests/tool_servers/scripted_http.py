"""A real HTTP server that speaks MCP's streamable HTTP, and misbehaves by the name of the tool."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = ("echo", "stream", "twice", "error", "drop", "away", "flood", "packed", "garbage", "hang")


class ScriptedHttp:
    """Serves until the block ends. ``calls`` are the tools that were called, ``tokens`` what requests authorised with."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.tokens: set[str | None] = set()
        self.over = threading.Event()
        outer = self

        class Handler(_Handler):
            script = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/mcp"

    def __enter__(self) -> "ScriptedHttp":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    script: ScriptedHttp

    def do_POST(self) -> None:
        self.script.tokens.add(self.headers.get("Authorization"))
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                info = {"name": "scripted", "version": "1"}
                result = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
                self._json(number, result)
            case "tools/list":
                tools = [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in NAMES]
                self._json(number, {"tools": tools})
            case "tools/call":
                self.script.calls.append(params["name"])
                self._call(number, params["name"], params.get("arguments") or {})
            case _:
                self._head(202)

    def do_GET(self) -> None:
        self._head(405)

    do_DELETE = do_GET

    def _call(self, number: int, name: str, arguments: dict[str, Any]) -> None:
        said = {"content": [{"type": "text", "text": arguments.get("text", name)}]}
        event = b"data: " + json.dumps({"jsonrpc": "2.0", "id": number, "result": said}).encode() + b"\n\n"
        match name:
            case "echo":
                self._json(number, said)
            case "stream":
                self._head(200, event, "text/event-stream")
            case "twice":
                self._head(200, event + event.replace(b"twice", b"later"), "text/event-stream")
            case "error":
                self._head(500, b"oh no", "text/plain")
            case "away":
                self._head(307, location="http://127.0.0.1:9/elsewhere")
            case "drop":
                self.close_connection = True
            case "flood":
                self._json(number, {"content": [{"type": "text", "text": "x" * 5_000_000}]})
            case "packed":
                self._head(200, gzip.compress(event), "application/json", encoding="gzip")
            case "garbage":
                self._head(200, b"{]", "application/json")
            case "hang":
                self.script.over.wait()

    def _json(self, number: int, result: dict[str, Any]) -> None:
        self._head(200, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode(), "application/json")

    def _head(self, status: int, body: bytes = b"", kind: str = "", location: str = "", encoding: str = "") -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Location", location), ("Content-Encoding", encoding)):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""
