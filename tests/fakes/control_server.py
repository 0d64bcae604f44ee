"""A control server that answers what a test tells it to, on a real unix socket; knows nothing of agents."""

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from click.testing import CliRunner

from pallasctl.main import pallasctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

NOW = "2026-01-31T12:00:00+00:00"


def agent(name: str, state: str = "ready", **fields: Any) -> dict[str, Any]:
    """One agent of a status document."""
    running = state in {"starting", "ready", "stopping", "killing"}
    return {
        "name": name,
        "state": state,
        "desired": "down" if state == "stopped" else "up",
        "pid": 4000 + len(name) if running else None,
        "port": 24200 + len(name),
        "restarts": 0,
        "failures": 0,
        "max_failures": 5,
        "since": NOW,
        "health": "ok" if state == "ready" else "unknown",
        "message": "",
        "last_exit": None,
        "generation": 1,
        "depends_on": [],
        "resident_memory": 104_857_600 if running else None,
    } | fields


def status(*agents: dict[str, Any], deployment: str = "demo") -> dict[str, Any]:
    """A status document."""
    supervisor = {"pid": 99, "version": "0.3.0", "since": NOW}
    return {"deployment": deployment, "supervisor": supervisor, "agents": list(agents)}


class FakeControl:
    """Answers by path, or by method and path where there is such an answer: `answers["/v1/start"] = (504, {...})`.

    `requests` holds what was asked.
    """

    def __init__(self, socket: Path, answers: dict[str, tuple[int, Any]]) -> None:
        self.socket = socket
        self.answers = answers
        self.requests: list[tuple[str, str, Any]] = []
        self.released = threading.Event()
        """A followed log stays open until it is set."""

    def answer(self, path: str, document: Any, status: int = 200) -> None:
        """What to answer on a path from now on; bytes go out as they are, a function makes it of a request's body."""
        self.answers[path] = (status, document)

    def run(self, *arguments: str) -> Result:
        """`pallasctl` as it is called on a command line, with this server as its supervisor."""
        return run("--socket", str(self.socket), *arguments)


def run(*arguments: str) -> Result:
    """`pallasctl` as it is called on a command line."""
    return CliRunner().invoke(pallasctl, arguments, prog_name="pallasctl")


@contextmanager
def serve(socket: Path, answers: dict[str, tuple[int, Any]] | None = None) -> Iterator[FakeControl]:
    """A running fake on that path; `answers` are there from its first moment on."""
    fake = FakeControl(socket, answers or {})

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            target = urlsplit(self.path)
            query = parse_qs(target.query)
            fake.requests.append(("GET", target.path, query))
            self._answer(target.path, follow="follow" in query)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.requests.append(("POST", self.path, body))
            self._answer(self.path, follow=False, body=body)

        def do_DELETE(self) -> None:
            fake.requests.append(("DELETE", self.path, None))
            self._answer(self.path, follow=False)

        def _answer(self, path: str, *, follow: bool, body: Any = None) -> None:
            nothing = 404, {"error": f"no such path: {path}"}
            code, document = fake.answers.get(f"{self.command} {path}") or fake.answers.get(path, nothing)
            document = document(body) if callable(document) else document
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            with suppress(BrokenPipeError):
                self.wfile.write(data)
            if follow:
                fake.released.wait(60)

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    with Server(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            fake.released.set()
            server.shutdown()
            thread.join()
