"""A call against a server that answers what a test tells it to, byte for byte."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from fakes.agent_server import CHUNKED, EVENTS, JSON, PATIENCE, PROGRESS, RESULT, Server, answer, serving
from pallas_control.mcp import errors
from pallas_control.mcp.client import call
from pallas_control.mcp.exchange import Endpoint
from pallas_control.mcp.messages import Answer, Progress, Question

if TYPE_CHECKING:
    from pathlib import Path


def ask(url: str, *, is_local: bool = False) -> list[Progress | Answer]:
    """All that comes of a call."""
    news = call(Endpoint(url, is_local=is_local), Question("hi"), timeout=PATIENCE)
    return [item for item in news if item is not None]


def fails(kind: type[errors.CallError], *pieces: str) -> errors.CallError:
    """How a call fails that is answered so."""
    with serving(*pieces) as server, pytest.raises(errors.CallError) as failure:
        ask(server.url)
    assert type(failure.value) is kind, failure.value
    return failure.value


def test_the_request() -> None:
    with serving(answer("200 OK", RESULT, JSON)) as server:
        ask(server.url)
    head = server.request.partition(b"\r\n\r\n")[0].decode().splitlines()
    assert head[0] == "POST /mcp HTTP/1.1"
    assert f"Host: {server.url.split('/')[2]}" in head
    assert {"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: send_message"} < set(
        head
    )


def test_a_call_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.sock")
    response = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(RESULT)}\r\n\r\n{RESULT}"
    ).encode()
    heads: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            heads.append(connection.recv(65536))
            connection.sendall(response)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        endpoint = Endpoint("http://localhost/mcp", is_local=True, socket=path)
        news = list(call(endpoint, Question("hi"), timeout=PATIENCE))
        thread.join()
    assert news[-1] == Answer(("fine",))
    assert heads[0].startswith(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
    with pytest.raises(errors.NoConnectionError, match=f"^nothing answers at {path}: Connection refused$"):
        list(call(endpoint, Question("hi"), timeout=PATIENCE))


def test_a_unix_socket_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden(socket.socket):
        def connect(self, _address: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "agent.sock"
    monkeypatch.setattr(socket, "socket", Forbidden)
    with pytest.raises(errors.NoConnectionError) as failure:
        list(call(Endpoint("http://localhost/mcp", socket=str(path)), Question("hi"), timeout=PATIENCE))
    owner = tmp_path.owner()
    assert str(failure.value) == (
        f"it has no port, and its socket is for {owner} alone: {path}; ask as that user, such as with "
        f"`sudo -u {owner}`, or give the agent a port (`run: {{port: N}}`)"
    )


@pytest.mark.parametrize("path", ["", "/"])
def test_a_url_without_a_path(path: str) -> None:
    with serving(answer("200 OK", RESULT, JSON)) as server:
        ask(server.url.removesuffix("/mcp") + path)
    assert server.request.startswith(b"POST /mcp ")


def test_an_answer_as_json() -> None:
    with serving(answer("200 OK", RESULT, JSON)) as server:
        assert ask(server.url) == [Answer(("fine",))]


def test_an_answer_as_events() -> None:
    with serving(EVENTS, f"data: {PROGRESS}\n", "\n", f"data: {RESULT}\n\n") as server:
        assert ask(server.url) == [Progress(1, None, "step"), Answer(("fine",))]


def test_events_that_are_parted_anywhere() -> None:
    stream = f": ping\r\n\r\nevent: message\r\ndata: {PROGRESS}\r\n\r\ndata: {RESULT}\r\n\r\n"
    chunks = [
        f"{len(part):x}\r\n{part}\r\n" for part in (stream[i : i + 3] for i in range(0, len(stream), 3))
    ]
    with serving(CHUNKED, *chunks, "0\r\n\r\n") as server:
        assert ask(server.url) == [Progress(1, None, "step"), Answer(("fine",))]


def test_the_answer_ends_a_call_whose_connection_stays_open() -> None:
    with serving(EVENTS, f"data: {RESULT}\n\n", stay=True) as server:
        assert ask(server.url) == [Answer(("fine",))]
    assert server.gone.is_set()


def test_who_does_not_read_on_closes_the_connection() -> None:
    with serving(EVENTS, f"data: {PROGRESS}\n\n", stay=True) as server:
        with contextlib.closing(call(Endpoint(server.url), Question("hi"), timeout=PATIENCE)) as news:
            assert any(isinstance(item, Progress) for item in news)
        assert server.gone.wait(PATIENCE)


def test_no_answer_in_time() -> None:
    with serving(EVENTS, stay=True) as server:
        with pytest.raises(errors.LateError, match=r"no answer within 0\.01 s; the call was cancelled"):
            list(call(Endpoint(server.url), Question("hi"), timeout=0.01))
        assert server.gone.wait(PATIENCE)


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        ["HTTP/1.1 2"],
        [EVENTS],
        [EVENTS, f"data: {PROGRESS}\n\n", f"data: {RESULT}"],
        [CHUNKED, "ff\r\ndata: "],
    ],
)
def test_a_connection_that_ends_early(pieces: list[str]) -> None:
    assert "the connection ended before the answer" in fails(errors.ConnectionLostError, *pieces).message


@pytest.mark.parametrize(
    "pieces",
    [
        [answer("200 OK", "<html>", "Content-Type: text/html")],
        [answer("200 OK", RESULT)],
        [answer("200 OK", "<html>", JSON)],
        [answer("200 OK", PROGRESS, JSON)],
        [EVENTS, "data: nonsense\n\n"],
        [EVENTS, "data: {}\n\ndata: [\n\n"],
    ],
)
def test_what_is_no_mcp(pieces: list[str]) -> None:
    fails(errors.WrongAnswerError, *pieces)


def test_a_line_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_control.mcp.exchange.LARGEST_ANSWER", 1024**2)
    assert "larger than 1 MiB" in fails(errors.WrongAnswerError, EVENTS, "data: " + "x" * 2**21).message


@pytest.mark.parametrize("garbage", ["\x00\x01\x02\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/9 x\r\n\r\n"])
def test_what_is_no_http(garbage: str) -> None:
    fails(errors.ConnectionLostError, garbage)


def test_an_agent_that_is_down() -> None:
    body = json.dumps({"error": {"code": -32000, "message": "agent a is stopped"}})
    error = fails(errors.UnavailableError, answer("503 Service Unavailable", body, JSON, "Retry-After: 30"))
    assert (error.message, error.retry_after) == ("agent a is stopped", 30)


@pytest.mark.parametrize("value", ["soon", "-1", "٣", "9" * 5000])
def test_a_retry_after_that_is_no_number(value: str) -> None:
    response = answer("503 x", "").replace("\r\n\r\n", f"\r\nRetry-After: {value}\r\n\r\n")
    error = fails(errors.UnavailableError, response)
    assert error.retry_after is None


@pytest.mark.parametrize(
    ("response", "kind", "said"),
    [
        (answer("429 Too Many Requests", "", "Retry-After: 2"), errors.BusyError, "too many calls"),
        (answer("413 Content Too Large", "x"), errors.TooLargeError, "max_request_bytes"),
        (answer("421 x", "not\x1b  reached"), errors.RefusedCallError, "HTTP status 421: not\x1b reached"),
        (answer("500 x", ""), errors.RefusedCallError, "refused with HTTP status 500"),
        (answer("404 x", '{"error": {"message": "no"}}'), errors.RefusedCallError, "HTTP status 404: no"),
        (
            answer("307 x", "", "Location: http://b/mcp"),
            errors.RefusedCallError,
            "redirects to 'http://b/mcp'",
        ),
        (answer("400 x", "x" * 100_000), errors.RefusedCallError, "refused with HTTP status 400"),
    ],
)
def test_refusals(response: str, kind: type[errors.CallError], said: str) -> None:
    error = fails(kind, response)
    assert said in error.message
    assert len(error.message) < 1000


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        errors.NoConnectionError, match=rf"nothing answers at http://127\.0\.0\.1:{port}/mcp: Conn"
    ):
        ask(f"http://127.0.0.1:{port}/mcp")


def test_a_name_that_leads_nowhere_is_found_on_loopback_if_it_is_local() -> None:
    with serving(answer("200 OK", RESULT, JSON)) as server:
        url = server.url.replace("127.0.0.1", "x" * 64 + ".example")  # longer than any label of a name may be
        with pytest.raises(errors.NoConnectionError):
            ask(url)
        assert ask(url, is_local=True) == [Answer(("fine",))]
    assert f"Host: {url.split('/')[2]}".encode() in server.request


def test_ipv6() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        server = Server(listener, [answer("200 OK", RESULT, JSON)], stay=False)
        server.thread.start()
        port = listener.getsockname()[1]
        assert ask(f"http://[::1]:{port}/mcp") == [Answer(("fine",))]
        server.thread.join(PATIENCE)
    assert f"Host: [::1]:{port}".encode() in server.request


@pytest.mark.parametrize("url", ["ftp://a/mcp", "http:///mcp", "http://[::1/mcp", "http://a:99999/mcp"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|Port"):
        ask(url)
