"""URLs of servers and models that are written over the gateway: without a right they lead nowhere on this machine."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, make_token, with_gateway
from support.supervisor.declared import document

if TYPE_CHECKING:
    from collections.abc import Iterator

INSIDE = "what only this machine may know"
WRITER = (
    *(
        "create:resources",
        "edit:resources",
        "view:resources",
        "run:resources",
        "create:agents",
        "edit:agents",
    ),
    *("view:agents", "run:agents:mine*", "view:projects", "run:projects", "create:projects"),
)


class Listener(NamedTuple):
    """A service of this machine, on all of its addresses."""

    port: int
    asked: list[str]
    """The requests that have come."""


@contextmanager
def listening() -> Iterator[Listener]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            body = INSIDE.encode()
            self.send_response(418)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Listener(server.server_address[1], asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def own_name() -> str:
    """By which the machine reaches itself, and which does not look like it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("198.51.100.1", 9))
        except OSError:
            return socket.gethostname()
        return str(asked.getsockname()[0])


class Deployed(NamedTuple):
    """A deployment, its operator, and somebody who may declare things and not open the network."""

    fleet: Fleet
    operator: Door
    writer: Door
    listener: Listener


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
    directory = tmp_path_factory.mktemp("network") / "fleet"
    deployment = with_gateway(make_deployment(directory, "secretive"), limits=limits)
    deployment.settings["llm_retries"] = 0
    deployment.write()
    with listening() as listener, Fleet(deployment) as fleet:
        await_gateway(fleet)
        operator = door(fleet)
        yield Deployed(fleet, operator, door(fleet, make_token(fleet, "writer", *WRITER)), listener)


def put(door: Door, kind: str, name: str, **spec: object) -> tuple[int, dict[str, object]]:
    content = document(kind, name, **spec)  # type: ignore[arg-type]
    answer = door.rest("PUT", f"/resources/{kind}/{name}", content=content.encode())
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ],
)
@pytest.mark.parametrize("kind", ["server", "llm"])
def test_a_url_that_plainly_leads_here_is_refused(deployed: Deployed, kind: str, host: str) -> None:
    spec: dict[str, object] = {"url": f"http://{host}:24201/mcp"}
    spec |= {"type": "openai", "model": "m"} if kind == "llm" else {}
    status, said = put(deployed.writer, kind, "plain", **spec)
    assert (status, "edit:network" in json.dumps(said)) == (403, True)
    text = document(kind, "plain", **spec)  # type: ignore[arg-type]
    applied = deployed.writer.rest("POST", "/resources", json={"files": [{"file": "f", "text": text}]})
    assert applied.status_code == 403


def test_an_agent_with_a_server_and_a_model_that_lead_here_reaches_neither(deployed: Deployed) -> None:
    writer, listener, name = deployed.writer, deployed.listener, own_name()
    secretive = deployed.fleet.deployment.agents["secretive"]["port"]
    declare(writer, listener.port, name)
    put(writer, "secret", "place", data={"HOST": "localhost"})
    for server, url in (
        ("named", f"http://{name}:{listener.port}/mcp"),
        ("hidden", f"http://${{secret:place/HOST}}:{listener.port}/mcp"),
        ("agent", f"http://${{secret:place/HOST}}:{secretive}/mcp"),
        ("streamed", f"http://${{secret:place/HOST}}:{listener.port}/sse"),
    ):
        more = {"transport": "sse"} if server == "streamed" else {}
        assert put(writer, "server", server, url=url, **more)[0] == 201
    servers = ["named", "hidden", "agent", "streamed"]
    assert put(writer, "project", "team", servers=servers)[0] == 201
    assert put(writer, "agent", "mine", description="Mine", llm="near", servers=servers)[0] == 201

    answer = writer.rest("POST", "/agents/mine/chat", json={"message": "hello", "stream": False})
    assert answer.status_code in (502, 503), answer.text
    assert INSIDE not in answer.text
    described = deployed.fleet.get("/v1/describe/mine").text
    assert INSIDE not in described
    project = Door(writer.url, writer.token, path="/mcp/projects/team")
    deployed.fleet.await_that(lambda: project.ask("tools/list").status == 200, "the project is known")
    assert project.names("tools") == []
    assert listener.asked == []


def declare(writer: Door, port: int, name: str) -> None:
    status, said = put(writer, "llm", "near", type="openai", model="m", url=f"http://{name}:{port}/v1")
    assert status == 201
    assert said["metadata"]["network"] == "closed"  # type: ignore[index]


def test_who_has_the_right_may_write_it(deployed: Deployed) -> None:
    listener = deployed.listener
    status, said = put(deployed.operator, "server", "local", url=f"http://localhost:{listener.port}/mcp")
    assert (status, said["metadata"]["network"]) == (201, "open")  # type: ignore[index]
    assert put(deployed.operator, "project", "local", servers=["local"])[0] == 201
    project = Door(deployed.operator.url, deployed.operator.token, path="/mcp/projects/local")
    before = len(listener.asked)
    deployed.fleet.await_that(
        lambda: project.ask("tools/list").status == 200 and len(listener.asked) > before, "it is asked"
    )
    changed = {"description": "another text", "url": f"http://localhost:{listener.port}/mcp"}
    status, said = put(deployed.writer, "server", "local", **changed)
    assert status == 403  # it still leads here


@pytest.mark.parametrize("kind", ["openai", "responses", "anthropic", "generic", "google"])
def test_no_providers_client_asks_what_is_near(deployed: Deployed, kind: str) -> None:
    writer, listener = deployed.writer, deployed.listener
    url = f"http://{own_name()}:{listener.port}/{kind}"
    spec = {"type": kind, "model": "m", "url": url, "apiKeyRef": "key/API_KEY"}
    put(writer, "secret", "key", data={"API_KEY": "sk-some-key-of-a-test"})
    # Who may is asked as well, or the test would show nothing.
    for who, is_asked in ((writer, False), (deployed.operator, True)):
        name = f"mine-{kind}-{is_asked}".lower()
        assert put(who, "llm", name, **spec)[0] == 201
        assert put(who, "agent", name, description="Mine", llm=name)[0] == 201
        answer = who.rest("POST", f"/agents/{name}/chat", json={"message": "hello", "stream": False})
        assert answer.status_code in (502, 503), answer.text
        assert any(f" /{kind}" in each for each in listener.asked) is is_asked
        assert is_asked or INSIDE not in answer.text
