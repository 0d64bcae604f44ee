"""One call of an agent over HTTP: connect, ask, and what comes as it comes. Closing the connection cancels the call.

Knows HTTP and sockets; nothing of command lines. A thread reads, so that whoever waits can be interrupted at any
moment, whether it is a name that does not resolve or a model that does not answer.
"""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.problems import quoted, shortened
from pallas_control.mcp.errors import (
    BusyError,
    CallError,
    ConnectionLostError,
    LateError,
    NoConnectionError,
    RefusedCallError,
    TooLargeError,
    UnavailableError,
    WrongAnswerError,
)
from pallas_control.mcp.event_stream import EventStream
from pallas_control.mcp.messages import (
    HEADERS,
    Answer,
    Progress,
    error_message,
    parse_object,
    read_message,
    request_body,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pallas_control.mcp.messages import Question

CONNECT_TIMEOUT = 5.0
"""Seconds for each address. Only to connect: a call may take as long as it does."""

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of one message of the server; an answer may hold images."""
LARGEST_REFUSAL = 64 * 1024

TICK = 0.1
"""Seconds without news after which `call` gives its caller a turn."""

DEFAULT_PATH = "/mcp"
"""Of a URL without a path."""

LOOPBACK = ("127.0.0.1", "::1")

_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an agent is reached.

    `is_local` says that its port is one of this machine: loopback is tried where the name in the URL leads nowhere
    from here, as one that only the network's other machines know.
    """

    url: str
    is_local: bool = False
    socket: str | None = None
    """Path of the unix socket to connect to, in place of what the URL names."""


def call(
    endpoint: Endpoint, question: Question, *, timeout: float | None
) -> Generator[Progress | Answer | None]:
    """Ask, and give what comes: progress, None after each `TICK` without any, and the answer last.

    The caller closes the generator where it does not read on, and that cancels the call.

    Args:
        timeout: seconds for the whole call, or None for no limit.

    Raises:
        CallError: there is no answer, each subclass for another reason.
        ValueError: the URL is none of `http` or `https`.
    """
    exchange = _Exchange(endpoint, question)
    deadline = None if timeout is None else time.monotonic() + timeout
    exchange.start()
    try:
        while True:
            try:
                news = exchange.news.get(timeout=TICK)
            except Empty:
                news = None
            if isinstance(news, CallError):
                raise news
            if not isinstance(news, Answer) and deadline is not None and time.monotonic() >= deadline:
                raise LateError(f"no answer within {timeout:g} s; the call was cancelled")
            yield news
            if isinstance(news, Answer):
                return
    finally:
        exchange.close()


class _Exchange(threading.Thread):
    """One request on a connection of its own. `news` ends with an answer or an error."""

    def __init__(self, endpoint: Endpoint, question: Question) -> None:
        super().__init__(name="call", daemon=True)
        self._endpoint = endpoint
        parts = urlsplit(endpoint.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{quoted(endpoint.url)} is no http or https URL")
        self._host = parts.hostname
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        path = DEFAULT_PATH if parts.path in {"", "/"} else parts.path
        self._target = path + (f"?{parts.query}" if parts.query else "")
        self._body = request_body(question)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._closed = False
        self.news: SimpleQueue[Progress | Answer | CallError] = SimpleQueue()

    def close(self) -> None:
        """End the connection, whatever it is doing; its thread ends by itself."""
        with self._lock:
            self._closed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # the other side was quicker
                    self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        """Ask, and read to the end."""
        # Signals are for the main thread, which waits for a key or for us: the system may give one to any thread that
        # takes it, and a read of the main one would go on.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGWINCH})
        try:
            self._exchange()
        except CallError as error:
            self.news.put(error)
        except (OSError, http.client.HTTPException) as error:
            self.news.put(ConnectionLostError(f"the connection ended before the answer ({_reason(error)})"))
        except Exception as error:  # noqa: BLE001 - whoever waits for news must not wait for ever
            self.news.put(WrongAnswerError(f"the answer cannot be read ({_reason(error)})"))

    def _exchange(self) -> None:
        connection_type = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        connection = connection_type(self._host, self._port)
        connection.sock = self._connect()
        try:
            # One who refuses may do so before it has read everything; its answer can be read all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", self._target, self._body, dict(HEADERS))
            self._read(connection.getresponse())
        finally:
            connection.close()

    def _connect(self) -> socket.socket:
        if self._endpoint.socket is not None:
            return self._connected(_connect_to_path(self._endpoint.socket))
        failure: Exception | None = None
        for host in (self._host, *(LOOPBACK if self._endpoint.is_local else ())):
            try:
                connected = socket.create_connection((host, self._port), CONNECT_TIMEOUT)
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self._is_tls:
                    connected = self._secured(connected)
                connected.settimeout(None)
            except (OSError, ValueError) as error:  # a name that is none is a UnicodeError
                failure = failure or error
                continue
            return self._connected(connected)
        assert failure is not None
        raise NoConnectionError(f"nothing answers at {self._endpoint.url}: {_reason(failure)}")

    def _connected(self, connected: socket.socket) -> socket.socket:
        with self._lock:
            if self._closed:
                connected.close()
                raise ConnectionLostError("cancelled")
            self._socket = connected
        return connected

    def _secured(self, connected: socket.socket) -> socket.socket:
        return ssl.create_default_context().wrap_socket(connected, server_hostname=self._host)

    def _read(self, response: http.client.HTTPResponse) -> None:
        if response.status != http.client.OK:
            raise _refusal(response)
        media_type = response.headers.get_content_type()
        if media_type == "text/event-stream":
            self._read_events(response)
        elif media_type == "application/json":
            body = _bounded(response, LARGEST_ANSWER)
            if not isinstance(message := read_message(body), Answer):
                raise WrongAnswerError("what came is no answer to the call")
            self.news.put(message)
        else:
            raise WrongAnswerError(
                f"what answers at {self._endpoint.url} is no MCP server: it sends {quoted(media_type)}"
            )

    def _read_events(self, response: http.client.HTTPResponse) -> None:
        events = EventStream(LARGEST_ANSWER)
        while piece := response.read1(_PIECE):
            for data in events.feed(piece):
                message = read_message(data)
                if message is not None:
                    self.news.put(message)
                if isinstance(message, Answer):
                    return
        raise ConnectionLostError("the connection ended before the answer")


def _connect_to_path(path: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Where as many wait as may, one that does not block would be turned away at once; so does one with a timeout.
        connected.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(CONNECT_TIMEOUT), 0)
        )
        connected.connect(path)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
    except PermissionError:
        connected.close()
        owner = _owner(Path(path).parent)
        raise NoConnectionError(
            f"it has no port, and its socket is for {owner} alone: {path}; ask as that user, such as with "
            f"`sudo -u {owner}`, or give the agent a port (`run: {{port: N}}`)"
        ) from None
    except OSError as error:
        connected.close()
        raise NoConnectionError(f"nothing answers at {path}: {_reason(error)}") from None
    return connected


def _owner(directory: Path) -> str:
    """The user whose sockets these are, as far as it can be seen."""
    try:
        return directory.owner()
    except (OSError, KeyError):  # it may not be looked at, or the user has no name
        return "the supervisor's user"


def _bounded(response: http.client.HTTPResponse, most: int) -> bytes:
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > most:
            raise WrongAnswerError(f"the answer is larger than {most // 1024**2} MiB")
        pieces.append(piece)
    return b"".join(pieces)


def _refusal(response: http.client.HTTPResponse) -> CallError:
    status = response.status
    body = b""
    with contextlib.suppress(OSError, http.client.HTTPException, WrongAnswerError):
        body = _bounded(response, LARGEST_REFUSAL)
    said = error_message(parse_object(body) or {})
    if status == http.client.SERVICE_UNAVAILABLE:
        return UnavailableError(said or "it is not served at the moment", retry_after=_retry_after(response))
    if status == http.client.TOO_MANY_REQUESTS:
        return BusyError(said or "too many calls wait there", retry_after=_retry_after(response))
    if status == http.client.CONTENT_TOO_LARGE:
        return TooLargeError(said or "the request is larger than it takes (max_request_bytes)")
    if 300 <= status < 400:
        to = quoted(response.headers.get("Location") or "", 200)
        return RefusedCallError(
            f"the URL redirects to {to}, which is not followed: name that one if it is meant"
        )
    text = said or shortened(" ".join(body.decode("utf-8", "replace").split()), 200)
    return RefusedCallError(f"refused with HTTP status {status}" + (f": {text}" if text else ""))


def _retry_after(response: http.client.HTTPResponse) -> int | None:
    value = response.headers.get("Retry-After") or ""
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 6 else None


def _reason(error: Exception) -> str:
    """What went wrong, without a number that only programmers know."""
    text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return shortened(" ".join(text.split()), 200)
