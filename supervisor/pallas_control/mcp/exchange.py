"""One HTTP request whose answer may be a stream: connect, send, and what comes as it comes; closing it cancels.

Knows HTTP and sockets; nothing of command lines, nor of what is asked. A thread reads, so that whoever waits can be
interrupted at any moment, whether it is a name that does not resolve or a model that does not answer.
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
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common.problems import quoted, shortened
from pallas_common.protocol.keys import KEY_HEADER
from pallas_control.errors import ControlError
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
from pallas_control.mcp.messages import error_message, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

CONNECT_TIMEOUT = 5.0
"""Seconds for each address. Only to connect: a call may take as long as it does."""

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of one message of the server; an answer may hold images."""
LARGEST_REFUSAL = 64 * 1024

TICK = 0.1
"""Seconds without news after which `received` gives its caller a turn."""

DEFAULT_PATH = "/mcp"
"""Of a URL without a path."""

LOOPBACK = ("127.0.0.1", "::1")

_PIECE = 64 * 1024


class _Ended:
    """There is no more."""


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
    key: str | None = field(default=None, repr=False)
    """Of an agent that stands behind a gateway, for this address alone."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    body: bytes
    headers: Mapping[str, str]
    method: str = "POST"


def received[T](exchange: Exchange[T], *, timeout: float | None = None) -> Generator[T | None]:
    """What comes of an exchange, to its end; None after each `TICK` without anything.

    The caller closes the generator where it does not read on, and that ends the connection.

    Args:
        timeout: seconds for the whole exchange, or None for no limit.

    Raises:
        CallError, ControlError: there is no answer, or what the exchange's reader has raised.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    exchange.start()
    try:
        while True:
            if deadline is not None and time.monotonic() >= deadline:
                raise LateError(f"no answer within {timeout:g} s; the call was cancelled")
            try:
                news = exchange.news.get(timeout=TICK)
            except Empty:
                yield None
                continue
            if isinstance(news, _Ended):
                return
            if isinstance(news, CallError | ControlError):
                raise news
            yield news
    finally:
        exchange.close()


class Exchange[T](threading.Thread):
    """One request on a connection of its own, whose answer `read` makes into news, in the exchange's thread.

    Args:
        read: gives what comes of an answer; raises CallError or ControlError for a refusal.

    Raises:
        ValueError: the URL is none of `http` or `https`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        request: Request,
        read: Callable[[http.client.HTTPResponse], Iterator[T]],
    ) -> None:
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
        self._request = request
        self._read = read
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._closed = False
        self.news: SimpleQueue[T | CallError | ControlError | _Ended] = SimpleQueue()

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
        except (CallError, ControlError) as error:
            self.news.put(error)
        except (OSError, http.client.HTTPException) as error:
            self.news.put(ConnectionLostError(f"the connection ended before the answer ({_reason(error)})"))
        except Exception as error:  # noqa: BLE001 - whoever waits for news must not wait for ever
            self.news.put(WrongAnswerError(f"the answer cannot be read ({_reason(error)})"))

    def _exchange(self) -> None:
        request = self._request
        connection_type = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        connection = connection_type(self._host, self._port)
        connection.sock = self._connect()
        try:
            # One who refuses may do so before it has read everything; its answer can be read all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(request.method, self._target, request.body or None, self._headers())
            for news in self._read(connection.getresponse()):
                self.news.put(news)
            self.news.put(_Ended())
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        key = self._endpoint.key
        return {**self._request.headers, **({} if key is None else {KEY_HEADER: key})}

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


def read_events(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The data of the events of a stream, as they come.

    Raises:
        WrongAnswerError: it is larger than any answer may be.
    """
    events = EventStream(LARGEST_ANSWER)
    while piece := response.read1(_PIECE):
        yield from events.feed(piece)


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


def read_bounded(response: http.client.HTTPResponse, most: int) -> bytes:
    """The whole body.

    Raises:
        WrongAnswerError: it has more bytes than that.
    """
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > most:
            raise WrongAnswerError(f"the answer is larger than {most // 1024**2} MiB")
        pieces.append(piece)
    return b"".join(pieces)


def refusal(response: http.client.HTTPResponse) -> CallError:
    """The error that an answer with another status than 200 stands for."""
    status = response.status
    body = b""
    with contextlib.suppress(OSError, http.client.HTTPException, WrongAnswerError):
        body = read_bounded(response, LARGEST_REFUSAL)
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
