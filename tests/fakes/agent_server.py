"""An agent's port that answers one call with what a test tells it to, byte for byte; knows nothing of agents."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0

EVENTS = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"
CHUNKED = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PROGRESS = json.dumps(
    {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "message": "step"}}
)
RESULT = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "fine"}]}})


class Server:
    """Takes one connection: keeps the request, sends what it is to send piece by piece, and waits for the end."""

    def __init__(self, listener: socket.socket, pieces: list[str], *, stay: bool) -> None:
        self._listener = listener
        self._pieces = pieces
        self._stay = stay
        self.request = b""
        self.gone = threading.Event()
        """The client has closed the connection."""
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._is_whole():
                self.request += connection.recv(65_536)
            for piece in self._pieces:
                connection.sendall(piece.encode())
            if self._stay:
                while connection.recv(65_536):
                    pass
                self.gone.set()

    def _is_whole(self) -> bool:
        head, ended, body = self.request.partition(b"\r\n\r\n")
        length = [
            line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-l")
        ]
        return bool(ended) and len(body) == int(length[0] if length else 0)


@contextlib.contextmanager
def serving(*pieces: str, stay: bool = False) -> Iterator[Server]:
    """A server for one call; it closes the connection after the last piece unless it is to `stay`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener, list(pieces), stay=stay)
        server.thread.start()
        yield server
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()


def answer(status: str, body: str, *headers: str) -> str:
    """A whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}", "Connection: close", *headers]
    return "\r\n".join(lines) + f"\r\n\r\n{body}"


JSON = "Content-Type: application/json"
