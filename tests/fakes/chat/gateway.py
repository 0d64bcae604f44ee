"""A gateway's REST API that answers what a test tells it to, on loopback; knows nothing of agents or threads."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Reply(NamedTuple):
    """What is answered: a document, or events; `holds` leaves the answer open until the client has gone."""

    document: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}
    events: bytes | None = None
    holds: bool = False


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    body: Any
    bearer: str


class FakeGateway:
    """`replies` has a list for each method and path: the first is taken away as long as there are others."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.requests: list[Request] = []
        self.url = ""

    def reply(self, asked: str, *replies: Reply) -> None:
        """Answer these, one after another; the last one again and again."""
        self.replies[asked] = list(replies)

    def made(self, method: str) -> list[str]:
        """The paths that were asked for by a method."""
        return [request.path for request in self.requests if request.method == method]


@contextmanager
def fake_gateway() -> Iterator[FakeGateway]:
    """One that runs."""
    fake = FakeGateway()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            bearer = self.headers.get("Authorization", "")
            fake.requests.append(Request(self.command, path, json.loads(body) if body else None, bearer))
            replies = fake.replies.get(f"{self.command} {path}")
            reply = Reply({"error": {"type": "not_found", "message": f"nothing at {path}"}}, 404)
            if replies:
                reply = replies.pop(0) if len(replies) > 1 else replies[0]
            self.send_response(reply.status)
            kind = "application/json" if reply.events is None else "text/event-stream"
            for name, value in {"Content-Type": kind, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            data = json.dumps(reply.document).encode() if reply.events is None else reply.events
            with suppress(OSError):
                self.wfile.write(data)
                if reply.holds:
                    self.wfile.flush()
                    self.connection.recv(1)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        fake.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
