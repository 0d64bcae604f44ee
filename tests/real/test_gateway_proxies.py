"""The files of `deploy/proxy/` in the real nginx and the real Caddy: what they pass on, what they end and refuse.

What is behind them is an application that says what it was sent, and streams as slowly as a test wants; then a gateway.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceUpdatedNotification

from fakes.loopback import Loopback, has_text, serve
from support.clients import ERAS, Era
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway
from support.ports import free_ports
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

NAME = "agents.example.com"
"""In the files."""
CHALLENGE = 'Bearer resource_metadata="https://agents.example.com/.well-known/oauth-protected-resource/mcp"'
PATIENCE = 20.0
"""Seconds that only a failing test takes."""
SHORT = {
    "client_header_timeout 15s": "client_header_timeout 1s",
    "client_body_timeout 30s": "client_body_timeout 1s",
    "send_timeout 60s": "send_timeout 1s",
    "read_header 15s": "read_header 1s",
}
"""What would make a test wait, made short."""


class Behind:
    """Answers to what has a token; `/stream` sends a piece whenever the test allows one, `/flood` all at once."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._allowed = asyncio.Semaphore(0)

    def allow(self) -> None:
        """Have the stream send its next piece; from another thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._allowed.release)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        if scope["type"] == "lifespan":
            while True:
                await send({"type": f"{(await receive())['type']}.complete"})
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"] in ("/stream", "/flood"):
            answer = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": answer})
            for number in range(1000):
                piece = b"x" * 65536
                if scope["path"] == "/stream":
                    await self._allowed.acquire()
                    piece = f"data: {number}\n\n".encode()
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        known = "authorization" in headers
        answer = [] if known else [(b"www-authenticate", CHALLENGE.encode())]
        await send({"type": "http.response.start", "status": 200 if known else 401, "headers": answer})
        await send({"type": "http.response.body", "body": b"answered"})


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs, and what is behind it."""

    name: str
    port: int
    plain_port: int
    behind: Loopback
    app: Behind
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.port}"

    @property
    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)

    def post(
        self, path: str = "/mcp", content: bytes = b"{}", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return httpx.post(
            f"{self.url}{path}", content=content, headers=headers or {}, verify=self.trusted, timeout=PATIENCE
        )

    def connect(self) -> ssl.SSLSocket:
        """A connection to write to by hand."""
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        return self.trusted.wrap_socket(plain, server_hostname=NAME)


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp(request.param)
    app = Behind()
    with serve(app) as behind, running(request.param, folder, behind.port) as (port, plain_port):
        yield Proxy(request.param, port, plain_port, behind, app, folder / "certificate.pem")


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the files is this machine's."""
    usual = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        return usual("127.0.0.1" if host in (NAME, NAME.encode()) else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@contextmanager
def running(name: str, folder: Path, behind: int) -> Iterator[tuple[int, int]]:
    """Run a proxy by its file, before what listens on that port; its ports with and without TLS."""
    if shutil.which(name) is None:
        message = f"not run: needs {name} (apt-get install {'nginx-light' if name == 'nginx' else name})"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    make_certificate(folder)
    port, plain_port = free_ports(2)
    write = write_nginx if name == "nginx" else write_caddy
    command = write(folder, port, plain_port, behind)
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        await_port(port, process, folder / "log.txt")
        yield port, plain_port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def make_certificate(folder: Path) -> None:
    subject = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", "key.pem", "-out", "certificate.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def write_nginx(folder: Path, port: int, plain_port: int, behind: int) -> list[str]:
    """The file, included as Debian's nginx includes it."""
    changed = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "listen 80;": f"listen 127.0.0.1:{plain_port};",
        "/etc/nginx/pallas/": f"{folder}/",
        "127.0.0.1:24199": f"127.0.0.1:{behind}",
    }
    (folder / "site.conf").write_text(replaced("nginx.conf", {**changed, **SHORT}))
    temporary = "".join(f"{each}_temp_path {each};" for each in ("proxy", "fastcgi", "uwsgi", "scgi"))
    around = f"client_body_temp_path body; {temporary} access_log off; include site.conf;"
    (folder / "nginx.conf").write_text(f"pid nginx.pid; daemon off; events {{}} http {{ {around} }}")
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", "nginx.conf"]


def write_caddy(folder: Path, port: int, plain_port: int, behind: int) -> list[str]:
    """The file, with a certificate of the test's and other ports."""
    ports = f"{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\thttp_port {plain_port}\n\thttps_port {port}\n\tservers {{"
    changed = {
        "{\n\tservers {": ports,
        f"\n{NAME} {{": f"\n{NAME} {{\n\ttls certificate.pem key.pem",
        "127.0.0.1:24199": f"127.0.0.1:{behind}",
    }
    (folder / "Caddyfile").write_text(replaced("Caddyfile", {**changed, **SHORT}))
    return ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]


def replaced(file: str, changed: Mapping[str, str]) -> str:
    """A file of `deploy/proxy/` with other texts in place of some."""
    text = (ROOT / "deploy" / "proxy" / file).read_text()
    for old, new in changed.items():
        assert old in text or old in SHORT, old
        text = text.replace(old, new)
    return text


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        assert process.poll() is None, log.read_text()
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        pause.wait(0.05)
    raise AssertionError(log.read_text())


