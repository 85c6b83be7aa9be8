"""A real HTTP server that plays scripted Chat Completions: streamed answers, and every way in which an endpoint can fail.

A script is data, so that the same one serves a test in this process, the demo's workflow and a process that gets killed::

    with ScriptedOpenAi(in_order(Text("hello"), Status(429, retry_after="1"))) as server:
        ...  # server.base_url, server.requests

    python -m tests.servers.scripted_openai SCRIPT.json     # prints the base URL, serves until stdin ends

SCRIPT.json: ``{"steps": {"MARKER": [REPLY, ...]}}`` or ``{"replies": [REPLY, ...]}``; a reply is ``{"reply": "text", ...}`` with
the fields of the class of that name. With markers, a request gets the next reply of the first marker that stands in its
messages, so that concurrent sessions are answered right.
"""

import json
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers.chunks import Call, Calls, Garbage, Raw, Result, Text, chunks_of


@dataclass(frozen=True)
class Status:
    """An HTTP error with a JSON body."""

    status: int
    code: str | int | None = None
    type: str | None = None
    message: str = "scripted failure"
    retry_after: str | None = None
    date: str | None = None


@dataclass(frozen=True)
class Dropped:
    """The first ``after`` chunks of ``of``, then the connection is gone: ``reset`` cuts it inside the body, ``clean`` ends
    the body as if it were whole."""

    of: Any
    after: int = 1
    how: str = "reset"


@dataclass(frozen=True)
class Hang:
    """The head of the response, and then nothing until the server closes. ``silent``: not even that."""

    silent: bool = False


@dataclass(frozen=True)
class Redirect:
    to: str
    status: int = 307


@dataclass(frozen=True)
class Page:
    """Status 200, but no event stream."""

    body: str = "<html>welcome</html>"
    content_type: str = "text/html"


Streamed = Text | Calls | Result | Garbage | Raw
Reply = Streamed | Status | Dropped | Hang | Redirect | Page
Script = Callable[[Mapping[str, Any]], Reply]
"""The parsed request body -> what to answer. Called under a lock, in order of arrival."""


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]


def in_order(*replies: Reply) -> Script:
    """The n-th request gets the n-th reply."""
    left = list(replies)

    def next_reply(body: Mapping[str, Any]) -> Reply:
        if not left:
            return Status(status=400, code="script-ended", message="the script has no further reply")
        return left.pop(0)

    return next_reply


def by_step(steps: Mapping[str, list[Reply]]) -> Script:
    """Each marker has replies of its own."""
    scripts = {marker: in_order(*replies) for marker, replies in steps.items()}

    def matching(body: Mapping[str, Any]) -> Reply:
        text = json.dumps(body.get("messages"), ensure_ascii=False)
        for marker, script in scripts.items():
            if marker in text:
                return script(body)
        return Status(status=400, code="script-missing", message=f"no marker of {sorted(scripts)} is in the request")

    return matching


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        body = json.loads(raw)
        owner = self.server.owner
        with owner.lock:
            owner.requests.append(
                Request(path=self.path, headers={k.lower(): v for k, v in self.headers.items()}, body=body)
            )
            reply = owner.script(body)
        self.close_connection = True
        with suppress(BrokenPipeError, ConnectionResetError):  # a client that went away, as some tests make it do
            self._play(reply, body)

    do_GET = do_POST

    def _play(self, reply: Reply, body: Mapping[str, Any]) -> None:
        match reply:
            case Status():
                self._status(reply)
            case Redirect(to=to, status=status):
                self._head(status, {"location": to, "content-length": "0"})
            case Page(body=page, content_type=kind):
                self._head(200, {"content-type": kind, "content-length": str(len(page.encode()))})
                self.wfile.write(page.encode())
            case Hang(silent=silent):
                if not silent:
                    self._stream_head()
                    self.wfile.flush()
                self.server.owner.closing.wait()
            case Dropped(of=whole, after=after, how=how):
                self._stream_head()
                for data in chunks_of(whole, body)[:after]:
                    self._chunk(data)
                self.wfile.write(b"0\r\n\r\n" if how == "clean" else b"ffff\r\ndata: {")
            case _:
                self._stream_head()
                for data in chunks_of(reply, body):
                    self._chunk(data)
                self.wfile.write(b"0\r\n\r\n")

    def _status(self, reply: Status) -> None:
        error = {"message": reply.message, "type": reply.type, "code": reply.code}
        data = json.dumps({"error": error}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(data))}
        if reply.retry_after is not None:
            headers["retry-after"] = reply.retry_after
        self._head(reply.status, headers, date=reply.date)
        self.wfile.write(data)

    def _stream_head(self) -> None:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})

    def _head(self, status: int, headers: Mapping[str, str], date: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in {"date": date or self.date_time_string(), "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what arrived is in ``requests``."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True
    request_queue_size = 128
    owner: "ScriptedOpenAi"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Kept for the test to see, instead of printed."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.owner.errors.append(error)


@dataclass
class ScriptedOpenAi:
    """The server, on a free port of 127.0.0.1 (or ``port``) for the length of a ``with`` block."""

    script: Script
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    errors: list[BaseException | None] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "ScriptedOpenAi":
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        assert not self.errors, self.errors


_REPLIES: dict[str, type[Any]] = {
    "text": Text,
    "calls": Calls,
    "result": Result,
    "garbage": Garbage,
    "raw": Raw,
    "status": Status,
    "dropped": Dropped,
    "hang": Hang,
    "redirect": Redirect,
    "page": Page,
}


def script_of(document: Mapping[str, Any]) -> Script:
    """A script as JSON -> the script."""
    if "steps" in document:
        return by_step({marker: [reply_of(r) for r in replies] for marker, replies in document["steps"].items()})
    return in_order(*[reply_of(r) for r in document["replies"]])


def reply_of(value: Mapping[str, Any]) -> Reply:
    """``{"reply": NAME, ...fields}`` -> the reply."""
    fields = {k: v for k, v in value.items() if k != "reply"}
    if "of" in fields:
        fields["of"] = reply_of(fields["of"])
    if "calls" in fields:
        fields["calls"] = tuple(Call(**call) for call in fields["calls"])
    for name in ("lines", "chunks"):
        if name in fields:
            fields[name] = tuple(fields[name])
    made: Reply = _REPLIES[value["reply"]](**fields)
    return made


def main(path: str) -> None:
    with ScriptedOpenAi(script_of(json.loads(Path(path).read_text()))) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
