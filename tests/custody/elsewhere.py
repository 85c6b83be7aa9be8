"""Repositories elsewhere: bare ones on this machine, and git's own server behind a server that can fail at any point."""

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

Fate = Literal["serves", "dies before", "dies after", "forbids", "hangs"]
LOGIN: Final = "me:secret"


def bare(path: Path, *, hook: str = "") -> Path:
    """A bare repository that may be pushed to; ``hook`` is its pre-receive hook."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True, env=_environment())
    subprocess.run(["git", "-C", str(path), "config", "http.receivepack", "true"], check=True, env=_environment())
    if hook:
        file = path / "hooks" / "pre-receive"
        file.write_text(f"#!/bin/sh\n{hook}\n")
        file.chmod(0o755)
    return path


def ref(path: Path, name: str) -> str:
    """The value of a ref there; empty for none."""
    words = ["git", "-C", str(path), "rev-parse", "-q", "--verify", name]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=_environment()).stdout.strip()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


class Server:
    """``git http-backend`` over HTTP. ``fate`` is what happens to the request that carries a push."""

    def __init__(self, root: Path, *, login: bool) -> None:
        self.fate: Fate = "serves"
        self.pushes = 0
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def _serve(self) -> None:
                self.close_connection = True
                wanted = "Basic " + base64.b64encode(LOGIN.encode()).decode()
                if login and self.headers.get("Authorization") != wanted:
                    self._answer(b"Status: 401\r\nWWW-Authenticate: Basic realm=git\r\n\r\n")
                    return
                body = self._body()
                pushing = self.path.endswith("/git-receive-pack") and self.command == "POST"
                if pushing:
                    outer.pushes += 1
                    match outer.fate:
                        case "dies before":
                            return
                        case "forbids":
                            self._answer(b"Status: 403\r\n\r\n")
                            return
                        case "hangs":
                            outer.closing.wait()
                            return
                answer = outer.backend(root, self, body)
                if not (pushing and outer.fate == "dies after"):
                    self._answer(answer)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def _answer(self, cgi: bytes) -> None:
                head, _, content = cgi.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def url(self, path: Path) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/{path.name}"

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @staticmethod
    def backend(root: Path, request: BaseHTTPRequestHandler, body: bytes) -> bytes:
        parts = urlsplit(request.path)
        variables = {
            **_environment(),
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_USER": "me",
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        }
        return subprocess.run(
            ["git", "http-backend"], input=body, env=variables, capture_output=True, check=True
        ).stdout


@contextmanager
def served(root: Path, *, login: bool = False) -> Iterator[Server]:
    """The repositories below ``root``, until the end of the block."""
    server = Server(root, login=login)
    try:
        yield server
    finally:
        server.close()