def test_what_a_client_sends_arrives_as_it_was_sent(proxy: Proxy) -> None:
    sent = {
        "authorization": "Bearer plls_human_x",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "ping",
    }
    assert proxy.post("/mcp/agents/jarvis", b'{"id": 1}', sent).text == "answered"
    arrived = proxy.behind.requests[-1]
    assert (arrived.path, arrived.body) == ("/mcp/agents/jarvis", b'{"id": 1}')
    assert sent.items() <= arrived.headers.items()
    assert arrived.headers["host"].split(":")[0] == NAME


def test_without_a_token_the_client_learns_where_to_get_one(proxy: Proxy) -> None:
    refused = proxy.post()
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, CHALLENGE)


def test_a_stream_goes_on_piece_by_piece_and_its_end_is_told(proxy: Proxy) -> None:
    with httpx.stream("POST", f"{proxy.url}/stream", content=b"a stream", verify=proxy.trusted) as answer:
        pieces = answer.iter_text()
        for number in range(3):
            proxy.app.allow()  # the next one is sent when this one has come
            assert next(pieces) == f"data: {number}\n\n"
    proxy.behind.wait_for_gone(lambda gone: has_text("a stream", gone))


def test_a_client_that_sends_slowly_is_left_while_others_are_served(proxy: Proxy) -> None:
    body = f"POST /mcp HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 9\r\n\r\nslow"
    # Caddy passes bodies on as they come: the gateway's own limit counts.
    for begun in [body.split("\r\n\r\n")[0], *([body] if proxy.name == "nginx" else [])]:
        with proxy.connect() as slow:
            slow.sendall(begun.encode())
            assert proxy.post(headers={"authorization": "Bearer x"}).text == "answered"
            assert b"200 OK" not in b"".join(iter(lambda: receive(slow), b""))
    assert not has_text("slow", proxy.behind.requests)


def receive(connection: ssl.SSLSocket) -> bytes:
    """What comes next; nothing at the connection's end, however it ends."""
    try:
        return connection.recv(4096)
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize(
    "proxy", ["nginx"], indirect=True
)  # Caddy has no such limits: the gateway's own count
def test_who_does_not_read_is_left_and_what_is_too_large_refused(proxy: Proxy) -> None:
    with proxy.connect() as slow:
        slow.sendall(f"POST /flood HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 9\r\n\r\nno reader".encode())
        proxy.behind.wait_for_gone(lambda gone: has_text("no reader", gone), PATIENCE)
    before = len(proxy.behind.requests)
    assert proxy.post(content=bytes(33 * 2**20)).status_code == 413
    assert len(proxy.behind.requests) == before


def test_nothing_is_passed_on_without_tls(proxy: Proxy) -> None:
    refused = httpx.post(f"http://{NAME}:{proxy.plain_port}/mcp", headers={"authorization": "Bearer x"})
    assert refused.status_code == 403
    assert "https" in refused.text


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("fleet"))
    with_gateway(deployment, public_url=f"https://{NAME}", workers="behind")
    with Fleet(deployment) as fleet:
        await_gateway(fleet)
        yield fleet


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_a_client_follows_agents_by_the_public_name(fleet: Fleet, tmp_path: Path, name: str) -> None:
    token = operator_token(fleet)
    behind = fleet.deployment.document["gateway"]["port"]
    with running(name, tmp_path, behind) as (port, _):
        url = f"https://{NAME}:{port}"
        trusted = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        refused = httpx.post(f"{url}/mcp", json={}, verify=trusted)
        assert refused.status_code == 401
        found = re.search(f'resource_metadata="https://{NAME}(/[^"]+)"', refused.headers["www-authenticate"])
        assert found is not None
        assert httpx.get(f"{url}{found[1]}", verify=trusted).json()["resource"] == f"https://{NAME}/mcp"
        assert httpx.get(f"{url}/health", verify=trusted).json() == {"status": "ok"}
        for era in ERAS:
            asyncio.run(follow(f"{url}/mcp", trusted, token, era))


async def follow(url: str, trusted: ssl.SSLContext, token: str, era: Era) -> None:
    """Subscribe to the list of agents, change it, and be told."""
    told = asyncio.Event()
    agents = "resource://agents/list"
    spec = {"description": "Repeats", "model": "passthrough", "systemPrompt": "You repeat."}

    async def take(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.set()

    async with (
        asyncio.timeout(PATIENCE),
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, verify=trusted, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, message_handler=take) as client,
    ):
        if era == "auto":
            lost = 0
            while True:
                try:
                    async with client.listen(resource_subscriptions=[agents]) as changes:
                        await client.call_tool("agents_create", {"name": "made", "spec": spec})
                        await anext(changes)
                except (SubscriptionLost, MCPError):
                    # Caddy 2.6 now and then closes its own connection to what is behind it; clients listen again.
                    lost += 1
                    assert lost < 3
                    await client.call_tool("agents_delete", {"name": "made"})
                else:
                    break
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the newer era's way
                await client.subscribe_resource(agents)
            await client.call_tool("agents_create", {"name": "made", "spec": spec})
            await told.wait()
        assert not (await client.call_tool("agents_delete", {"name": "made"})).is_error
